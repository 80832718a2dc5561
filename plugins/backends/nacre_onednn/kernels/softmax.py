"""Softmax of scores, by the helper: oneDNN's loses a NaN, and its gradient needs AVX-512."""

from __future__ import annotations

from math import prod
from typing import Any

from nacre_layers.elementwise.softmax import SoftmaxLayer, SoftmaxState

from ..dnnl.primitives import Call, HelperCall, describe
from .base import Layouts, OnednnKernel, unserved


class SoftmaxKernel(OnednnKernel, reads="blobs"):
    """Probabilities, and their gradient."""

    @classmethod
    def supports(cls, layer: SoftmaxLayer, inputs: list[Any]) -> str | None:
        if reason := unserved(inputs):
            return reason
        axes = len(inputs[0].shape)
        if axes == 4:
            return "serves no scores of four axes, which may lie with their channels last"
        return None if layer.axis in (-1, axes - 1) else "serves scores along the last axis"

    def __init__(self, layer: SoftmaxLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = SoftmaxState(layer, backend, inputs, diffs).blobs  # which checks the axis

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        y = self.blobs[0]
        size = describe(y.shape, layouts(y), y.dtype).bytes
        kind, names = ("softmax", ("x", "y")) if stage == "forward" else ("softmax_gradient", ("y", "dy", "dx"))
        *images, classes = y.shape
        numbers = {"images": prod(images), "classes": classes, "narrow": y.dtype == "bf16"}
        return [HelperCall({name: (name, size) for name in names}, kind, numbers)]
