"""The common state of pooling layers, and the arrays to compute it in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nacre import Array, Box, ConfigError, LayerState, spread

from ..windows import WindowAxis, WindowGrid
from .functions import Windows

if TYPE_CHECKING:
    from .functions import PoolingFunction
    from .pooling import PoolingLayer


def checked(layer: Any, index: int, axis: WindowAxis) -> WindowAxis:
    """Return the windows along an axis of a bottom if each of them has a pixel of the image.

    Raises:
        ConfigError: the sizes do not fit the bottom.
    """
    pad = max(axis.pad, axis.tail)
    if pad >= axis.kernel:
        raise ConfigError(f"{layer.name}: pad={pad} must be below kernel={axis.kernel}, or a window has only padding")
    if axis.count < 1:
        raise ConfigError(
            f"{layer.name}: kernel={axis.kernel} is larger than the padded image, {axis.padded} along axis {index}"
        )
    return axis


def pooled_axes(layer: PoolingLayer, shape: Sequence[int]) -> dict[int, WindowAxis]:
    """Return the windows along each axis of a bottom that is pooled, by its index.

    Raises:
        ConfigError: the sizes do not fit the bottom.
    """
    indices = layer.axes or tuple(range(2, len(shape)))
    if not indices or max(indices) >= len(shape):
        raise ConfigError(
            f"{layer.name}: the bottom of shape {tuple(shape)} has no axes {indices or 'after the channels'}"
        )
    if layer.whole:
        return {index: WindowAxis(shape[index], shape[index]) for index in indices}
    sizes = [
        spread(getattr(layer, name), len(indices), f"{layer.name}: {name}") for name in ("kernel", "stride", "pad")
    ]
    return {
        index: checked(layer, index, WindowAxis(shape[index], kernel, stride, pad, pad, rounding=layer.rounding))
        for index, kernel, stride, pad in zip(indices, *sizes, strict=True)
    }


class Pools(LayerState, reads="inputs blobs"):
    """The common state of pooling layers: the work on each bottom, along the axes of `axes_of`.

    A bottom is pooled in one way or, in a pyramid, in several.
    """

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reads = layer.pooling.reads
        self.random = backend.random(layer.name)
        self.boxes = [one.box for one in inputs]
        self.grids = [[WindowGrid(one.shape, axes) for axes in self.axes_of(layer, one.shape)] for one in inputs]
        self.shapes = [[grid.counts for grid in grids] for grids in self.grids]
        self.blobs = [backend.blob(self.top(shapes)) for shapes in self.shapes]

    @property
    def capturable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """Whether a device may record it."""
        return self.layer.pooling.can_be_recorded(self.backend)

    @staticmethod
    def axes_of(layer: Any, shape: Sequence[int]) -> list[dict[int, WindowAxis]]:
        """Return the windows along the pooled axes of a bottom, once for each way of pooling it."""
        raise NotImplementedError

    def top(self, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
        """Return the shape of the top, from those of the bottom's summaries."""
        return shapes[0]

    def parts(self, top: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
        """Return the views of a top that hold the summaries."""
        return [top]

    def ready(self) -> None:
        numbers = itertools.count()
        self.works = [
            [
                Work(self.backend, self.layer.pooling, grid, partial(self._draw, box, grid.counts, next(numbers)))
                for grid in grids
            ]
            for grids, box in zip(self.grids, self.boxes, strict=True)
        ]

    def _draw(self, box: Box | None, counts: Sequence[int], draw: int, out: Array) -> None:
        """Fill an array with the random numbers of a summary, or of a part of the whole net's."""
        if box is None:
            self.random.uniform(out, draw)
        else:  # records and channels are not pooled
            start = (*box.start[:2], *(0 for _ in counts[2:]))
            self.random.uniform(out, draw, whole=(*box.whole[:2], *counts[2:]), start=start)

    def forward(self, inputs: list[Array]) -> None:
        for x, y, works, shapes in zip(inputs, self.blobs, self.works, self.shapes, strict=False):  # masks come last
            for work, part in zip(works, self.parts(y, shapes), strict=True):
                work.forward(x, part)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for index, (x, dx) in enumerate(zip(inputs, diffs, strict=True)):
            if dx is None:
                continue
            y, dy = (self.parts(one[index], self.shapes[index]) for one in (self.blobs, self.blobs_diff))
            for number, work in enumerate(self.works[index]):
                gradient = work.backward(x, y[number], dy[number])
                if number == 0:
                    self.backend.xp.copyto(dx, gradient)
                else:
                    self.backend.xp.add(dx, gradient, out=dx)


class Work:
    """The padded bottom, its gradient, and the views of both."""

    def __init__(self, backend: Any, pooling: PoolingFunction, grid: WindowGrid, draw: Any) -> None:
        self.backend, self.pooling, self.inside, self.draw = backend, pooling, grid.image, draw
        self.padded, self.gradient = backend.empty(grid.padded), backend.empty(grid.padded)
        self.padded[...] = pooling.fill
        self.gradients = [self.gradient[cell] for cell in grid.cells]
        sizes = {within: self._sizes(grid, within) for within in ("kernel", "padded", "image")}
        self._windows = Windows([self.padded[cell] for cell in grid.cells], sizes, draw)

    @property
    def windows(self) -> Windows:
        """The windows, for the phase of this pass, in which an algorithm may run a net of another phase."""
        self._windows.draw = self.draw if self.backend.phase == "train" else None
        return self._windows

    def _sizes(self, grid: WindowGrid, within: str) -> Array:
        import numpy as np

        sizes = np.ones([1] * len(grid.shape))
        for index, axis in grid.axes.items():
            sizes = sizes * grid.along(index, np.array(axis.sizes(within)))
        return self.backend.constant(sizes)

    def forward(self, x: Array, y: Array) -> None:
        """Write the summary of every window of x."""
        self.backend.xp.copyto(self.padded[self.inside], x)
        self.pooling.forward(self.backend, self.windows, y)

    def backward(self, x: Array, y: Array, dy: Array) -> Array:
        """Return the gradient of x, valid until the next call."""
        if "inputs" in self.pooling.reads:
            self.backend.xp.copyto(self.padded[self.inside], x)
        self.gradient[...] = 0
        self.pooling.backward(self.backend, self.windows, y, dy, self.gradients)
        return self.gradient[self.inside]
