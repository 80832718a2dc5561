"""Activation: a neuron as a layer of its own, also by the neuron's name (`ReLU`, `Sigmoid`, `Tanh`)."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Layer, LayerState, Names, Neuron, as_many_as, at_least

from .neurons import ReLU, Sigmoid, Tanh


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


class ReLULayer(ActivationLayer):
    """y = max(0, x), element by element."""

    neuron: Annotated[Neuron, "the function"] = ReLU()


class SigmoidLayer(ActivationLayer):
    """y = 1 / (1 + exp(-x)), element by element."""

    neuron: Annotated[Neuron, "the function"] = Sigmoid()


class TanhLayer(ActivationLayer):
    """y = tanh(x), element by element."""

    neuron: Annotated[Neuron, "the function"] = Tanh()
