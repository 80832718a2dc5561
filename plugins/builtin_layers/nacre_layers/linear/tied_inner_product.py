"""TiedInnerProduct: an inner product with the transposed weights of another layer."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, Identity, Initializer, Names, Neuron, Parameter, as_many_as, at_least, positive

from ..fields import Biased
from .product import ProductState


class TiedInnerProductLayer(Biased, has_param=True, has_neuron=True, can_do_bp=True):
    """y = x W + b, where W is the weight of the InnerProduct `tied`: its transpose, as in a decoder.

    Bottoms are (images, ...), read as (images, features); tops are (images, output_dim). The other layer's `weight` is
    (features, output_dim): it makes `features` numbers of `output_dim`. It learns from both layers, once each
    iteration, by the sum of both gradients; with `learns=False` only from its own, as in Mocha.jl's
    `TiedInnerProductLayer`.

    Raises:
        TopologyError: the net has no such layer, or its weight has another shape.

    Example:
        [[layer]]
        type = "InnerProduct"
        name = "encode"
        bottoms = ["data"]  # (8, 784)
        tops = ["code"]  # (8, 32)
        output_dim = 32

        [[layer]]
        type = "TiedInnerProduct"
        bottoms = ["code"]  # (8, 32)
        tops = ["decoded"]  # (8, 784)
        tied = "encode"
        output_dim = 784
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to multiply"]
    tops: Annotated[Names, as_many_as("bottoms"), "the products"]
    tied: Annotated[str, "name of the InnerProduct whose weight is used; its transpose must be False"]
    output_dim: Annotated[int, positive, "number of outputs for one image: the features of the other layer's input"]
    learns: Annotated[bool, "whether the weight learns from this layer too"] = True
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int:
        return sum(map(prod, bottoms)) * tops[0][-1]


class Turned(Initializer):
    """The transposed values of `init`, so that its fans are those of the weight as it is used."""

    init: Initializer

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        return self.init.values(random, shape[::-1]).T


class TiedInnerProductState(ProductState, of=TiedInnerProductLayer, reads="inputs", capturable=True):
    """`TiedInnerProductLayer` on any backend."""

    def declare_weight(self) -> Parameter:
        shape = (self.layer.output_dim, self.features)
        return Parameter("weight", shape, tied=f"{self.layer.tied}/weight", transposed=True)

    def multiply(self, dy: Array, x: Array, gradient: Array) -> None:
        if self.layer.learns:
            super().multiply(dy, x, gradient)
        else:
            gradient[...] = 0
