"""Neurons other than ReLU, on blobs of any layout."""

from __future__ import annotations

import ctypes
from typing import Any

from nacre import Neuron
from nacre_layers.neurons import ELU, GELU, LReLU, Sigmoid, SiLU, Softplus, Tanh

from . import library as dnnl
from .element_wise import unfit_any
from .kernel import Layouts, OnednnKernel, describe_blob
from .library import library
from .primitives import DIFF_DST, DIFF_SRC, DST, SRC, Call, Desc, Primitive, attributes, call

KINDS: dict[type, tuple[int, int, str]] = {
    ELU: (dnnl.ELU, dnnl.ELU_OF_RESULT, "alpha"),
    GELU: (dnnl.GELU, dnnl.GELU, ""),
    LReLU: (dnnl.RELU, dnnl.RELU_OF_RESULT, "slope"),
    Sigmoid: (dnnl.LOGISTIC, dnnl.LOGISTIC_OF_RESULT, ""),
    SiLU: (dnnl.SWISH, dnnl.SWISH, "beta"),
    Softplus: (dnnl.SOFT_RELU, dnnl.SOFT_RELU, "beta"),
    Tanh: (dnnl.TANH, dnnl.TANH_OF_RESULT, ""),
}
"""OneDNN's number of a neuron, that of its gradient (from the result, where it can be), and the field they take."""


def numbers(neuron: Neuron) -> tuple[int, int, float]:
    """Give oneDNN's numbers of a neuron and of its gradient, and their parameter."""
    if isinstance(neuron, GELU) and neuron.approximate == "tanh":
        return dnnl.GELU_TANH, dnnl.GELU_TANH, 0.0
    forward, backward, field = KINDS[type(neuron)]
    return forward, backward, getattr(neuron, field) if field else 0.0


class NeuronKernel(OnednnKernel, reads="blobs"):
    """ELU, GELU, LReLU, Sigmoid, SiLU, Softplus and Tanh; in place where the net says so."""

    @classmethod
    def supports(cls, layer: Neuron, inputs: list[Any]) -> str | None:
        return unfit_any(inputs)

    def __init__(self, layer: Neuron, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.forward_number, self.backward_number, parameter = numbers(layer)
        self.rest = (ctypes.c_float(parameter), ctypes.c_float(0))
        self.of_result = self.forward_number != self.backward_number
        if not self.of_result:
            self.reads = "inputs"

    def make(self, part: str, way: str, layouts: Layouts) -> list[Call]:
        desc = describe_blob(self.blobs[0], layouts)
        if part == "forward":
            return [call(self._forward(self.forward_number, desc), {SRC: ("x", desc), DST: ("y", desc)})]
        hint = self._forward(self.backward_number, desc).desc
        backward = Primitive(
            "eltwise_backward", library().engine, self.backward_number, desc, desc, desc, *self.rest, hint, attributes()
        )
        known = {DST: ("y", desc)} if self.of_result else {SRC: ("x", desc)}
        return [call(backward, {**known, DIFF_DST: ("dy", desc), DIFF_SRC: ("dx", desc)})]

    def _forward(self, number: int, desc: Desc) -> Primitive:
        kind = dnnl.FORWARD_TRAINING
        return Primitive("eltwise_forward", library().engine, kind, number, desc, desc, *self.rest, attributes())
