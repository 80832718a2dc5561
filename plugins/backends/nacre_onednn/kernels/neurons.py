"""Neurons other than ReLU, by the helper, on blobs of any layout: see functions.c."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from nacre import Array, Neuron
from nacre_layers.neurons import ELU, GELU, LReLU, Sigmoid, SiLU, Softplus, Tanh

from ..dnnl.primitives import Call, Desc, pass_over
from ..helper.native import CONSTANTS, MISSING, helper
from ..record import Record
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
    """A neuron as the helper computes it.

    Args:
        narrow: whether blobs are of bf16. What takes long is then looked up among the results of all its numbers.
    """

    def __init__(self, neuron: Neuron, *, narrow: bool) -> None:
        name, field = FUNCTIONS[type(neuron)]
        if isinstance(neuron, GELU) and neuron.approximate == "tanh":
            name = "GELU_TANH"
        self.known = "x" if neuron.needs_input else "y"
        self.numbers: dict[str, float] = {
            "function": CONSTANTS[name], "parameter": getattr(neuron, field) if field else 0.0
        }  # fmt: skip
        self.tables: dict[str, Array] = {}
        if narrow and name != "LRELU":
            self.tables["results"] = results_of(**self.numbers)
            if self.known == "x":  # the slopes of the others are simple
                self.tables["slopes"] = slopes_of(**self.numbers)

    def forward(self, desc: Desc) -> Call:
        """Return the call that computes y from x."""
        return self._call("function", {"x": "x", "y": "y"}, desc, "results")

    def backward(self, desc: Desc) -> Call:
        """Return the call that computes dx from dy, and from x or y as the neuron says."""
        return self._call("function_gradient", {"known": self.known, "dy": "dy", "dx": "dx"}, desc, "slopes")

    def _call(self, kind: str, buffers: Mapping[str, str], desc: Desc, table: str) -> Call:
        made = pass_over(kind, buffers, desc, **self.numbers)
        looked_up = {table: (table, self.tables[table].nbytes)} if table in self.tables else {}
        return replace(made, buffers={**made.buffers, **looked_up})


@lru_cache(maxsize=16)
def results_of(**function: float) -> Array:
    """Return the results of a function for all numbers of bf16, in the order of their bits."""
    numbers = np.arange(1 << 16, dtype=np.uint16)
    made = Record()
    made.add("function", {"x": numbers, "y": numbers}, {**function, "size": numbers.size, "narrow": True})
    made.replay(1)()
    return numbers


@lru_cache(maxsize=16)
def slopes_of(**function: float) -> Array:
    """Return the slopes of a function at all numbers of bf16, in float32."""
    numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    slopes = np.ones_like(numbers)
    made = Record()
    made.add("function_gradient", {"known": numbers, "dy": slopes, "dx": slopes}, {**function, "size": numbers.size})
    made.replay(1)()
    return slopes


class NeuronKernel(OnednnKernel, reads="blobs"):
    """ELU, GELU, LReLU, Sigmoid, SiLU, Softplus and Tanh; in place where the net says so."""

    LIES, ALIKE = "as below", True

    @classmethod
    def supports(cls, layer: Neuron, inputs: list[Any]) -> str | None:
        return MISSING if helper() is None else unfit_any(inputs)

    def __init__(self, layer: Neuron, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        if layer.needs_input:
            self.reads = "inputs"
        self.function = Function(layer, narrow=backend.compute == "bf16")

    def buffers(self) -> dict[str, Array]:
        return {**super().buffers(), **self.function.tables}

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        desc = describe_blob(self.blobs[0], layouts)
        return [self.function.forward(desc) if stage == "forward" else self.function.backward(desc)]
