"""Activation: a neuron as a layer of its own, also by the neuron's name (`ReLU`, `Sigmoid`, `GELU`, ...)."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar

from nacre import Identity, Layer, Names, Neuron, as_many_as, at_least, finite, one_of, positive

from ..neurons import ELU, GELU, Exponential, LReLU, ReLU, Sigmoid, SiLU, Softplus, STanh, Tanh
from ..shapes.passthrough import AliasState


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


class NeuronLayer(Layer, has_neuron=True, can_do_bp=True):
    """A neuron as a layer that goes by its name, and has its fields."""

    function: ClassVar[type[Neuron]]

    bottoms: Annotated[Names, at_least(1), "what the function is applied to"]
    tops: Annotated[Names, as_many_as("bottoms"), "the results"]

    @cached_property
    def neuron(self) -> Neuron:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """The neuron, made of this layer's fields."""
        return self.function(**{field.name: getattr(self, field.name) for field in self.function.fields()})

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ActivationState:
        return ActivationState(self, backend, inputs, diffs)


class IdentityLayer(NeuronLayer):
    """y = x: a blob under another name, without a copy. After Mocha.jl's `IdentityLayer`.

    Example:
        [[layer]]
        type = "Identity"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["features"]  # (8, 20, 12, 12)
    """

    function = Identity


class ReLULayer(NeuronLayer):
    """y = max(epsilon, x), element by element; the gradient passes where y > epsilon.

    Example:
        [[layer]]
        type = "ReLU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["relu1"]  # (8, 20, 12, 12)
    """

    function = ReLU
    epsilon: Annotated[float, finite, "the smallest output"] = 0.0


class SigmoidLayer(NeuronLayer):
    """y = 1 / (1 + exp(-x)), element by element.

    Example:
        [[layer]]
        type = "Sigmoid"
        bottoms = ["score"]  # (8, 1)
        tops = ["prob"]  # (8, 1)
    """

    function = Sigmoid


class TanhLayer(NeuronLayer):
    """y = tanh(x), element by element.

    Example:
        [[layer]]
        type = "Tanh"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["tanh1"]  # (8, 500)
    """

    function = Tanh


class STanhLayer(NeuronLayer):
    """y = outer · tanh(inner · x), element by element: LeCun's scaled tanh. After SINGA's `STanhLayer`.

    Example:
        [[layer]]
        type = "STanh"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["stanh1"]  # (8, 500)
    """

    function = STanh
    outer: Annotated[float, positive, finite, "the largest output"] = 1.7159047
    inner: Annotated[float, positive, finite, "multiplies x"] = 2 / 3


class LReLULayer(NeuronLayer):
    """y = x where x > 0, else slope · x, element by element; `slope` is Caffe's `negative_slope`.

    Example:
        [[layer]]
        type = "LReLU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["lrelu1"]  # (8, 20, 12, 12)
        slope = 0.2
    """

    function = LReLU
    slope: Annotated[float, positive, finite, "slope below 0"] = 0.01


class ELULayer(NeuronLayer):
    """y = x where x > 0, else alpha · (exp(x) - 1), element by element.

    Example:
        [[layer]]
        type = "ELU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["elu1"]  # (8, 20, 12, 12)
        alpha = 0.5
    """

    function = ELU
    alpha: Annotated[float, positive, finite, "the output far below 0 is -alpha"] = 1.0


class GELULayer(NeuronLayer):
    """y = x · Φ(x), element by element, where Φ is the standard normal distribution function.

    With `approximate = "tanh"` Φ(x) is (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.

    Example:
        [[layer]]
        type = "GELU"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["gelu1"]  # (8, 500)
    """

    function = GELU
    approximate: Annotated[str, one_of("none", "tanh"), "how Φ is computed"] = "none"


class SiLULayer(NeuronLayer):
    """y = x · sigmoid(beta · x), element by element. After Caffe's `Swish`.

    Example:
        [[layer]]
        type = "SiLU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["silu1"]  # (8, 20, 12, 12)
    """

    function = SiLU
    beta: Annotated[float, finite, "how sharp the bend is"] = 1.0


class SoftplusLayer(NeuronLayer):
    """y = log(1 + exp(beta · x)) / beta, element by element.

    Example:
        [[layer]]
        type = "Softplus"
        bottoms = ["score"]  # (8, 1)
        tops = ["rate"]  # (8, 1)
    """

    function = Softplus
    beta: Annotated[float, positive, finite, "how sharp the bend is"] = 1.0


class BNLLLayer(SoftplusLayer):
    """y = log(1 + exp(beta · x)) / beta, element by element: `Softplus` under Caffe's name.

    Example:
        [[layer]]
        type = "BNLL"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["bnll1"]  # (8, 500)
    """


class ExponentialLayer(NeuronLayer):
    """y = exp(x), element by element.

    Example:
        [[layer]]
        type = "Exponential"
        bottoms = ["log_sigma"]  # (8, 5)
        tops = ["sigma"]  # (8, 5)
    """

    function = Exponential
