"""InnerProduct: a fully connected layer, and TiedInnerProduct, which reads another one's weight."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import (
    Array,
    ConfigError,
    Identity,
    Initializer,
    LayerState,
    Names,
    Neuron,
    Parameter,
    as_many_as,
    at_least,
    positive,
)

from .axes import check_whole, joined_batch
from .fields import Biased, Weighted
from .initializers import Pretrained


class InnerProductLayer(Weighted, has_param=True, has_neuron=True, can_do_bp=True):
    """y = x Wᵀ + b; one top for each bottom, all with the same weight.

    Bottoms are read as (..., features), where the axes from `axis` on are the features; the axes before are kept, so
    tops are (images, output_dim) unless `axis` says otherwise. With axis 0 a whole batch is one row of features, and
    tops are (output_dim,): then all its rows must count, or it raises DataError. `weight` is (output_dim, features), or
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

    bottoms: Annotated[Names, at_least(1), "what is multiplied"]
    tops: Annotated[Names, as_many_as("bottoms"), "the products"]
    output_dim: Annotated[int, positive, "numbers in the output of one image"]
    axis: Annotated[int, "the first axis of the features; -1 is the last"] = 1
    transpose: Annotated[bool, "whether the weight lies as (features, output_dim)"] = False
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> InnerProductState:
        return InnerProductState(self, backend, inputs, diffs)


class TiedInnerProductLayer(Biased, has_param=True, has_neuron=True, can_do_bp=True):
    """y = x W + b, where W is the weight of the InnerProduct `tied`: the way back, as a decoder has it.

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

    bottoms: Annotated[Names, at_least(1), "what is multiplied"]
    tops: Annotated[Names, as_many_as("bottoms"), "the products"]
    tied: Annotated[str, "name of the InnerProduct of the net whose weight is read; its transpose must be False"]
    output_dim: Annotated[int, positive, "numbers in the output of one image: the features of the other's input"]
    learns: Annotated[bool, "whether the weight learns from this layer too"] = True
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> TiedInnerProductState:
        return TiedInnerProductState(self, backend, inputs, diffs)


class ProductState(LayerState, reads="inputs"):
    """What the states of both layers have in common."""

    axis = 1
    batch = 0

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        axes = [self._place(name, one.shape) for name, one in zip(layer.bottoms, inputs, strict=True)]
        self.features = prod(inputs[0].shape[axes[0] :])
        for name, one, axis in zip(layer.bottoms, inputs, axes, strict=True):
            if (features := prod(one.shape[axis:])) != self.features:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' has {features} features an image, "
                    f"but '{layer.bottoms[0]}' has {self.features}"
                )
        self.parameters = [self.declare_weight()]
        if layer.bias:
            self.parameters.append(Parameter.of(layer, "bias", (layer.output_dim,)))
        tops = [(*one.shape[:axis], layer.output_dim) for one, axis in zip(inputs, axes, strict=True)]
        self.blobs = [backend.blob(shape) for shape in tops]

    def _place(self, name: str, shape: tuple[int, ...]) -> int:
        """Give the axis of a bottom where its features begin."""
        axis = self.axis if self.axis >= 0 else len(shape) + self.axis
        if axis < (self.axis != 0) or axis > max(1, len(shape) - 1):
            raise ConfigError(
                f"{self.layer.name}: axis={self.axis}, but bottom '{name}' of shape {tuple(shape)} has only the axes "
                f"1 to {len(shape) - 1} behind the batch"
            )
        return axis

    def declare_weight(self) -> Parameter:
        """Give the parameter."""
        raise NotImplementedError

    def weight(self) -> Array:
        """Give the weight as (output_dim, features)."""
        return self.parameters[0].blob

    def multiply(self, dy: Array, x: Array, gradient: Array) -> None:
        """Write the gradient of the weight."""
        self.backend.xp.matmul(dy.T, x, out=gradient)

    def _rows(self, x: Array, dy: Array) -> tuple[Array, Array]:
        """Give a bottom and a top, or their gradients, as matrices."""
        return x.reshape(-1, self.features), dy.reshape(-1, self.layer.output_dim)

    def forward(self, inputs: list[Array]) -> None:
        if self.batch:
            check_whole(self.layer, self.backend, self.batch)
        xp, weight = self.backend.xp, self.weight()
        for bottom, top in zip(inputs, self.blobs, strict=True):
            x, y = self._rows(bottom, top)
            xp.matmul(x, weight.T, out=y)
            if self.layer.bias:
                xp.add(y, self.parameters[1].blob, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for number, (bottom, bottom_diff, top_diff) in enumerate(zip(inputs, diffs, self.blobs_diff, strict=True)):
            x, dy = self._rows(bottom, top_diff)
            self._gradient(0, number, lambda out, x=x, dy=dy: self.multiply(dy, x, out))
            if self.layer.bias:
                self._gradient(1, number, lambda out, dy=dy: xp.sum(dy, axis=0, out=out))
            if bottom_diff is not None:
                xp.matmul(dy, self.weight(), out=bottom_diff.reshape(-1, self.features))

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


class InnerProductState(ProductState, reads="inputs"):
    """`InnerProductLayer` on any backend."""

    def __init__(self, layer: InnerProductLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        self.axis, self.batch = layer.axis, joined_batch(layer, inputs)
        super().__init__(layer, backend, inputs, diffs)

    def declare_weight(self) -> Parameter:
        if not self.layer.transpose:
            return Parameter.of(self.layer, "weight", (self.layer.output_dim, self.features))
        weight = Parameter.of(self.layer, "weight", (self.features, self.layer.output_dim))
        if not isinstance(weight.init, Pretrained):  # that lies as the layer's own does
            weight.init = Turned(init=self.layer.weight_init)
        return weight

    def weight(self) -> Array:
        return self.parameters[0].blob.T if self.layer.transpose else self.parameters[0].blob

    def multiply(self, dy: Array, x: Array, gradient: Array) -> None:
        super().multiply(*((x, dy) if self.layer.transpose else (dy, x)), gradient)


class Turned(Initializer):
    """The transpose of what `init` gives, so that its fans are those of the weight as it is used."""

    init: Initializer

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        return self.init.values(random, shape[::-1]).T


class TiedInnerProductState(ProductState, reads="inputs"):
    """`TiedInnerProductLayer` on any backend."""

    def declare_weight(self) -> Parameter:
        shape = (self.layer.output_dim, self.features)
        return Parameter("weight", shape, tied=f"{self.layer.tied}/weight", transposed=True)

    def multiply(self, dy: Array, x: Array, gradient: Array) -> None:
        if self.layer.learns:
            super().multiply(dy, x, gradient)
        else:
            gradient[...] = 0


def not_plain(layer: InnerProductLayer, inputs: list[Any]) -> str | None:
    """Say why a layer is no product of (images, features) by a weight that lies as (output_dim, features), or None."""
    if layer.transpose:
        return "serves weights that lie as (output_dim, features)"
    plain = layer.axis == 1 or (layer.axis < 0 and layer.axis + len(inputs[0].shape) == 1)
    return None if plain else "serves tops of two axes: axis=1"
