"""Softmax of scores."""

from __future__ import annotations

from typing import Any

from nacre_layers.softmax import SoftmaxLayer, SoftmaxState

from . import library as dnnl
from .element_wise import unfit_any
from .kernel import Layouts, OnednnKernel, describe_blob, unfit
from .library import library
from .primitives import DIFF_DST, DIFF_SRC, DST, SRC, Call, Primitive, attributes, call


class SoftmaxKernel(OnednnKernel, reads="blobs"):
    """Probabilities, and their gradient."""

    @classmethod
    def supports(cls, layer: SoftmaxLayer, inputs: list[Any]) -> str | None:
        if reason := unfit(inputs) or unfit_any(inputs):
            return reason
        if len(inputs[0].shape) != 2:
            return "serves scores of two axes: for others oneDNN has mostly slow code"
        return None if layer.axis else "serves axis=1"

    def __init__(self, layer: SoftmaxLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = SoftmaxState(layer, backend, inputs, diffs).blobs  # which checks the axis

    def make(self, part: str, way: str, layouts: Layouts) -> list[Call]:
        desc = describe_blob(self.blobs[0], layouts)
        kinds = (dnnl.FORWARD_TRAINING, dnnl.SOFTMAX)
        forward = Primitive("softmax_forward", library().engine, *kinds, desc, desc, 1, attributes())
        if part == "forward":
            return [call(forward, {SRC: ("x", desc), DST: ("y", desc)})]
        backward = Primitive(
            "softmax_backward", library().engine, dnnl.SOFTMAX, desc, desc, desc, 1, forward.desc, attributes()
        )
        return [call(backward, {DST: ("y", desc), DIFF_DST: ("dy", desc), DIFF_SRC: ("dx", desc)})]
