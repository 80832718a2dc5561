"""InnerProduct: a fully connected layer."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, ClassVar

from nacre import Array, ClassCount, Identity, Layer, Names, Neuron, Parameter, as_many_as, at_least, positive

from ..axes import Joins, joined_batch
from ..cutting import cut_field, uncut
from ..fields import Weighted
from ..initializers import Pretrained
from .product import ProductState
from .tied_inner_product import Turned


class InnerProductLayer(Weighted, has_param=True, has_neuron=True, can_do_bp=True, connection="one_to_all"):
    """y = x Wᵀ + b; one top for each bottom, all with the same weight.

    Bottoms are read as (..., features), where the axes from `axis` on are the features; the axes before are kept, so
    tops are (images, output_dim) with the default `axis`. With axis 0 a whole batch is one row of features, and tops
    are (output_dim,): then all its rows must be real, or it raises DataError. `weight` is (output_dim, features), or
    with `transpose` (features, output_dim), `bias` (output_dim). After Mocha.jl's `InnerProductLayer` and Caffe's
    `InnerProduct`.

    Example:
        [[layer]]
        type = "InnerProduct"
        bottoms = ["pool2"]  # (8, 50, 4, 4)
        tops = ["ip1"]  # (8, 500)
        output_dim = 500
        neuron = "ReLU"
    """

    feature_axis = -1

    elsewhere: ClassVar[Mapping[str, str]] = {
        **Weighted.elsewhere,
        "units": "output_dim",
        "out_features": "output_dim",
        "activation": "neuron",
    }

    bottoms: Annotated[Names, at_least(1), "the blobs to multiply"]
    tops: Annotated[Names, as_many_as("bottoms"), "the products"]
    output_dim: Annotated[ClassCount, positive, "number of outputs for one image, or the blob of classes"]
    axis: Annotated[int, "the first axis of the features; -1 is the last"] = 1
    transpose: Annotated[bool, "whether the weight is stored as (features, output_dim)"] = False
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def partition(self, part: int, parts: int) -> Layer:
        if self.axis == 0:
            raise uncut(self, "axis=0 makes one row of features of a batch")
        return cut_field(self, "output_dim", part, parts)

    def not_by_records(self) -> str:
        return "" if self.axis else "axis=0 joins the records of a batch"

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int:
        return sum(map(prod, bottoms)) * tops[0][-1]


class InnerProductState(Joins, ProductState, of=InnerProductLayer, reads="inputs"):
    """`InnerProductLayer` on any backend."""

    def __init__(self, layer: InnerProductLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        self.axis, self.batch = layer.axis, joined_batch(layer, inputs)
        super().__init__(layer, backend, inputs, diffs)

    def declare_weight(self) -> Parameter:
        if not self.layer.transpose:
            return Parameter.of(self.layer, "weight", (self.layer.output_dim, self.features))
        weight = Parameter.of(self.layer, "weight", (self.features, self.layer.output_dim))
        if not isinstance(weight.init, Pretrained):  # stored as in the layer
            weight.init = Turned(init=self.layer.weight_init)
        return weight

    def weight(self) -> Array:
        return self.parameters[0].blob.T if self.layer.transpose else self.parameters[0].blob

    def multiply(self, dy: Array, x: Array, gradient: Array) -> None:
        super().multiply(*((x, dy) if self.layer.transpose else (dy, x)), gradient)
