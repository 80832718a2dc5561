"""Neurons other than ReLU, by the helper, on blobs of any layout: see functions.c."""

from __future__ import annotations

from typing import Any

from nacre import Neuron
from nacre_layers.neurons import ELU, GELU, LReLU, Sigmoid, SiLU, Softplus, Tanh

from ..dnnl.primitives import Call, Desc, HelperCall
from ..helper.native import FUNCTION, FUNCTION_GRADIENT, MISSING, helper
from .base import Layouts, OnednnKernel, describe_blob
from .element_wise import unfit_any

FUNCTIONS: dict[type, tuple[int, str]] = {
    ELU: (0, "alpha"),
    GELU: (1, ""),
    LReLU: (3, "slope"),
    Sigmoid: (4, ""),
    SiLU: (5, "beta"),
    Softplus: (6, "beta"),
    Tanh: (7, ""),
}
"""The number of a neuron in functions.c, and the field that is its parameter there."""


GELU_TANH = 2


class Function:
    """A neuron as the helper computes it."""

    def __init__(self, neuron: Neuron) -> None:
        self.number, field = FUNCTIONS[type(neuron)]
        if isinstance(neuron, GELU) and neuron.approximate == "tanh":
            self.number = GELU_TANH
        self.parameter: float = getattr(neuron, field) if field else 0.0

    def call(self, kind: int, names: tuple[str, ...], desc: Desc, size: int, dtype: str) -> Call:
        """Return the call that computes y (of x, y) or dx (of x or y, dy, dx)."""
        numbers = (size, self.number, int(dtype == "bf16"))
        return HelperCall(dict.fromkeys(names, desc.bytes), kind, numbers, values=(self.parameter,))


class NeuronKernel(OnednnKernel, reads="blobs"):
    """ELU, GELU, LReLU, Sigmoid, SiLU, Softplus and Tanh; in place where the net says so."""

    @classmethod
    def supports(cls, layer: Neuron, inputs: list[Any]) -> str | None:
        return MISSING if helper() is None else unfit_any(inputs)

    def __init__(self, layer: Neuron, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.function = Function(layer)
        if layer.needs_input:
            self.reads = "inputs"

    def make(self, part: str, way: str, layouts: Layouts) -> list[Call]:
        blob = self.blobs[0]
        known = "x" if self.layer.needs_input else "y"
        kind, names = (FUNCTION, ("x", "y")) if part == "forward" else (FUNCTION_GRADIENT, (known, "dy", "dx"))
        return [self.function.call(kind, names, describe_blob(blob, layouts), blob.size, blob.dtype)]
