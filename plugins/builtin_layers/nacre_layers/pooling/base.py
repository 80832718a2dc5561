"""The windows of a pooling layer along each axis, and the arrays to compute them in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from nacre import Array, ConfigError, LayerState, spread

from .functions import Windows

if TYPE_CHECKING:
    from .functions import PoolingFunction
    from .pooling import PoolingLayer


@dataclass(frozen=True)
class Axis:
    """How to pool one axis: its `index`, and the sizes along it; `pad` is before the image, `tail` after it."""

    index: int
    length: int
    kernel: int
    stride: int
    pad: int
    windows: int
    tail: int

    @property
    def reach(self) -> int:
        """Number of cells from the first window's begin to the last one's end, or to the end of the padded image."""
        return max((self.windows - 1) * self.stride + self.kernel, self.pad + self.length + self.tail)

    def counts(self, what: str) -> list[int]:
        """Count the cells of each window inside the "kernel", the "padded" image or the "image"."""
        low, high = {"kernel": (-self.reach, 2 * self.reach), "image": (0, self.length)}.get(
            what, (-self.pad, self.length + self.tail)
        )
        starts = [number * self.stride - self.pad for number in range(self.windows)]
        return [min(start + self.kernel, high) - max(start, low) for start in starts]


def make_axis(where: str, index: int, length: int, sizes: tuple[int, int, int, int], rounding: str) -> Axis:
    """Make an axis of (kernel, stride, pad in front, pad behind); a last window outside the image is dropped.

    Raises:
        ConfigError: the sizes do not fit the bottom.
    """
    kernel, stride, pad, tail = sizes
    if max(pad, tail) >= kernel:
        raise ConfigError(f"{where}: pad={max(pad, tail)} must be below kernel={kernel}, or a window has only padding")
    free = length + pad + tail - kernel
    windows = (-(-free // stride) if rounding == "ceil" else free // stride) + 1
    if (windows - 1) * stride >= length + pad:
        windows -= 1
    if windows < 1:
        raise ConfigError(
            f"{where}: kernel={kernel} is larger than the padded image, {length + pad + tail} along axis {index}"
        )
    return Axis(index, length, kernel, stride, pad, windows, tail)


def pooled_axes(layer: PoolingLayer, shape: Sequence[int]) -> list[Axis]:
    """Return the axes of a bottom that are pooled.

    Raises:
        ConfigError: the sizes do not fit the bottom.
    """
    indices = layer.axes or tuple(range(2, len(shape)))
    if not indices or max(indices) >= len(shape):
        raise ConfigError(
            f"{layer.name}: the bottom of shape {tuple(shape)} has no axes {indices or 'after the channels'}"
        )
    if layer.whole:
        return [Axis(index, shape[index], shape[index], 1, 0, 1, 0) for index in indices]
    sizes = [
        spread(getattr(layer, name), len(indices), f"{layer.name}: {name}") for name in ("kernel", "stride", "pad")
    ]
    return [
        make_axis(layer.name, index, shape[index], (kernel, stride, pad, pad), layer.rounding)
        for index, kernel, stride, pad in zip(indices, *sizes, strict=True)
    ]


class Pools(LayerState, reads="inputs blobs"):
    """The common state of pooling layers: the work on each bottom, along the axes of `axes_of`.

    A bottom is pooled in one way or, in a pyramid, in several.
    """

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reads = layer.pooling.reads
        self.random = backend.random(layer.name)
        self.axes = [self.axes_of(layer, one.shape) for one in inputs]
        self.shapes = [
            [pooled_shape(one.shape, axes) for axes in its] for one, its in zip(inputs, self.axes, strict=True)
        ]
        self.blobs = [backend.blob(self.top(shapes)) for shapes in self.shapes]

    @staticmethod
    def axes_of(layer: Any, shape: Sequence[int]) -> list[list[Axis]]:
        """Return the pooled axes of a bottom, once for each way of pooling it."""
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
                Work(self.backend, self.layer.pooling, axes, shape, partial(self.random.uniform, draw=next(numbers)))
                for axes, shape in zip(*both, strict=True)
            ]
            for both in zip(self.axes, self.shapes, strict=True)
        ]

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


def pooled_shape(shape: Sequence[int], axes: list[Axis]) -> tuple[int, ...]:
    """Return the shape of the summaries of a bottom's windows."""
    pooled = list(shape)
    for axis in axes:
        pooled[axis.index] = axis.windows
    return tuple(pooled)


class Work:
    """The padded bottom, its gradient, and the views of both."""

    def __init__(self, backend: Any, pooling: PoolingFunction, axes: list[Axis], top: Sequence[int], draw: Any) -> None:
        self.backend, self.pooling, self.draw = backend, pooling, draw
        shape, inside = list(top), [slice(None)] * len(top)
        for axis in axes:
            shape[axis.index] = axis.reach
            inside[axis.index] = slice(axis.pad, axis.pad + axis.length)
        self.inside = tuple(inside)
        self.padded, self.gradient = backend.empty(shape), backend.empty(shape)
        self.padded[...] = pooling.fill
        cells, self.gradients = [], []
        for offsets in itertools.product(*(range(axis.kernel) for axis in axes)):
            cell = [slice(None)] * len(top)
            for axis, offset in zip(axes, offsets, strict=True):
                cell[axis.index] = slice(offset, offset + (axis.windows - 1) * axis.stride + 1, axis.stride)
            cells.append(self.padded[tuple(cell)])
            self.gradients.append(self.gradient[tuple(cell)])
        sizes = {what: self._sizes(axes, len(top), what) for what in ("kernel", "padded", "image")}
        self._windows = Windows(cells, sizes, draw)

    @property
    def windows(self) -> Windows:
        """The windows, for the phase of this pass, in which an algorithm may run a net of another phase."""
        self._windows.draw = self.draw if self.backend.phase == "train" else None
        return self._windows

    def _sizes(self, axes: list[Axis], ndim: int, what: str) -> Array:
        import numpy as np

        sizes = np.ones([1] * ndim)
        for axis in axes:
            along = np.array(axis.counts(what)).reshape([-1 if index == axis.index else 1 for index in range(ndim)])
            sizes = sizes * along
        array = self.backend.empty(sizes.shape)
        self.backend.from_host(sizes.astype(str(array.dtype)), array)
        return array

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
