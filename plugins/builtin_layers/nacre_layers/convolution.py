"""Convolution: filters that slide over images of one to three axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Annotated, Any

from nacre import (
    Array,
    ConfigError,
    Identity,
    LayerState,
    Names,
    Neuron,
    Parameter,
    Sizes,
    as_many_as,
    at_least,
    default,
    non_negative,
    positive,
    spread,
)

from .weights import Weighted


class ConvolutionLayer(Weighted, has_param=True, has_neuron=True, can_do_bp=True):
    """y[n, f] = b[f] + Σ_c W[f, c] ⋆ x[n, c], a cross-correlation; one top for each bottom, all with the same filters.

    Bottoms are (images, channels, rows, columns), or with one or three axes behind the channels; all of one shape.
    `kernel`, `stride` and `pad` are one number for all directions, or one for each, in pixels; padding is zero. Tops
    have floor((length + 2 pad - kernel) / stride) + 1 along an axis. `weight` is (n_filter, channels / n_group,
    *kernel), `bias` (n_filter). With `n_group` g, filters and channels are cut into g parts that do not see each
    other. After Mocha.jl's `ConvolutionLayer`.
    """

    bottoms: Annotated[Names, at_least(1), "what is filtered"]
    tops: Annotated[Names, as_many_as("bottoms"), "the filtered blobs"]
    n_filter: Annotated[int, positive, "channels of a top"]
    kernel: Annotated[Sizes, positive, "size of a filter, in pixels"] = default((1,))
    stride: Annotated[Sizes, positive, "step of the filters, in pixels"] = default((1,))
    pad: Annotated[Sizes, non_negative, "border of zeros on each side, in pixels"] = default((0,))
    n_group: Annotated[int, positive, "parts that do not see each other"] = 1
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ConvolutionState:
        return ConvolutionState(self, backend, inputs, diffs)


class Geometry:
    """The sizes of a convolution on a bottom of one shape, checked."""

    def __init__(self, layer: ConvolutionLayer, shape: Sequence[int]) -> None:
        directions = len(shape) - 2
        if not 1 <= directions <= 3:
            raise ConfigError(
                f"{layer.name}: a bottom of shape {tuple(shape)} has not one to three axes behind the channels"
            )
        self.images, self.channels, *self.image = shape
        names = ("kernel", "stride", "pad")
        self.kernel, self.stride, self.pad = (
            spread(getattr(layer, name), directions, f"{layer.name}: {name}") for name in names
        )
        for name, count in (("channels of the bottom", self.channels), ("n_filter", layer.n_filter)):
            if count % layer.n_group:
                raise ConfigError(f"{layer.name}: n_group={layer.n_group} does not divide the {name}, {count}")
        sizes = zip(self.image, self.kernel, self.stride, self.pad, strict=True)
        self.out = tuple((length + 2 * pad - kernel) // stride + 1 for length, kernel, stride, pad in sizes)
        if min(self.out) < 1:
            raise ConfigError(
                f"{layer.name}: kernel={self.kernel} is larger than the padded image of shape {tuple(shape)}"
            )
        self.weight = (layer.n_filter, self.channels // layer.n_group, *self.kernel)
        self.top = (self.images, layer.n_filter, *self.out)


def declare(state: Any, layer: ConvolutionLayer, backend: Any, inputs: list[Any]) -> Geometry:
    """Declare the blobs and parameters of a convolution in its state or kernel; give its sizes."""
    for name, one in zip(layer.bottoms, inputs, strict=True):
        if one.shape != inputs[0].shape:
            raise ConfigError(
                f"{layer.name}: bottom '{name}' of shape {one.shape} differs from "
                f"'{layer.bottoms[0]}' of shape {inputs[0].shape}"
            )
    geometry = Geometry(layer, inputs[0].shape)
    state.parameters = [Parameter.of(layer, "weight", geometry.weight)]
    if layer.bias:
        state.parameters.append(Parameter.of(layer, "bias", (layer.n_filter,)))
    state.blobs = [backend.blob(geometry.top) for _ in inputs]
    return geometry


def _strided(offset: int, count: int, stride: int) -> slice:
    """Give the cells at `offset` in each of `count` windows."""
    return slice(offset, offset + (count - 1) * stride + 1, stride)


class ConvolutionState(LayerState, reads="inputs"):
    """`ConvolutionLayer` on any backend: one product of matrices for each cell of the filter."""

    def __init__(self, layer: ConvolutionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.geometry = declare(self, layer, backend, inputs)

    def ready(self) -> None:
        g, group, backend = self.geometry, self.layer.n_group, self.backend
        padded = (g.images, g.channels, *(length + 2 * pad for length, pad in zip(g.image, g.pad, strict=True)))
        places = (slice(pad, pad + length) for length, pad in zip(g.image, g.pad, strict=True))
        self.inside = (slice(None), slice(None), *places)
        self.padded, self.padded_diff = backend.empty(padded), backend.empty(padded)
        self.cells = [
            (slice(None), slice(None), *map(_strided, cell, g.out, g.stride))
            for cell in itertools.product(*map(range, g.kernel))
        ]
        count = prod(g.out)
        self.grouped_in = (g.images, group, g.channels // group, count)
        self.grouped_out = (g.images, group, self.layer.n_filter // group, count)
        self.grouped_weight = (group, self.layer.n_filter // group, g.channels // group, len(self.cells))
        self.cell = backend.empty((g.images, g.channels, *g.out))
        self.product = backend.empty(self.grouped_out)
        self.by_image = backend.empty((g.images, *self.grouped_weight[:3]))

    def forward(self, inputs: list[Array]) -> None:
        xp, weight = self.backend.xp, self.parameters[0].blob.reshape(self.grouped_weight)
        for x, y in zip(inputs, self.blobs, strict=True):
            xp.copyto(self.padded[self.inside], x)
            total = y.reshape(self.grouped_out)
            total[...] = 0
            for number, cell in enumerate(self.cells):
                xp.copyto(self.cell, self.padded[cell])
                xp.matmul(weight[..., number], self.cell.reshape(self.grouped_in), out=self.product)
                xp.add(total, self.product, out=total)
            if self.layer.bias:
                xp.add(y, self.parameters[1].blob.reshape(-1, *[1] * (y.ndim - 2)), out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, weight = self.backend.xp, self.parameters[0].blob.reshape(self.grouped_weight)
        for parameter in self.parameters:
            if parameter.gradient is not None:
                parameter.gradient[...] = 0
        for x, dy, dx in zip(inputs, self.blobs_diff, diffs, strict=True):
            xp.copyto(self.padded[self.inside], x)
            self.padded_diff[...] = 0
            grouped = dy.reshape(self.grouped_out)
            for number, cell in enumerate(self.cells):
                if self.parameters[0].gradient is not None:
                    xp.copyto(self.cell, self.padded[cell])
                    part = self.cell.reshape(self.grouped_in)
                    xp.matmul(grouped, xp.swapaxes(part, 2, 3), out=self.by_image)
                    total = self.parameters[0].gradient.reshape(self.grouped_weight)[..., number]
                    total += xp.sum(self.by_image, axis=0)
                if dx is not None:
                    xp.matmul(xp.swapaxes(weight[..., number], 1, 2), grouped, out=self.cell.reshape(self.grouped_in))
                    self.padded_diff[cell] += self.cell
            if self.layer.bias and self.parameters[1].gradient is not None:
                gradient = self.parameters[1].gradient
                gradient += xp.sum(dy, axis=(0, *range(2, dy.ndim)))
            if dx is not None:
                xp.copyto(dx, self.padded_diff[self.inside])

    def shutdown(self) -> None:
        """Nothing is held."""
