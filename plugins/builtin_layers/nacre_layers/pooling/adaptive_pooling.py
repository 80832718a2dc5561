"""AdaptivePooling: as many windows as the top is to have pixels, for images of any size."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from nacre import (
    Array,
    ConfigError,
    Identity,
    Layer,
    LayerState,
    Names,
    Neuron,
    Sizes,
    as_many_as,
    at_least,
    positive,
    spread,
)

from ..taps import PlacedTaps, Taps, through
from .functions import Mean, PoolingFunction, Windows

Way = tuple[int, PlacedTaps]


class AdaptivePoolingLayer(Layer, has_neuron=True, can_do_bp=True):
    """Pool every channel of every image to `size` numbers, whatever its own size; one top for each bottom.

    y[n, c, i, j] = mean of x[n, c, k, l] over window (i, j); or another `pooling` of it. Along an axis of a length
    window i has the pixels from floor(i · length / size) to before ceil((i + 1) · length / size), so windows overlap
    where the size does not divide the length.

    Bottoms are (images, channels, rows, columns), with any number of axes after the channels. Where the size divides
    the length, `Pooling` with this kernel and stride does the same faster; for one number use `GlobalPooling`. As
    PyTorch's `AdaptiveAvgPool2d` and `AdaptiveMaxPool2d`.

    Example:
        [[layer]]
        type = "AdaptivePooling"
        bottoms = ["conv5"]  # (8, 20, 13, 10)
        tops = ["features"]  # (8, 20, 6, 6)
        size = 6
    """

    shown = ("pooling", "size")

    elsewhere: ClassVar[Mapping[str, str]] = {"output_size": "size"}

    bottoms: Annotated[Names, at_least(1), "the blobs to pool"]
    tops: Annotated[Names, as_many_as("bottoms"), "the pooled blobs"]
    size: Annotated[Sizes, positive, "(rows, columns) of the tops, or one number for both"]
    pooling: Annotated[PoolingFunction, "the summary of a window"] = Mean()
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()


class AdaptivePoolingState(LayerState, of=AdaptivePoolingLayer, reads="inputs blobs"):
    """`AdaptivePoolingLayer` on any backend."""

    def __init__(self, layer: AdaptivePoolingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reads = layer.pooling.reads
        self.random = backend.random(layer.name)
        self.shapes = [tuple(one.shape) for one in inputs]
        for shape in self.shapes:
            if len(shape) < 3:
                raise ConfigError(f"{layer.name}: the bottom of shape {shape} has no axes after the channels")
            sizes = spread(layer.size, len(shape) - 2, f"{layer.name}: size")
            self.blobs.append(backend.blob((*shape[:2], *sizes)))

    @property
    def capturable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """Whether a device may record it."""
        return self.layer.pooling.can_be_recorded(self.backend)

    def ready(self) -> None:
        pooling = self.layer.pooling
        self.works: list[Means | Work] = [
            Means(self.backend, shape, y.shape)
            if type(pooling) is Mean
            else Work(self.backend, pooling, shape, y.shape, partial(self.random.uniform, draw=number))
            for number, (shape, y) in enumerate(zip(self.shapes, self.blobs, strict=True))
        ]

    def forward(self, inputs: list[Array]) -> None:
        for work, x, y in zip(self.works, inputs, self.blobs, strict=True):
            work.forward(x, y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for work, x, y, dy, dx in zip(self.works, inputs, self.blobs, self.blobs_diff, diffs, strict=True):
            if dx is not None:
                work.backward(x if "inputs" in self.reads else None, y, dy, dx)


def windows_of(length: int, count: int) -> list[tuple[int, int]]:
    """Return where each of `count` windows over an axis begins, and where it ends."""
    return [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]


class Means:
    """The mean of each window: sums along one axis after the other, divided by the numbers of cells."""

    def __init__(self, backend: Any, shape: Sequence[int], counts: Sequence[int]) -> None:
        self.backend, self.there, self.back = backend, list[Way](), list[Way]()
        sizes = np.ones([1] * len(shape))
        for axis, (length, count) in enumerate(zip(shape[2:], counts[2:], strict=True), 2):
            windows = windows_of(length, count)
            cells = ((i, place, 1.0) for i, (start, stop) in enumerate(windows) for place in range(start, stop))
            taps = Taps(count, length, cells)
            self.there.append((axis, taps.placed(backend)))
            self.back.append((axis, taps.back.placed(backend)))
            line = [-1 if index == axis else 1 for index in range(len(shape))]
            sizes = sizes * np.array([stop - start for start, stop in windows]).reshape(line)
        self.sizes = backend.constant(sizes)

    def forward(self, x: Array, y: Array) -> None:
        through(self.backend, x, self.there, y)
        self.backend.xp.divide(y, self.sizes, out=y)

    def backward(self, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        part = self.backend.scratch(y.shape, str(y.dtype), slot=5)
        self.backend.xp.divide(dy, self.sizes, out=part)
        through(self.backend, part, self.back, dx)


class Work:
    """An image with its windows one beside the other, each as long as the longest, and the gradient of that.

    What a shorter window lacks is a cell outside the image.
    """

    def __init__(
        self, backend: Any, pooling: PoolingFunction, shape: Sequence[int], counts: Sequence[int], draw: Any
    ) -> None:
        self.backend, self.pooling, self.draw = backend, pooling, draw
        wide, steps, self.there, self.back = [*shape[:2]], list[int](), list[Way](), list[Way]()
        outside, sizes = np.zeros([1] * len(shape), bool), np.ones([1] * len(shape))
        for axis, (length, count) in enumerate(zip(shape[2:], counts[2:], strict=True), 2):
            windows = windows_of(length, count)
            lengths = np.array([stop - start for start, stop in windows])
            kernel = int(lengths.max())
            starts = enumerate(start for start, _ in windows)
            cells = ((i * kernel + k, start + k, 1.0) for i, start in starts for k in range(lengths[i]))
            taps = Taps(count * kernel, length, cells)
            self.there.append((axis, taps.placed(backend)))
            self.back.append((axis, taps.back.placed(backend)))
            wide.append(count * kernel)
            steps.append(kernel)
            line = [-1 if index == axis else 1 for index in range(len(shape))]
            outside = outside | (np.arange(kernel) >= lengths[:, None]).reshape(line)
            sizes = sizes * lengths.reshape(line)
        self.outside = backend.constant(outside, "bool") if outside.any() else None
        self.image, self.gradient = (backend.empty(wide) for _ in range(2))
        each = itertools.product(*(range(step) for step in steps))
        places = [(..., *(slice(cell, None, step) for cell, step in zip(one, steps, strict=True))) for one in each]
        self.gradients = [self.gradient[place] for place in places]
        cells_of = backend.constant(sizes)
        same: dict[str, Array] = dict.fromkeys(("kernel", "padded", "image"), cells_of)
        self._windows = Windows([self.image[place] for place in places], same, draw)

    def windows(self, x: Array | None) -> Windows:
        """Return the windows of an image, which are read unless it is None."""
        if x is not None:
            through(self.backend, x, self.there, self.image)
            if self.outside is not None:
                self.backend.xp.copyto(self.image, self.pooling.fill, where=self.outside)
        # an algorithm may run a net of phase train in another phase
        self._windows.draw = self.draw if self.backend.phase == "train" else None
        return self._windows

    def forward(self, x: Array, y: Array) -> None:
        self.pooling.forward(self.backend, self.windows(x), y)

    def backward(self, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        windows = self.windows(x)
        self.gradient[...] = 0
        self.pooling.backward(self.backend, windows, y, dy, self.gradients)
        through(self.backend, self.gradient, self.back, dx)
