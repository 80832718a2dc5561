"""Activation: a neuron as a layer of its own, also by the neuron's name (`ReLU`, `Sigmoid`, `GELU`, ...)."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Identity, Layer, LayerState, Names, Neuron, as_many_as, at_least

from .neurons import ELU, GELU, Exponential, LReLU, ReLU, Sigmoid, SiLU, Softplus, STanh, Tanh


class ActivationLayer(Layer, has_neuron=True, can_do_bp=True):
    """y = f(x), element by element; one top for each bottom.

    Bottoms are of any shape. The tops take over the memory of the bottoms where nobody reads those later.
    """

    bottoms: Annotated[Names, at_least(1), "what f is applied to"]
    tops: Annotated[Names, as_many_as("bottoms"), "the results"]
    neuron: Annotated[Neuron, "the function"]

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ActivationState:
        return ActivationState(self, backend, inputs, diffs)


class ActivationState(LayerState, reads="", elementwise=True):
    """Passes the bottoms on; the net applies the neuron behind it, as for every layer that has one."""

    def __init__(self, layer: ActivationLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(one) for one in inputs]

    def forward(self, inputs: list[Array]) -> None:
        """The tops are the bottoms."""

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """The gradients are those of the tops."""

    def shutdown(self) -> None:
        """Nothing is held."""


class IdentityLayer(ActivationLayer):
    """y = x: a blob under another name, without a copy. After Mocha.jl's `IdentityLayer`."""

    neuron: Annotated[Neuron, "the function"] = Identity()


class ReLULayer(ActivationLayer):
    """y = max(0, x), element by element."""

    neuron: Annotated[Neuron, "the function"] = ReLU()


class SigmoidLayer(ActivationLayer):
    """y = 1 / (1 + exp(-x)), element by element."""

    neuron: Annotated[Neuron, "the function"] = Sigmoid()


class TanhLayer(ActivationLayer):
    """y = tanh(x), element by element."""

    neuron: Annotated[Neuron, "the function"] = Tanh()


class STanhLayer(ActivationLayer):
    """y = 1.7159047 · tanh(2/3 · x), element by element; other factors in a `neuron` given. After SINGA's."""

    neuron: Annotated[Neuron, "the function"] = STanh()


class LReLULayer(ActivationLayer):
    """y = x where x > 0, else 0.01 · x, element by element; another slope in a `neuron` given."""

    neuron: Annotated[Neuron, "the function"] = LReLU()


class ELULayer(ActivationLayer):
    """y = x where x > 0, else exp(x) - 1, element by element; another alpha in a `neuron` given."""

    neuron: Annotated[Neuron, "the function"] = ELU()


class GELULayer(ActivationLayer):
    """y = x · Φ(x), element by element; the approximation by tanh in a `neuron` given."""

    neuron: Annotated[Neuron, "the function"] = GELU()


class SiLULayer(ActivationLayer):
    """y = x · sigmoid(x), element by element; another beta in a `neuron` given. Caffe's `Swish`."""

    neuron: Annotated[Neuron, "the function"] = SiLU()


class SoftplusLayer(ActivationLayer):
    """y = log(1 + exp(x)), element by element; another beta in a `neuron` given."""

    neuron: Annotated[Neuron, "the function"] = Softplus()


class BNLLLayer(SoftplusLayer):
    """y = log(1 + exp(x)), element by element: `Softplus` under Caffe's name."""


class ExponentialLayer(ActivationLayer):
    """y = exp(x), element by element."""

    neuron: Annotated[Neuron, "the function"] = Exponential()
