"""Pooling: the maximum, the mean, or another summary of the windows of each channel."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from nacre import (
    Array,
    Component,
    ConfigError,
    Identity,
    Layer,
    LayerState,
    Names,
    Neuron,
    Shape,
    Sizes,
    as_many_as,
    at_least,
    default,
    non_negative,
    one_of,
    positive,
    spread,
)


@dataclass
class Windows:
    """The windows of a blob: `cells[i]` is cell i of every window, of the top's shape, in row-major order.

    `sizes[name]` is how many cells of each window lie in the "kernel", the "padded" image, and the "image".
    """

    cells: list[Array]
    sizes: dict[str, Array]


class PoolingFunction(Component, kind="pooling"):
    """A summary of a window. `fill` is the value of cells outside the image."""

    fill: ClassVar[float] = 0.0

    def forward(self, backend: Any, windows: Windows, y: Array) -> None:
        """Write the summary of every window into y."""
        raise NotImplementedError

    def backward(self, backend: Any, windows: Windows, y: Array, dy: Array, gradients: list[Array]) -> None:
        """Add the gradient of cell i to `gradients[i]`; cells of overlapping windows lie in one memory."""
        raise NotImplementedError


class Max(PoolingFunction):
    """The largest cell; of equal ones the first, row by row, gets the gradient. A NaN in a window is its maximum."""

    fill: ClassVar[float] = float("-inf")

    def forward(self, backend: Any, windows: Windows, y: Array) -> None:
        backend.xp.copyto(y, windows.cells[0])
        for cell in windows.cells[1:]:
            backend.xp.maximum(y, cell, out=y)

    def backward(self, backend: Any, windows: Windows, y: Array, dy: Array, gradients: list[Array]) -> None:
        xp = backend.xp
        wins, free = backend.scratch(y.shape, "bool", slot=3), backend.scratch(y.shape, "bool", slot=4)
        part = backend.scratch(y.shape, str(y.dtype), slot=5)
        free[...] = True
        for cell, gradient in zip(windows.cells, gradients, strict=True):
            xp.equal(cell, y, out=wins)
            xp.logical_and(wins, free, out=wins)
            xp.logical_xor(free, wins, out=free)
            xp.multiply(dy, wins, out=part)
            xp.add(gradient, part, out=gradient)


class Mean(PoolingFunction):
    """The mean of the cells; those outside the image count as 0.

    `divide_by` says by how many cells the sum is divided: those of the window inside the "padded" image (Caffe),
    those of the whole "kernel" (Mocha.jl, SINGA), or those inside the "image" (PyTorch with count_include_pad=False).
    """

    divide_by: Annotated[str, one_of("padded", "kernel", "image"), "which cells of a window are counted"] = "padded"

    def forward(self, backend: Any, windows: Windows, y: Array) -> None:
        backend.xp.copyto(y, windows.cells[0])
        for cell in windows.cells[1:]:
            backend.xp.add(y, cell, out=y)
        backend.xp.divide(y, windows.sizes[self.divide_by], out=y)

    def backward(self, backend: Any, windows: Windows, y: Array, dy: Array, gradients: list[Array]) -> None:
        part = backend.scratch(y.shape, str(y.dtype), slot=5)
        backend.xp.divide(dy, windows.sizes[self.divide_by], out=part)
        for gradient in gradients:
            backend.xp.add(gradient, part, out=gradient)


class PoolingLayer(Layer, has_neuron=True, can_do_bp=True):
    """Pool every channel of every image on its own; one top for each bottom.

    Bottoms are (images, channels, rows, columns), with any number of axes behind the channels; `kernel`, `stride` and
    `pad` are one number for all of `axes`, or one for each, in pixels. The windows number ceil((length + 2 pad -
    kernel) / stride) + 1 along an axis, or floor(...) + 1 with `rounding="floor"`; a last window that misses the
    image is dropped. After Mocha.jl's `PoolingLayer` and Caffe's, rounding included.
    """

    bottoms: Annotated[Names, at_least(1), "what is pooled"]
    tops: Annotated[Names, as_many_as("bottoms"), "the pooled blobs"]
    kernel: Annotated[Sizes, positive, "window, in pixels"] = default((1,))
    stride: Annotated[Sizes, positive, "step between windows, in pixels"] = default((1,))
    pad: Annotated[Sizes, non_negative, "border of padding on each side, in pixels"] = default((0,))
    axes: Annotated[Shape, positive, "axes that are pooled; all behind the channels unless given"] = default(())
    rounding: Annotated[str, one_of("ceil", "floor"), "how a window that fits in part is counted"] = "ceil"
    pooling: Annotated[PoolingFunction, "what is made of a window"] = Max()
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> PoolingState:
        return PoolingState(self, backend, inputs, diffs)


@dataclass(frozen=True)
class Axis:
    """How one axis is pooled: where it stands, and the sizes along it."""

    place: int
    length: int
    kernel: int
    stride: int
    pad: int
    windows: int

    @property
    def reach(self) -> int:
        """Cells from the first window's begin to the last one's end, or to the end of the padded image."""
        return max((self.windows - 1) * self.stride + self.kernel, self.length + 2 * self.pad)

    def counts(self, what: str) -> list[int]:
        """Count the cells of each window inside the "kernel", the "padded" image or the "image"."""
        low, high = {"kernel": (-self.reach, 2 * self.reach), "image": (0, self.length)}.get(
            what, (-self.pad, self.length + self.pad)
        )
        starts = [number * self.stride - self.pad for number in range(self.windows)]
        return [min(start + self.kernel, high) - max(start, low) for start in starts]


def window_count(length: int, kernel: int, stride: int, pad: int, rounding: str) -> int:
    """Count the windows along an axis; a last one that misses the image is dropped."""
    free = length + 2 * pad - kernel
    count = (-(-free // stride) if rounding == "ceil" else free // stride) + 1
    if (count - 1) * stride >= length + pad:
        count -= 1
    return count


def pooled_axes(layer: PoolingLayer, shape: Sequence[int]) -> list[Axis]:
    """Give the axes of a bottom that are pooled.

    Raises:
        ConfigError: the sizes do not fit the bottom.
    """
    places = layer.axes or tuple(range(2, len(shape)))
    if not places or max(places) >= len(shape):
        raise ConfigError(
            f"{layer.name}: the bottom of shape {tuple(shape)} has no axes {places or 'behind the channels'}"
        )
    sizes = [spread(getattr(layer, name), len(places), f"{layer.name}: {name}") for name in ("kernel", "stride", "pad")]
    axes: list[Axis] = []
    for place, kernel, stride, pad in zip(places, *sizes, strict=True):
        if pad >= kernel:
            raise ConfigError(f"{layer.name}: pad={pad} must be below kernel={kernel}, or a window has only padding")
        windows = window_count(shape[place], kernel, stride, pad, layer.rounding)
        if windows < 1:
            padded = shape[place] + 2 * pad
            raise ConfigError(
                f"{layer.name}: kernel={kernel} is larger than the padded image, {padded} along axis {place}"
            )
        axes.append(Axis(place, shape[place], kernel, stride, pad, windows))
    return axes


class PoolingState(LayerState, reads="inputs blobs"):
    """`PoolingLayer` on any backend: one strided view of the padded bottom for each cell of the window."""

    def __init__(self, layer: PoolingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.axes = [pooled_axes(layer, one.shape) for one in inputs]
        for one, axes in zip(inputs, self.axes, strict=True):
            shape = list(one.shape)
            for axis in axes:
                shape[axis.place] = axis.windows
            self.blobs.append(backend.blob(shape))

    def ready(self) -> None:
        self.work: list[_Work] = [
            _Work(self.backend, axes, y.shape, self.layer.pooling.fill)
            for axes, y in zip(self.axes, self.blobs, strict=True)
        ]

    def forward(self, inputs: list[Array]) -> None:
        for x, y, work in zip(inputs, self.blobs, self.work, strict=True):
            self.backend.xp.copyto(work.padded[work.inside], x)
            self.layer.pooling.forward(self.backend, work.windows, y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for x, y, dy, dx, work in zip(inputs, self.blobs, self.blobs_diff, diffs, self.work, strict=True):
            if dx is None:
                continue
            self.backend.xp.copyto(work.padded[work.inside], x)
            work.gradient[...] = 0
            self.layer.pooling.backward(self.backend, work.windows, y, dy, work.gradients)
            self.backend.xp.copyto(dx, work.gradient[work.inside])

    def shutdown(self) -> None:
        """Nothing is held."""


class _Work:
    """The padded bottom, its gradient, and the views of both."""

    def __init__(self, backend: Any, axes: list[Axis], top: Sequence[int], fill: float) -> None:
        shape, inside = list(top), [slice(None)] * len(top)
        for axis in axes:
            shape[axis.place] = axis.reach
            inside[axis.place] = slice(axis.pad, axis.pad + axis.length)
        self.inside = tuple(inside)
        self.padded, self.gradient = backend.empty(shape), backend.empty(shape)
        self.padded[...] = fill
        cells, self.gradients = [], []
        for offsets in itertools.product(*(range(axis.kernel) for axis in axes)):
            place = [slice(None)] * len(top)
            for axis, offset in zip(axes, offsets, strict=True):
                place[axis.place] = slice(offset, offset + (axis.windows - 1) * axis.stride + 1, axis.stride)
            cells.append(self.padded[tuple(place)])
            self.gradients.append(self.gradient[tuple(place)])
        self.windows = Windows(
            cells, {what: self._sizes(backend, axes, top, what) for what in ("kernel", "padded", "image")}
        )

    @staticmethod
    def _sizes(backend: Any, axes: list[Axis], top: Sequence[int], what: str) -> Array:
        import numpy as np

        sizes = np.ones([1] * len(top))
        for axis in axes:
            along = np.array(axis.counts(what)).reshape([-1 if place == axis.place else 1 for place in range(len(top))])
            sizes = sizes * along
        array = backend.empty(sizes.shape)
        backend.from_host(sizes.astype(str(array.dtype)), array)
        return array
