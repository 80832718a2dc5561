"""InnerProduct: a fully connected layer."""

from __future__ import annotations

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
    as_many_as,
    at_least,
    positive,
)

from .weights import Weighted


class InnerProductLayer(Weighted, has_param=True, has_neuron=True, can_do_bp=True):
    """y = x Wᵀ + b; one top for each bottom, all with the same weight.

    Bottoms are (images, ...) and are read as (images, features); tops are (images, output_dim). `weight` is
    (output_dim, features), `bias` (output_dim). After Mocha.jl's `InnerProductLayer`.
    """

    bottoms: Annotated[Names, at_least(1), "what is multiplied"]
    tops: Annotated[Names, as_many_as("bottoms"), "the products"]
    output_dim: Annotated[int, positive, "numbers in the output of one image"]
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> InnerProductState:
        return InnerProductState(self, backend, inputs, diffs)


class InnerProductState(LayerState, reads="inputs"):
    """`InnerProductLayer` on any backend."""

    def __init__(self, layer: InnerProductLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        features = prod(inputs[0].shape[1:])
        for name, one in zip(layer.bottoms, inputs, strict=True):
            if prod(one.shape[1:]) != features:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' has {prod(one.shape[1:])} features an image, "
                    f"but '{layer.bottoms[0]}' has {features}"
                )
        self.features = features
        self.parameters = [Parameter.of(layer, "weight", (layer.output_dim, features))]
        if layer.bias:
            self.parameters.append(Parameter.of(layer, "bias", (layer.output_dim,)))
        self.blobs = [backend.blob((one.shape[0], layer.output_dim)) for one in inputs]

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        for x, y in zip(inputs, self.blobs, strict=True):
            xp.matmul(x.reshape(-1, self.features), self.parameters[0].blob.T, out=y)
            if self.layer.bias:
                xp.add(y, self.parameters[1].blob, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for number, (x, dx, dy) in enumerate(zip(inputs, diffs, self.blobs_diff, strict=True)):
            self._gradient(0, number, lambda out, x=x, dy=dy: xp.matmul(dy.T, x.reshape(-1, self.features), out=out))
            if self.layer.bias:
                self._gradient(1, number, lambda out, dy=dy: xp.sum(dy, axis=0, out=out))
            if dx is not None:
                xp.matmul(dy, self.parameters[0].blob, out=dx.reshape(-1, self.features))

    def _gradient(self, place: int, number: int, compute: Any) -> None:
        """Write the gradient that the first bottom gives, and add those of the others."""
        total = self.parameters[place].gradient
        if total is None:
            return
        if number == 0:
            compute(total)
            return
        part = self.backend.scratch(total.shape)
        compute(part)
        self.backend.xp.add(total, part, out=total)

    def shutdown(self) -> None:
        """Nothing is held."""
