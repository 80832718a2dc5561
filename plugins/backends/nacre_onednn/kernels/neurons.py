"""Neurons other than ReLU, by the helper, on blobs of any layout: see functions.c."""

from __future__ import annotations

from typing import Any

from nacre import Neuron
from nacre_layers.neurons import ELU, GELU, LReLU, Sigmoid, SiLU, Softplus, Tanh

from ..dnnl.primitives import Call, Desc, pass_over
from ..helper.native import CONSTANTS, MISSING, helper
from .base import Layouts, OnednnKernel, describe_blob
from .element_wise import unfit_any

FUNCTIONS: dict[type, tuple[str, str]] = {
    ELU: ("ELU", "alpha"),
    GELU: ("GELU", ""),
    LReLU: ("LRELU", "slope"),
    Sigmoid: ("SIGMOID", ""),
    SiLU: ("SILU", "beta"),
    Softplus: ("SOFTPLUS", "beta"),
    Tanh: ("TANH", ""),
}
"""The name of a neuron in operations.h, and the field that is its parameter there."""


class Function:
    """A neuron as the helper computes it."""

    def __init__(self, neuron: Neuron) -> None:
        name, field = FUNCTIONS[type(neuron)]
        if isinstance(neuron, GELU) and neuron.approximate == "tanh":
            name = "GELU_TANH"
        self.number = CONSTANTS[name]
        self.parameter: float = getattr(neuron, field) if field else 0.0

    def forward(self, desc: Desc) -> Call:
        """Return the call that computes y from x."""
        return pass_over("function", {"x": "x", "y": "y"}, desc, **self._numbers)

    def backward(self, known: str, desc: Desc) -> Call:
        """Return the call that computes dx from dy and from `known`, which is "x" or "y"."""
        return pass_over("function_gradient", {"known": known, "dy": "dy", "dx": "dx"}, desc, **self._numbers)

    @property
    def _numbers(self) -> dict[str, float]:
        return {"function": self.number, "parameter": self.parameter}


class NeuronKernel(OnednnKernel, reads="blobs"):
    """ELU, GELU, LReLU, Sigmoid, SiLU, Softplus and Tanh; in place where the net says so."""

    LIES, ALIKE = "as below", True

    @classmethod
    def supports(cls, layer: Neuron, inputs: list[Any]) -> str | None:
        return MISSING if helper() is None else unfit_any(inputs)

    def __init__(self, layer: Neuron, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.function = Function(layer)
        if layer.needs_input:
            self.reads = "inputs"

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        desc = describe_blob(self.blobs[0], layouts)
        if stage == "forward":
            return [self.function.forward(desc)]
        return [self.function.backward("x" if self.layer.needs_input else "y", desc)]
