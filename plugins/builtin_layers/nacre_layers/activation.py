"""Activation: a neuron as a layer of its own, also by the neuron's name (`ReLU`, `Sigmoid`, `GELU`, ...)."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Identity, Layer, Names, Neuron, as_many_as, at_least

from .aliases import AliasState
from .neurons import ELU, GELU, Exponential, LReLU, ReLU, Sigmoid, SiLU, Softplus, STanh, Tanh


class ActivationLayer(Layer, has_neuron=True, can_do_bp=True):
    """y = f(x), element by element; one top for each bottom.

    Bottoms are of any shape. The tops take over the memory of the bottoms where nobody reads those later.

    Example:
        [[layer]]
        type = "Activation"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["act1"]  # (8, 20, 12, 12)
        neuron = { type = "LReLU", slope = 0.2 }
    """

    bottoms: Annotated[Names, at_least(1), "what the function is applied to"]
    tops: Annotated[Names, as_many_as("bottoms"), "the results"]
    neuron: Annotated[Neuron, "the function"]

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ActivationState:
        return ActivationState(self, backend, inputs, diffs)


class ActivationState(AliasState, reads="", elementwise=True):
    """Passes the bottoms on; the net applies the neuron behind it, as for every layer that has one."""


class IdentityLayer(ActivationLayer):
    """y = x: a blob under another name, without a copy. After Mocha.jl's `IdentityLayer`.

    Example:
        [[layer]]
        type = "Identity"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["features"]  # (8, 20, 12, 12)
    """

    neuron: Annotated[Neuron, "the function"] = Identity()


class ReLULayer(ActivationLayer):
    """y = max(0, x), element by element.

    Example:
        [[layer]]
        type = "ReLU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["relu1"]  # (8, 20, 12, 12)
    """

    neuron: Annotated[Neuron, "the function"] = ReLU()


class SigmoidLayer(ActivationLayer):
    """y = 1 / (1 + exp(-x)), element by element.

    Example:
        [[layer]]
        type = "Sigmoid"
        bottoms = ["score"]  # (8, 1)
        tops = ["prob"]  # (8, 1)
    """

    neuron: Annotated[Neuron, "the function"] = Sigmoid()


class TanhLayer(ActivationLayer):
    """y = tanh(x), element by element.

    Example:
        [[layer]]
        type = "Tanh"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["tanh1"]  # (8, 500)
    """

    neuron: Annotated[Neuron, "the function"] = Tanh()


class STanhLayer(ActivationLayer):
    """y = 1.7159047 · tanh(2/3 · x), element by element. After SINGA's `STanhLayer`.

    Other factors: `neuron = { type = "STanh", outer = 2.0, inner = 0.5 }`.

    Example:
        [[layer]]
        type = "STanh"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["stanh1"]  # (8, 500)
    """

    neuron: Annotated[Neuron, "the function"] = STanh()


class LReLULayer(ActivationLayer):
    """y = x where x > 0, else 0.01 · x, element by element.

    Another slope: `neuron = { type = "LReLU", slope = 0.2 }`.

    Example:
        [[layer]]
        type = "LReLU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["lrelu1"]  # (8, 20, 12, 12)
    """

    neuron: Annotated[Neuron, "the function"] = LReLU()


class ELULayer(ActivationLayer):
    """y = x where x > 0, else exp(x) - 1, element by element.

    Another lowest output: `neuron = { type = "ELU", alpha = 0.5 }`.

    Example:
        [[layer]]
        type = "ELU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["elu1"]  # (8, 20, 12, 12)
    """

    neuron: Annotated[Neuron, "the function"] = ELU()


class GELULayer(ActivationLayer):
    """y = x · Φ(x), element by element, where Φ is the standard normal distribution function.

    The approximation by tanh: `neuron = { type = "GELU", approximate = "tanh" }`.

    Example:
        [[layer]]
        type = "GELU"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["gelu1"]  # (8, 500)
    """

    neuron: Annotated[Neuron, "the function"] = GELU()


class SiLULayer(ActivationLayer):
    """y = x · sigmoid(x), element by element. After Caffe's `Swish`.

    With sigmoid(beta · x): `neuron = { type = "SiLU", beta = 2.0 }`.

    Example:
        [[layer]]
        type = "SiLU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["silu1"]  # (8, 20, 12, 12)
    """

    neuron: Annotated[Neuron, "the function"] = SiLU()


class SoftplusLayer(ActivationLayer):
    """y = log(1 + exp(x)), element by element.

    A sharper bend, log(1 + exp(beta · x)) / beta: `neuron = { type = "Softplus", beta = 5.0 }`.

    Example:
        [[layer]]
        type = "Softplus"
        bottoms = ["score"]  # (8, 1)
        tops = ["rate"]  # (8, 1)
    """

    neuron: Annotated[Neuron, "the function"] = Softplus()


class BNLLLayer(SoftplusLayer):
    """y = log(1 + exp(x)), element by element: `Softplus` under Caffe's name.

    Example:
        [[layer]]
        type = "BNLL"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["bnll1"]  # (8, 500)
    """


class ExponentialLayer(ActivationLayer):
    """y = exp(x), element by element.

    Example:
        [[layer]]
        type = "Exponential"
        bottoms = ["log_sigma"]  # (8, 5)
        tops = ["sigma"]  # (8, 5)
    """

    neuron: Annotated[Neuron, "the function"] = Exponential()
