"""ReLU on blobs of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre_layers.neurons import ReLU, is_relu

from ..dnnl.primitives import Call
from .base import Layouts, describe_blob, gate, rectify, unfit_any
from .chain import RELU, Link, LinkedKernel


class ReLUKernel(LinkedKernel, reads="blobs"):
    """y = max(0, x), a NaN staying one, and the gradient from y; in place where the net says so."""

    @classmethod
    def supports(cls, layer: ReLU, inputs: list[Any]) -> str | None:
        return unfit_any(inputs) if is_relu(layer) else f"serves epsilon=0, not {layer.epsilon}"

    def __init__(self, layer: ReLU, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def links(self, index: int) -> Sequence[Link]:
        return [RELU]

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        desc = describe_blob(self.blobs[0], layouts)
        return rectify(desc, "x") if stage == "forward" else gate(desc, "dx")
