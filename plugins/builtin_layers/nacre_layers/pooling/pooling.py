"""Pooling: the maximum, the mean, or another summary of windows, for each channel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from nacre import (
    Array,
    Check,
    Identity,
    Layer,
    Names,
    Neuron,
    Shape,
    Sizes,
    at_least,
    default,
    non_negative,
    positive,
)

from ..cutting import uncut
from ..windows import WindowAxis, WindowGrid
from .base import Pools, pooled_axes
from .functions import Max, PoolingFunction


def _once_or_twice(tops: Any, layer: Any) -> str | None:
    count = len(layer.bottoms)
    if len(tops) in (count, 2 * count):
        return None
    return f"it needs {count}, one for each bottom, or {2 * count} with masks"


once_or_twice = Check(_once_or_twice, "as many as bottoms, or twice as many", like="bottoms")


class PoolingLayer(Layer, has_neuron=True, can_do_bp=True):
    """Pool every channel of every image on its own; one top for each bottom, and optionally a mask for each.

    y[n, c, i, j] = max of x[n, c, i stride - pad + k, j stride - pad + l] over k and l from 0 to kernel - 1; or another
    `pooling` of them.

    Bottoms are (images, channels, rows, columns), with any number of axes after the channels; `kernel`, `stride` and
    `pad` are one number for all of `axes`, or one for each, in pixels. Along an axis there are ceil((length + 2 pad -
    kernel) / stride) + 1 windows, or floor(...) + 1 with `rounding="floor"`; a last window outside the image is
    dropped. With `whole` there is one window, the image (Caffe's `global_pooling`). After Mocha.jl's `PoolingLayer` and
    Caffe's, rounding included.

    With `pooling="Max"` there may be as many more tops after the others: the masks. A mask has the position of each
    maximum in its image, the first of equal ones: row · columns + column, a whole number (int64). It has no gradient.

    Example:
        [[layer]]
        type = "Pooling"
        bottoms = ["conv1"]  # (8, 20, 24, 24)
        tops = ["pool1"]  # (8, 20, 12, 12)
        kernel = 2
        stride = 2
    """

    shown = ("pooling", "kernel", "stride")

    elsewhere: ClassVar[Mapping[str, str]] = {
        "pool_size": "kernel",
        "kernel_size": "kernel",
        "strides": "stride",
        "padding": "pad",
    }

    bottoms: Annotated[Names, at_least(1), "the blobs to pool"]
    tops: Annotated[Names, once_or_twice, "the pooled blobs, optionally followed by the masks"]
    kernel: Annotated[Sizes, positive, "window, in pixels"] = default((1,))
    stride: Annotated[Sizes, positive, "step between windows, in pixels"] = default((1,))
    pad: Annotated[Sizes, non_negative, "border of padding on each side, in pixels"] = default((0,))
    axes: Annotated[Shape, positive, "axes to pool; by default all after the channels"] = default(())
    whole: Annotated[bool, "the window is the whole image; then kernel, stride and pad must not be given"] = False
    rounding: Annotated[Literal["ceil", "floor"], "whether a partial window counts (ceil) or not"] = "ceil"
    pooling: Annotated[PoolingFunction, "the summary of a window"] = Max()
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        for name in ("kernel", "stride", "pad"):
            if self.whole and name in self.given():
                yield f"{name}={getattr(self, name)}, but with whole=True the window is the image: remove it"
        if len(set(self.axes)) < len(self.axes):
            yield f"axes={self.axes}, but an axis is pooled once: remove the second"
        if self.masks and type(self.pooling) is not Max:
            yield f"tops={self.tops}, but only pooling='Max' has masks, not {self.pooling!r}"
        if self.masks and type(self.neuron) is not Identity:
            yield f"neuron={self.neuron!r}, but it would change the masks too: use a layer for it"

    def partition(self, part: int, parts: int) -> Layer:
        if 1 in self.axes:
            raise uncut(self, f"axes={self.axes} pools across channels")
        return self

    @property
    def masks(self) -> tuple[str, ...]:
        """The tops that are masks."""
        return tuple(self.tops[len(self.bottoms) :])

    def tops_without_gradient(self) -> tuple[str, ...]:
        return self.masks


class PoolingState(Pools, of=PoolingLayer, reads="inputs blobs"):
    """`PoolingLayer`, and `GlobalPoolingLayer`, on any backend."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs += [backend.blob(shapes[0], "int64") for shapes in self.shapes if layer.masks]

    @staticmethod
    def axes_of(layer: Any, shape: Sequence[int]) -> list[dict[int, WindowAxis]]:
        return [pooled_axes(layer, shape)]

    def ready(self) -> None:
        super().ready()
        self.indices = [Indices(self.backend, grids[0]) for grids in self.grids if self.layer.masks]

    def forward(self, inputs: list[Array]) -> None:
        super().forward(inputs)
        masks = self.blobs[len(inputs) :]
        for indices, works, y, mask in zip(self.indices, self.works, self.blobs, masks, strict=False):
            indices.find(works[0].windows.cells, y, mask)


class Indices:
    """The indices of the cells in the image: `grids[i]` has the index of cell i of every window.

    An index counts the pixels along the pooled axes in C order; `inside[i]` marks the cells outside the padding.
    """

    def __init__(self, backend: Any, windows: WindowGrid) -> None:
        import numpy as np

        self.backend = backend
        self.grids: list[Array] = []
        self.inside: list[Array] = []
        for cells in itertools.product(*(range(axis.kernel) for axis in windows.axes.values())):
            grid, inside = np.zeros([1] * len(windows.shape), np.int64), np.ones([1] * len(windows.shape), bool)
            for (index, axis), cell in zip(windows.axes.items(), cells, strict=True):
                along = windows.along(index, np.array(axis.starts) + cell)
                grid = grid * axis.length + along
                inside = inside & (along >= 0) & (along < axis.length)
            self.grids.append(backend.constant(grid, "int64"))
            self.inside.append(backend.constant(inside, "bool"))

    def find(self, cells: list[Array], y: Array, mask: Array) -> None:
        """Write into `mask` the index of the first cell of every window that is its maximum `y`, or a NaN."""
        xp = self.backend.xp
        wins, nan, free = (self.backend.scratch(y.shape, "bool", slot=slot) for slot in (3, 4, 5))
        free[...] = True
        for cell, grid, inside in zip(cells, self.grids, self.inside, strict=True):
            xp.equal(cell, y, out=wins)
            xp.not_equal(cell, cell, out=nan)
            xp.logical_or(wins, nan, out=wins)
            xp.logical_and(wins, inside, out=wins)  # the padding is -inf, which an image may have too
            xp.logical_and(wins, free, out=wins)
            xp.logical_xor(free, wins, out=free)
            xp.copyto(mask, grid, where=wins)
