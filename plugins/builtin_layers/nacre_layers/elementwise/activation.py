"""Activation: a neuron as a layer of its own, also by the neuron's name (`ReLU`, `Sigmoid`, `GELU`, ...)."""

from __future__ import annotations

from typing import Annotated

from nacre import Names, Neuron, as_many_as, at_least

from ..cutting import OnNumbers
from ..shapes.passthrough import AliasState


class ActivationLayer(OnNumbers, has_neuron=True, can_do_bp=True):
    """y = f(x), element by element; one top for each bottom.

    Bottoms are of any shape. The tops reuse the memory of the bottoms if nothing reads those later. In a net file
    the name of a neuron means this layer with it, and the neuron's fields stand beside the layer's: `type = "LReLU"`
    and `slope = 0.2` say the same as the example.

    Example:
        [[layer]]
        type = "Activation"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["act1"]  # (8, 20, 12, 12)
        neuron = { type = "LReLU", slope = 0.2 }
    """

    bottoms: Annotated[Names, at_least(1), "the inputs of the function"]
    tops: Annotated[Names, as_many_as("bottoms"), "the results"]
    neuron: Annotated[Neuron, "the function"]


class ActivationState(AliasState, of=ActivationLayer, reads="", elementwise=True, capturable=True):
    """Passes the bottoms on; the net applies the neuron to them, as for every layer that has one."""
