"""The common code of convolutions and deconvolutions: fields, parameters and products."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, ClassVar

from nacre import (
    Array,
    ConfigError,
    Identity,
    Layer,
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
)

from ..cutting import cut_field, uncut
from ..fields import Weighted
from .geometry import Geometry, Slider


class FilterLayer(Weighted, has_param=True, has_neuron=True, can_do_bp=True, connection="one_to_all"):
    """The fields of layers whose filters slide over images."""

    shown = ("kernel", "stride", "dilation", "n_group")

    elsewhere: ClassVar[Mapping[str, str]] = {
        **Weighted.elsewhere,
        "filters": "n_filter",
        "out_channels": "n_filter",
        "kernel_size": "kernel",
        "strides": "stride",
        "padding": "pad",
        "dilation_rate": "dilation",
        "groups": "n_group",
        "activation": "neuron",
    }

    bottoms: Annotated[Names, at_least(1), "the images to filter"]
    tops: Annotated[Names, as_many_as("bottoms"), "the filtered images"]
    n_filter: Annotated[int, positive, "number of filters: the channels of a top"]
    kernel: Annotated[Sizes, positive, "size of a filter, in pixels"] = default((1,))
    stride: Annotated[Sizes, positive, "step of the filters, in pixels"] = default((1,))
    pad: Annotated[Sizes, non_negative, "border of zeros on each side, in pixels"] = default((0,))
    dilation: Annotated[Sizes, positive, "step between the cells of a filter, in pixels"] = default((1,))
    n_group: Annotated[int, positive, "number of independent groups of channels"] = 1
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def partition(self, part: int, parts: int) -> Layer:
        if self.n_group > 1:
            raise uncut(self, f"n_group={self.n_group} groups of channels")
        return cut_field(self, "n_filter", part, parts)

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int:
        return sum(map(prod, tops)) * prod(parameters["weight"][1:])


def declare(state: Any, layer: Any, backend: Any, inputs: list[Any], kind: type[Any] = Geometry) -> Geometry:
    """Declare the blobs and parameters of a convolution in its state or kernel; return its sizes."""
    for name, one in zip(layer.bottoms, inputs, strict=True):
        if one.shape != inputs[0].shape:
            raise ConfigError(
                f"{layer.name}: bottom '{name}' of shape {one.shape} differs from "
                f"'{layer.bottoms[0]}' of shape {inputs[0].shape}"
            )
    geometry = kind(layer, inputs[0].shape)
    state.parameters = [Parameter.of(layer, "weight", geometry.weight)]
    if layer.bias:
        state.parameters.append(Parameter.of(layer, "bias", (layer.n_filter,)))
    state.blobs = [backend.blob(geometry.top) for _ in inputs]
    return geometry


class FilterState(LayerState, reads="inputs"):
    """The common state of both layers."""

    geometry: Geometry

    def ready(self) -> None:
        self.slider = Slider(self.backend, self.geometry, self.layer.n_group)
        self.bias_sum = self.backend.empty((self.layer.n_filter,))

    def forward(self, inputs: list[Array]) -> None:
        self.slider.pack(self.parameters[0].blob)
        for x, y in zip(inputs, self.blobs, strict=True):
            self.apply(x, y)
            if self.layer.bias:
                self.backend.xp.add(y, self.parameters[1].blob.reshape(-1, *[1] * (y.ndim - 2)), out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, gradients = self.backend.xp, [one.gradient for one in self.parameters]
        for gradient in gradients:
            if gradient is not None:
                gradient[...] = 0
        self.slider.pack(self.parameters[0].blob)
        for x, dy, dx in zip(inputs, self.blobs_diff, diffs, strict=True):
            if gradients[0] is not None:
                self.add_gradient(x, dy, gradients[0])
            if self.layer.bias and gradients[1] is not None:
                xp.sum(dy, axis=(0, *range(2, dy.ndim)), out=self.bias_sum)
                xp.add(gradients[1], self.bias_sum, out=gradients[1])
            if dx is not None:
                self.apply_back(dy, dx)

    def apply(self, x: Array, y: Array) -> None:
        """Write y without the bias."""
        raise NotImplementedError

    def apply_back(self, dy: Array, dx: Array) -> None:
        """Write the gradient of x."""
        raise NotImplementedError

    def add_gradient(self, x: Array, dy: Array, gradient: Array) -> None:
        """Add the gradient of the weights."""
        raise NotImplementedError
