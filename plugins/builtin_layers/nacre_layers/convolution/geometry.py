"""The sizes of a convolution, and the convolution itself by products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from nacre import Array, ConfigError, spread

from ..windows import WindowAxis, WindowGrid

if TYPE_CHECKING:
    from .deconvolution import DeconvolutionLayer
    from .filters import FilterLayer
    from .im2col import Im2colLayer


def slide(layer: FilterLayer | Im2colLayer, image: Sequence[int]) -> list[WindowAxis]:
    """Return the axes of an image along which windows slide, by `kernel`, `stride`, `pad` and `dilation` of a layer."""
    fields = [
        spread(getattr(layer, name), len(image), f"{layer.name}: {name}")
        for name in ("kernel", "stride", "pad", "dilation")
    ]
    return [
        WindowAxis(length, kernel, stride, pad, pad, dilation if kernel > 1 else 1)
        for length, kernel, stride, pad, dilation in zip(image, *fields, strict=True)
    ]


def fit(layer: FilterLayer | Im2colLayer, axes: list[WindowAxis]) -> list[WindowAxis]:
    """Return the axes of an image, with strides no longer than the padded image.

    With one window the stride is never used, and may be larger than a library can handle.

    Raises:
        ConfigError: a window is larger than the padded image.
    """
    if min(axis.count for axis in axes) < 1:
        kernel, dilation, padded = zip(*((axis.kernel, axis.dilation, axis.padded) for axis in axes), strict=True)
        dilated = f" with dilation={dilation}" if max(dilation) > 1 else ""
        raise ConfigError(f"{layer.name}: kernel={kernel}{dilated} is larger than the padded image, {padded}")
    return [replace(axis, stride=min(axis.stride, axis.padded)) for axis in axes]


class Geometry:
    """The sizes of a convolution on a bottom of one shape, checked.

    `filters` slide along the `axes` of an image of `channels`. For a deconvolution all sizes are those of the
    convolution from its top to its bottom.
    """

    def __init__(self, layer: FilterLayer, shape: Sequence[int]) -> None:
        self.axes = fit(layer, self._slide(layer, shape))
        self.images, self.channels = shape[:2]
        self.filters = layer.n_filter
        self.weight = (layer.n_filter, self.channels // layer.n_group, *(axis.kernel for axis in self.axes))
        self.top = (self.images, layer.n_filter, *(axis.count for axis in self.axes))

    def _slide(self, layer: FilterLayer, shape: Sequence[int]) -> list[WindowAxis]:
        """Return the axes along which filters slide over a bottom, once its groups of channels are checked."""
        if not 1 <= len(shape) - 2 <= 3:
            raise ConfigError(
                f"{layer.name}: a bottom of shape {tuple(shape)} must have one to three axes after the channels"
            )
        axes = slide(layer, shape[2:])
        for name, count in (("channels of the bottom", shape[1]), ("n_filter", layer.n_filter)):
            if count % layer.n_group:
                raise ConfigError(f"{layer.name}: n_group={layer.n_group} does not divide the {name}, {count}")
        return axes


class Transposed(Geometry):
    """The sizes of a deconvolution."""

    def __init__(self, layer: DeconvolutionLayer, shape: Sequence[int]) -> None:
        axes = self._slide(layer, shape)  # but for their lengths, which are those of the top
        self.images, self.filters, *counts = shape
        self.channels = layer.n_filter
        extra = spread(layer.extra, len(counts), f"{layer.name}: extra")
        stride = tuple(axis.stride for axis in axes)
        if any(more >= step for more, step in zip(extra, stride, strict=True)):
            raise ConfigError(f"{layer.name}: extra={extra} must be below stride={stride}")
        image = [
            (count - 1) * axis.stride + axis.extent - 2 * axis.pad + more
            for axis, count, more in zip(axes, counts, extra, strict=True)
        ]
        if min(image) < 1:
            pad = tuple(axis.pad for axis in axes)
            raise ConfigError(
                f"{layer.name}: pad={pad} is too large: the top of a bottom of shape {tuple(shape)} would be empty"
            )
        self.axes = [replace(axis, length=length) for axis, length in zip(axes, image, strict=True)]
        self.weight = (self.filters, layer.n_filter // layer.n_group, *(axis.kernel for axis in axes))
        self.top = (self.images, layer.n_filter, *image)


class Slider:
    """A convolution of one shape and its gradients, by one product of matrices for each cell of the filter.

    `image` is (images, channels, ...), `out` (images, filters, ...).
    """

    def __init__(self, backend: Any, g: Geometry, groups: int) -> None:
        self.xp = backend.xp
        grid = WindowGrid((g.images, g.channels, *(axis.length for axis in g.axes)), dict(enumerate(g.axes, 2)))
        self.padded, self.padded_diff = backend.empty(grid.padded), backend.empty(grid.padded)
        self.inside, self.cells = grid.image, grid.cells
        matrix, count = (groups, g.filters // groups, g.channels // groups), prod(axis.count for axis in g.axes)
        self.grouped_out = (g.images, *matrix[:2], count)
        self.cell = backend.empty(grid.counts)
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
