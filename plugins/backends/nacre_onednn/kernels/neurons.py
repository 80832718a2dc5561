"""Neurons other than ReLU, by the helper, on blobs of any layout: see chain.c and neurons.h."""

from __future__ import annotations

from typing import Any

from nacre import Neuron
from nacre_layers.neurons import (
    ELU,
    GELU,
    SELU,
    Exponential,
    Hardswish,
    LReLU,
    Mish,
    Sigmoid,
    SiLU,
    Softplus,
    STanh,
    Tanh,
)

from .base import unserved_any
from .chain import ChainKernel, Link

FUNCTIONS: dict[type, tuple[str, ...]] = {
    ELU: ("ELU", "alpha"),
    Exponential: ("EXPONENTIAL",),
    GELU: ("GELU",),
    Hardswish: ("HARDSWISH",),
    LReLU: ("LRELU", "slope"),
    Mish: ("MISH",),
    SELU: ("SELU",),
    STanh: ("STANH", "outer", "inner"),
    Sigmoid: ("SIGMOID",),
    SiLU: ("SILU", "beta"),
    Softplus: ("SOFTPLUS", "beta"),
    Tanh: ("TANH",),
}
"""The name of a neuron in operations.h, and the fields that are its numbers there."""


def link_of(neuron: Neuron) -> Link:
    """Return a neuron as a link of a chain."""
    name, *fields = FUNCTIONS[type(neuron)]
    if isinstance(neuron, GELU) and neuron.approximate == "tanh":
        name = "GELU_TANH"
    return Link(name, tuple(getattr(neuron, field) for field in fields), "x" if neuron.needs_input else "y")


class NeuronKernel(ChainKernel):
    """Every neuron but ReLU; in place where the net says so."""

    @classmethod
    def supports(cls, layer: Neuron, inputs: list[Any]) -> str | None:
        return unserved_any(inputs)

    def __init__(self, layer: Neuron, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs, links=[link_of(layer)])
