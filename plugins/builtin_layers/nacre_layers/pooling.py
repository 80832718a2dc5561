"""Pooling: the maximum, the mean, or another summary of windows; of each channel, of channels, and in pyramids."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated, Any, ClassVar

from nacre import (
    Array,
    Check,
    Component,
    ConfigError,
    Identity,
    Layer,
    LayerState,
    Names,
    Neuron,
    Pair,
    Shape,
    Sizes,
    as_many_as,
    at_least,
    default,
    non_negative,
    non_zero,
    one_of,
    positive,
    spread,
)

from .axes import axis_of


@dataclass
class Windows:
    """The windows of a blob: `cells[i]` is cell i of every window, of the top's shape, in row-major order.

    `sizes[name]` is how many cells of each window lie in the "kernel", the "padded" image, and the "image". `draw`
    fills a float32 array with uniform numbers, the same ones in forward and backward; None outside phase `train`.
    """

    cells: list[Array]
    sizes: dict[str, Array]
    draw: Callable[[Array], None] | None


class PoolingFunction(Component, kind="pooling"):
    """A summary of a window.

    `fill` is the value of cells outside the image, `reads` what `backward` reads, of "inputs" (the cells) and "blobs".
    """

    fill: ClassVar[float] = 0.0
    reads: ClassVar[str] = "inputs blobs"

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
            part[...] = 0  # a product with 0 would bring a NaN to cells that do not win
            xp.copyto(part, dy, where=wins)
            xp.add(gradient, part, out=gradient)


class Mean(PoolingFunction):
    """The mean of the cells; those outside the image count as 0.

    `divide_by` says by how many cells the sum is divided: those of the window inside the "padded" image (Caffe),
    those of the whole "kernel" (Mocha.jl, SINGA), or those inside the "image" (PyTorch with count_include_pad=False).
    """

    reads = ""
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


class Stochastic(PoolingFunction):
    """In phase `train` a cell drawn with a probability proportional to its value, else the mean weighted by the values.

    Cells below 0 count as 0; of a window without any above 0 the summary is 0. Zeiler and Fergus, "Stochastic pooling
    for regularization of deep convolutional neural networks", 2013. After Caffe's, which is for cells from 0 up.
    """

    reads = "inputs"

    def forward(self, backend: Any, windows: Windows, y: Array) -> None:
        xp = backend.xp
        if windows.draw is not None:
            y[...] = 0
            for wins, part in self._winners(backend, windows, y):
                xp.multiply(part, wins, out=part)
                xp.add(y, part, out=y)
            return
        self._mean(backend, windows, self._total(backend, windows, y), y)

    def backward(self, backend: Any, windows: Windows, y: Array, dy: Array, gradients: list[Array]) -> None:
        xp, kind = backend.xp, str(y.dtype)
        if windows.draw is not None:
            for gradient, (wins, part) in zip(gradients, self._winners(backend, windows, y), strict=True):
                xp.multiply(dy, wins, out=part)
                xp.add(gradient, part, out=gradient)
            return
        # of the mean, the sum of x² over that of x: (2 x - mean) / (sum of x) for a cell x above 0
        total = self._total(backend, windows, y)
        mean, part = (backend.scratch(y.shape, kind, slot=slot) for slot in (7, 5))
        self._mean(backend, windows, total, mean)
        xp.divide(dy, total, out=total)
        above = backend.scratch(y.shape, "bool", slot=3)
        for cell, gradient in zip(windows.cells, gradients, strict=True):
            xp.multiply(cell, 2, out=part)
            xp.subtract(part, mean, out=part)
            xp.multiply(part, total, out=part)
            xp.multiply(part, xp.greater(cell, 0, out=above), out=part)
            xp.add(gradient, part, out=gradient)

    @staticmethod
    def _mean(backend: Any, windows: Windows, total: Array, mean: Array) -> None:
        """Write the mean of the cells above 0, each weighted by itself; `total` is what `_total` gives."""
        xp, part = backend.xp, backend.scratch(mean.shape, str(mean.dtype), slot=5)
        mean[...] = 0
        for cell in windows.cells:
            xp.maximum(cell, 0, out=part)
            xp.multiply(part, part, out=part)
            xp.add(mean, part, out=mean)
        xp.divide(mean, total, out=mean)

    @staticmethod
    def _total(backend: Any, windows: Windows, y: Array) -> Array:
        """Add up the cells above 0; where there is none, give 1, to be divided by."""
        xp, kind = backend.xp, str(y.dtype)
        total, part = backend.scratch(y.shape, kind, slot=6), backend.scratch(y.shape, kind, slot=5)
        total[...] = 0
        for cell in windows.cells:
            xp.add(total, xp.maximum(cell, 0, out=part), out=total)
        xp.add(total, xp.equal(total, 0, out=backend.scratch(y.shape, "bool", slot=3)), out=total)
        return total

    def _winners(self, backend: Any, windows: Windows, y: Array) -> Iterator[tuple[Array, Array]]:
        """Give for each cell of the windows where it is the one that was drawn, and its value, in scratch memory."""
        xp, kind = backend.xp, str(y.dtype)
        total, share = self._total(backend, windows, y), backend.scratch(y.shape, kind, slot=7)
        uniform = backend.scratch(y.shape, "float32", slot=7)  # in float64 too: the same cells win
        assert windows.draw is not None
        windows.draw(uniform)
        xp.multiply(uniform, total, out=share)
        below, part = backend.scratch(y.shape, kind, slot=6), backend.scratch(y.shape, kind, slot=5)
        below[...] = 0
        wins, free = backend.scratch(y.shape, "bool", slot=3), backend.scratch(y.shape, "bool", slot=4)
        free[...] = True
        for cell in windows.cells:  # the first one that takes the sum above the share
            xp.add(below, xp.maximum(cell, 0, out=part), out=below)
            xp.greater(below, share, out=wins)
            xp.logical_and(wins, free, out=wins)
            xp.logical_xor(free, wins, out=free)
            yield wins, part


def _once_or_twice(tops: Any, layer: Any) -> str | None:
    count = len(layer.bottoms)
    if len(tops) in (count, 2 * count):
        return None
    return f"there must be as many as bottoms, {count}, or as many again for masks"


once_or_twice = Check(_once_or_twice, "as many as bottoms, or twice as many")


class PoolingLayer(Layer, has_neuron=True, can_do_bp=True):
    """Pool every channel of every image on its own; one top for each bottom, and maybe a mask for each.

    y[n, c, i, j] = max of x[n, c, i stride - pad + k, j stride - pad + l] over k and l from 0 to kernel - 1; or another
    `pooling` of them.

    Bottoms are (images, channels, rows, columns), with any number of axes behind the channels; `kernel`, `stride` and
    `pad` are one number for all of `axes`, or one for each, in pixels. The windows number ceil((length + 2 pad -
    kernel) / stride) + 1 along an axis, or floor(...) + 1 with `rounding="floor"`; a last window that misses the
    image is dropped. With `whole` there is one window, the image (Caffe's `global_pooling`). After Mocha.jl's
    `PoolingLayer` and Caffe's, rounding included.

    With `pooling="Max"` there may be as many tops again, behind the others: the masks. A mask says where in its image
    each maximum is, of equal ones the first: row · columns + column, a whole number (int64). It has no gradient.

    Example:
        [[layer]]
        type = "Pooling"
        bottoms = ["conv1"]  # (8, 20, 24, 24)
        tops = ["pool1"]  # (8, 20, 12, 12)
        kernel = 2
        stride = 2
    """

    bottoms: Annotated[Names, at_least(1), "what is pooled"]
    tops: Annotated[Names, once_or_twice, "the pooled blobs, and behind them maybe the masks"]
    kernel: Annotated[Sizes, positive, "window, in pixels"] = default((1,))
    stride: Annotated[Sizes, positive, "step between windows, in pixels"] = default((1,))
    pad: Annotated[Sizes, non_negative, "border of padding on each side, in pixels"] = default((0,))
    axes: Annotated[Shape, positive, "axes that are pooled; all behind the channels unless given"] = default(())
    whole: Annotated[bool, "the window is the whole image, so kernel, stride and pad are not given"] = False
    rounding: Annotated[str, one_of("ceil", "floor"), "how a window that fits in part is counted"] = "ceil"
    pooling: Annotated[PoolingFunction, "what is made of a window"] = Max()
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        for name in ("kernel", "stride", "pad"):
            if self.whole and name in self.given():
                yield f"{name}={getattr(self, name)}, but with whole=True the window is the image: leave it out"
        if self.masks and type(self.pooling) is not Max:
            yield f"tops={self.tops}, but only pooling='Max' has masks, not {self.pooling!r}"
        if self.masks and type(self.neuron) is not Identity:
            yield f"neuron={self.neuron!r}, but it would act on the masks too: give it a layer of its own"

    @property
    def masks(self) -> tuple[str, ...]:
        """The tops that are masks."""
        return tuple(self.tops[len(self.bottoms) :])

    def tops_without_gradient(self) -> tuple[str, ...]:
        return self.masks

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> PoolingState:
        return PoolingState(self, backend, inputs, diffs)


class Ends(Pair):
    """(front, tail); one number means the same at both ends."""

    wants = "a whole number, or two: (front, tail)"


class ChannelPoolingLayer(Layer, can_do_bp=True):
    """Pool along one axis, as maxout does along the channels; one top for each bottom.

    y[n, j] = max of x[n, j stride - front + k] over k from 0 to kernel - 1, along axis 1; or another `pooling` of them.

    Bottoms have any number of axes. The windows number ceil((length + front + tail - kernel) / stride) + 1; a last one
    that misses the blob is dropped. After Mocha.jl's `ChannelPoolingLayer`, whose mean is `Mean(divide_by="kernel")`.

    Example:
        [[layer]]
        type = "ChannelPooling"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["maxout1"]  # (8, 10, 12, 12)
        kernel = 2
        stride = 2
    """

    bottoms: Annotated[Names, at_least(1), "what is pooled"]
    tops: Annotated[Names, as_many_as("bottoms"), "the pooled blobs"]
    kernel: Annotated[int, positive, "window, in channels"] = 1
    stride: Annotated[int, positive, "step between windows, in channels"] = 1
    pad: Annotated[Ends, non_negative, "padding in front of the channels and behind them"] = default((0, 0))
    axis: Annotated[int, non_zero, "the axis that is pooled; -1 is the last"] = 1
    pooling: Annotated[PoolingFunction, "what is made of a window"] = Max()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ChannelPoolingState:
        return ChannelPoolingState(self, backend, inputs, diffs)


class SPPLayer(Layer, can_do_bp=True):
    """Spatial pyramid pooling: summaries of the image, its quarters, its sixteenths, ...; one top for each bottom.

    y[n, start_l + c · 4^l + w] = max of x[n, c] over window w of level l, for two axes; or another `pooling` of it.

    Bottoms are (images, channels, rows, columns), with any number of axes behind the channels. Level l of the pyramid
    cuts each of them into 2^l windows of ceil(length / 2^l) pixels, with what is missing as padding. Tops are (images,
    numbers): the summaries of level 0, then those of level 1, and so on, each (channels, windows) in a row; there are
    as many for images of any size. He, Zhang, Ren and Sun, "Spatial pyramid pooling in deep convolutional networks for
    visual recognition", 2014. After Caffe's `SPP`.

    Example:
        [[layer]]
        type = "SPP"
        bottoms = ["conv5"]  # (8, 20, 13, 13)
        tops = ["features"]  # (8, 420)
        pyramid_height = 3
    """

    bottoms: Annotated[Names, at_least(1), "what is pooled"]
    tops: Annotated[Names, as_many_as("bottoms"), "the summaries"]
    pyramid_height: Annotated[int, positive, "levels of the pyramid"]
    pooling: Annotated[PoolingFunction, "what is made of a window"] = Max()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> SPPState:
        return SPPState(self, backend, inputs, diffs)


@dataclass(frozen=True)
class Axis:
    """How one axis is pooled: where it stands, and the sizes along it; `pad` lies in front, `tail` behind."""

    place: int
    length: int
    kernel: int
    stride: int
    pad: int
    windows: int
    tail: int

    @property
    def reach(self) -> int:
        """Cells from the first window's begin to the last one's end, or to the end of the padded image."""
        return max((self.windows - 1) * self.stride + self.kernel, self.pad + self.length + self.tail)

    def counts(self, what: str) -> list[int]:
        """Count the cells of each window inside the "kernel", the "padded" image or the "image"."""
        low, high = {"kernel": (-self.reach, 2 * self.reach), "image": (0, self.length)}.get(
            what, (-self.pad, self.length + self.tail)
        )
        starts = [number * self.stride - self.pad for number in range(self.windows)]
        return [min(start + self.kernel, high) - max(start, low) for start in starts]


def make_axis(where: str, place: int, length: int, sizes: tuple[int, int, int, int], rounding: str) -> Axis:
    """Make an axis of (kernel, stride, pad in front, pad behind); a last window that misses the image is dropped.

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
            f"{where}: kernel={kernel} is larger than the padded image, {length + pad + tail} along axis {place}"
        )
    return Axis(place, length, kernel, stride, pad, windows, tail)


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
    if layer.whole:
        return [Axis(place, shape[place], shape[place], 1, 0, 1, 0) for place in places]
    sizes = [spread(getattr(layer, name), len(places), f"{layer.name}: {name}") for name in ("kernel", "stride", "pad")]
    return [
        make_axis(layer.name, place, shape[place], (kernel, stride, pad, pad), layer.rounding)
        for place, kernel, stride, pad in zip(places, *sizes, strict=True)
    ]


class Pools(LayerState, reads="inputs blobs"):
    """What the states of these layers have in common: the work on each bottom, as `axes_of` gives it.

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
        """Give the pooled axes of a bottom, for each of the ways in which it is pooled."""
        raise NotImplementedError

    def top(self, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
        """Give the shape of the top, from those of the bottom's summaries."""
        return shapes[0]

    def parts(self, top: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
        """Give the views of a top that hold the summaries."""
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
        for x, y, works, shapes in zip(inputs, self.blobs, self.works, self.shapes, strict=False):  # masks stand behind
            for work, part in zip(works, self.parts(y, shapes), strict=True):
                work.forward(x, part)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for place, (x, dx) in enumerate(zip(inputs, diffs, strict=True)):
            if dx is None:
                continue
            y, dy = (self.parts(one[place], self.shapes[place]) for one in (self.blobs, self.blobs_diff))
            for number, work in enumerate(self.works[place]):
                gradient = work.backward(x, y[number], dy[number])
                if number == 0:
                    self.backend.xp.copyto(dx, gradient)
                else:
                    self.backend.xp.add(dx, gradient, out=dx)

    def shutdown(self) -> None:
        """Nothing is held."""


class PoolingState(Pools, reads="inputs blobs"):
    """`PoolingLayer` on any backend."""

    def __init__(self, layer: PoolingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs += [backend.blob(shapes[0], "int64") for shapes in self.shapes if layer.masks]

    @staticmethod
    def axes_of(layer: PoolingLayer, shape: Sequence[int]) -> list[list[Axis]]:
        return [pooled_axes(layer, shape)]

    def ready(self) -> None:
        super().ready()
        ndims = [len(shapes[0]) for shapes in self.shapes]
        masked = zip(self.axes, ndims, strict=True) if self.layer.masks else ()
        self.places = [Places(self.backend, axes[0], ndim) for axes, ndim in masked]

    def forward(self, inputs: list[Array]) -> None:
        super().forward(inputs)
        masks = self.blobs[len(inputs) :]
        for places, works, y, mask in zip(self.places, self.works, self.blobs, masks, strict=False):
            places.find(works[0].windows.cells, y, mask)


class ChannelPoolingState(Pools, reads="inputs blobs"):
    """`ChannelPoolingLayer` on any backend."""

    @staticmethod
    def axes_of(layer: ChannelPoolingLayer, shape: Sequence[int]) -> list[list[Axis]]:
        place = axis_of(layer, tuple(shape))
        return [[make_axis(layer.name, place, shape[place], (layer.kernel, layer.stride, *layer.pad), "ceil")]]


class SPPState(Pools, reads="inputs blobs"):
    """`SPPLayer` on any backend."""

    @staticmethod
    def axes_of(layer: SPPLayer, shape: Sequence[int]) -> list[list[Axis]]:
        if len(shape) < 3:
            raise ConfigError(f"{layer.name}: the bottom of shape {tuple(shape)} has no axes behind the channels")
        return [
            [cut(layer, place, length, 2**level) for place, length in enumerate(shape[2:], 2)]
            for level in range(layer.pyramid_height)
        ]

    def top(self, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
        return (shapes[0][0], sum(prod(shape[1:]) for shape in shapes))

    def parts(self, top: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
        ends = list(itertools.accumulate(prod(shape[1:]) for shape in shapes))
        return [
            top[:, start:end].reshape(shape) for start, end, shape in zip([0, *ends[:-1]], ends, shapes, strict=True)
        ]


def cut(layer: SPPLayer, place: int, length: int, count: int) -> Axis:
    """Cut an axis into `count` windows of one size, with what is missing as padding, more of it in front.

    Raises:
        ConfigError: a window would have only padding.
    """
    kernel = -(-length // count)
    missing = kernel * count - length
    pad = (missing + 1) // 2
    if pad >= kernel:
        raise ConfigError(
            f"{layer.name}: pyramid_height={layer.pyramid_height} cuts axis {place} of length {length} into {count} "
            f"windows, of which one would have only padding: take a smaller pyramid, or images of other sizes"
        )
    return Axis(place, length, kernel, kernel, pad, count, pad)


class Places:
    """Where the cells of the windows lie in the image: `grids[i]` has the place of cell i of every window.

    A place counts the pixels along the pooled axes in C order; `inside[i]` says which cells are none of the padding.
    """

    def __init__(self, backend: Any, axes: list[Axis], ndim: int) -> None:
        import numpy as np

        self.backend = backend
        self.grids: list[Array] = []
        self.inside: list[Array] = []
        for offsets in itertools.product(*(range(axis.kernel) for axis in axes)):
            grid, inside = np.zeros([1] * ndim, np.int64), np.ones([1] * ndim, bool)
            for axis, offset in zip(axes, offsets, strict=True):
                shape = [-1 if place == axis.place else 1 for place in range(ndim)]
                along = (np.arange(axis.windows) * axis.stride - axis.pad + offset).reshape(shape)
                grid = grid * axis.length + along
                inside = inside & (along >= 0) & (along < axis.length)
            for host, kept in ((grid, self.grids), (inside, self.inside)):
                kept.append(backend.empty(host.shape, str(host.dtype)))
                backend.from_host(host, kept[-1])

    def find(self, cells: list[Array], y: Array, mask: Array) -> None:
        """Write into `mask` the place of the first cell of every window that is its maximum `y`, or a NaN."""
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


def pooled_shape(shape: Sequence[int], axes: list[Axis]) -> tuple[int, ...]:
    """Give the shape of the summaries of a bottom's windows."""
    pooled = list(shape)
    for axis in axes:
        pooled[axis.place] = axis.windows
    return tuple(pooled)


class Work:
    """The padded bottom, its gradient, and the views of both."""

    def __init__(self, backend: Any, pooling: PoolingFunction, axes: list[Axis], top: Sequence[int], draw: Any) -> None:
        self.backend, self.pooling, self.draw = backend, pooling, draw
        shape, inside = list(top), [slice(None)] * len(top)
        for axis in axes:
            shape[axis.place] = axis.reach
            inside[axis.place] = slice(axis.pad, axis.pad + axis.length)
        self.inside = tuple(inside)
        self.padded, self.gradient = backend.empty(shape), backend.empty(shape)
        self.padded[...] = pooling.fill
        cells, self.gradients = [], []
        for offsets in itertools.product(*(range(axis.kernel) for axis in axes)):
            place = [slice(None)] * len(top)
            for axis, offset in zip(axes, offsets, strict=True):
                place[axis.place] = slice(offset, offset + (axis.windows - 1) * axis.stride + 1, axis.stride)
            cells.append(self.padded[tuple(place)])
            self.gradients.append(self.gradient[tuple(place)])
        sizes = {what: self._sizes(axes, len(top), what) for what in ("kernel", "padded", "image")}
        self._windows = Windows(cells, sizes, draw)

    @property
    def windows(self) -> Windows:
        """The windows, as of the phase of this pass: an algorithm may run it in another than the net's."""
        self._windows.draw = self.draw if self.backend.phase == "train" else None
        return self._windows

    def _sizes(self, axes: list[Axis], ndim: int, what: str) -> Array:
        import numpy as np

        sizes = np.ones([1] * ndim)
        for axis in axes:
            along = np.array(axis.counts(what)).reshape([-1 if place == axis.place else 1 for place in range(ndim)])
            sizes = sizes * along
        array = self.backend.empty(sizes.shape)
        self.backend.from_host(sizes.astype(str(array.dtype)), array)
        return array

    def forward(self, x: Array, y: Array) -> None:
        """Write the summary of every window of x."""
        self.backend.xp.copyto(self.padded[self.inside], x)
        self.pooling.forward(self.backend, self.windows, y)

    def backward(self, x: Array, y: Array, dy: Array) -> Array:
        """Give the gradient of x, good until the next call."""
        if "inputs" in self.pooling.reads:
            self.backend.xp.copyto(self.padded[self.inside], x)
        self.gradient[...] = 0
        self.pooling.backward(self.backend, self.windows, y, dy, self.gradients)
        return self.gradient[self.inside]
