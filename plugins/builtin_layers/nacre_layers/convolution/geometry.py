"""The sizes of a convolution, and the convolution itself by products of matrices."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from nacre import Array, ConfigError, spread

if TYPE_CHECKING:
    from .deconvolution import DeconvolutionLayer
    from .filters import FilterLayer


Place = tuple[slice, ...]


class Sliding:
    """How windows slide over images, by the fields `kernel`, `stride`, `pad` and `dilation` of a layer.

    There is one number of each for every axis after the channels. A window covers `extent` pixels.
    """

    def __init__(self, layer: Any, axes: int) -> None:
        self.kernel, self.stride, self.pad, self.dilation = (
            spread(getattr(layer, name), axes, f"{layer.name}: {name}")
            for name in ("kernel", "stride", "pad", "dilation")
        )
        self.dilation = tuple(step if count > 1 else 1 for step, count in zip(self.dilation, self.kernel, strict=True))
        self.extent = tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def padded(self, image: Sequence[int]) -> tuple[int, ...]:
        """Return the lengths of an image with its padding."""
        return tuple(length + 2 * pad for length, pad in zip(image, self.pad, strict=True))

    def count(self, layer: Any, image: Sequence[int]) -> tuple[int, ...]:
        """Return the number of windows along each axis of an image.

        Raises:
            ConfigError: a window is larger than the padded image.
        """
        padded = self.padded(image)
        sizes = zip(padded, self.extent, self.stride, strict=True)
        counts = tuple((long - extent) // stride + 1 for long, extent, stride in sizes)
        if min(counts) < 1:
            dilated = f" with dilation={self.dilation}" if max(self.dilation) > 1 else ""
            raise ConfigError(f"{layer.name}: kernel={self.kernel}{dilated} is larger than the padded image, {padded}")
        # with one window the stride is never used, and may be larger than a library can handle
        self.stride = tuple(map(min, self.stride, padded))
        return counts

    def inside(self, image: Sequence[int]) -> Place:
        """Return the index of (images, channels, *image) in the padded array."""
        return (slice(None), slice(None), *(slice(pad, pad + long) for pad, long in zip(self.pad, image, strict=True)))

    def cells(self, counts: Sequence[int]) -> list[Place]:
        """Return for each cell, row by row, its index in the padded image, for all windows."""
        return [
            (slice(None), slice(None), *map(_strided, cell, counts, self.stride, self.dilation))
            for cell in itertools.product(*map(range, self.kernel))
        ]


def _strided(offset: int, count: int, stride: int, dilation: int) -> slice:
    """Return the pixels under cell `offset` of each of `count` windows."""
    start = offset * dilation
    return slice(start, start + (count - 1) * stride + 1, stride)


class Geometry(Sliding):
    """The sizes of a convolution on a bottom of one shape, checked.

    `filters` slide over an `image` of `channels`, and `out` has as many channels as there are filters. For a
    deconvolution all sizes are those of the convolution from its top to its bottom.
    """

    def __init__(self, layer: FilterLayer, shape: Sequence[int]) -> None:
        self._check(layer, shape)
        self.images, self.channels, *self.image = shape
        self.filters = layer.n_filter
        self.out = self.count(layer, self.image)
        self.weight = (layer.n_filter, self.channels // layer.n_group, *self.kernel)
        self.top = (self.images, layer.n_filter, *self.out)

    def _check(self, layer: FilterLayer, shape: Sequence[int]) -> None:
        directions = len(shape) - 2
        if not 1 <= directions <= 3:
            raise ConfigError(
                f"{layer.name}: a bottom of shape {tuple(shape)} must have one to three axes after the channels"
            )
        Sliding.__init__(self, layer, directions)
        for name, count in (("channels of the bottom", shape[1]), ("n_filter", layer.n_filter)):
            if count % layer.n_group:
                raise ConfigError(f"{layer.name}: n_group={layer.n_group} does not divide the {name}, {count}")


class Transposed(Geometry):
    """The sizes of a deconvolution."""

    def __init__(self, layer: DeconvolutionLayer, shape: Sequence[int]) -> None:
        self._check(layer, shape)
        self.images, self.filters, *out = shape
        self.channels, self.out = layer.n_filter, tuple(out)
        extra = spread(layer.extra, len(out), f"{layer.name}: extra")
        if any(more >= stride for more, stride in zip(extra, self.stride, strict=True)):
            raise ConfigError(f"{layer.name}: extra={extra} must be below stride={self.stride}")
        sizes = zip(out, self.extent, self.stride, self.pad, extra, strict=True)
        self.image = [(length - 1) * stride + extent - 2 * pad + more for length, extent, stride, pad, more in sizes]
        if min(self.image) < 1:
            raise ConfigError(
                f"{layer.name}: pad={self.pad} is too large: the top of a bottom of shape {tuple(shape)} would be empty"
            )
        self.weight = (self.filters, layer.n_filter // layer.n_group, *self.kernel)
        self.top = (self.images, layer.n_filter, *self.image)


class Slider:
    """A convolution of one shape and its gradients, by one product of matrices for each cell of the filter.

    `image` is (images, channels, ...), `out` (images, filters, ...).
    """

    def __init__(self, backend: Any, g: Geometry, groups: int) -> None:
        self.xp = backend.xp
        padded = (g.images, g.channels, *g.padded(g.image))
        self.padded, self.padded_diff = backend.empty(padded), backend.empty(padded)
        self.inside, self.cells = g.inside(g.image), g.cells(g.out)
        matrix, count = (groups, g.filters // groups, g.channels // groups), prod(g.out)
        self.grouped_out = (g.images, *matrix[:2], count)
        self.cell = backend.empty((g.images, g.channels, *g.out))
        self.part = self.cell.reshape(g.images, groups, matrix[2], count)
        self.product = backend.empty(self.grouped_out)
        self.by_image, self.summed = backend.empty((g.images, *matrix)), backend.empty(matrix)
        self.split_weight = (*matrix, len(self.cells))
        self.packed = backend.empty((len(self.cells), *matrix))

    def pack(self, weight: Array) -> None:
        """Copy the weights so that those of a cell are contiguous."""
        self.xp.copyto(self.packed, self.xp.moveaxis(weight.reshape(self.split_weight), 3, 0))

    def convolve(self, image: Array, out: Array) -> None:
        """Write `out`, the convolution of the image."""
        xp, total = self.xp, out.reshape(self.grouped_out)
        xp.copyto(self.padded[self.inside], image)
        total[...] = 0
        for weight, cell in zip(self.packed, self.cells, strict=True):
            xp.copyto(self.cell, self.padded[cell])
            xp.matmul(weight, self.part, out=self.product)
            xp.add(total, self.product, out=total)

    def transpose(self, out: Array, image: Array) -> None:
        """Write `image`, the transposed convolution of `out`."""
        xp, grouped = self.xp, out.reshape(self.grouped_out)
        self.padded_diff[...] = 0
        for weight, cell in zip(self.packed, self.cells, strict=True):
            xp.matmul(xp.swapaxes(weight, 1, 2), grouped, out=self.part)
            xp.add(self.padded_diff[cell], self.cell, out=self.padded_diff[cell])
        xp.copyto(image, self.padded_diff[self.inside])

    def add_gradient(self, image: Array, out: Array, gradient: Array) -> None:
        """Add the gradient of the weights; one of `image` and `out` is a bottom, the other the gradient of a top."""
        xp, grouped, total = self.xp, out.reshape(self.grouped_out), gradient.reshape(self.split_weight)
        xp.copyto(self.padded[self.inside], image)
        for number, cell in enumerate(self.cells):
            xp.copyto(self.cell, self.padded[cell])
            xp.matmul(grouped, xp.swapaxes(self.part, 2, 3), out=self.by_image)
            xp.sum(self.by_image, axis=0, out=self.summed)
            xp.add(total[..., number], self.summed, out=total[..., number])
