"""Embedding by the helper: see embedding.c."""

from __future__ import annotations

from math import prod
from typing import Any

from nacre import Array, Own
from nacre_layers.linear.embedding import EmbeddingLayer, EmbeddingState

from ..dnnl.primitives import too_large
from ..helper.native import MISSING, helper
from ..record import recorder
from .base import OnednnKernel, in_bf16
from .loss import LABELS


class EmbeddingKernel(OnednnKernel, reads=""):
    """Rows of the weight by their numbers, of one bottom. In bf16 only the top and its gradient are of bf16."""

    @classmethod
    def supports(cls, layer: EmbeddingLayer, inputs: list[Any]) -> str | None:
        if helper() is None:
            return MISSING
        if len(inputs) != 1:
            return "serves one bottom"
        if inputs[0].dtype not in LABELS:
            return f"serves numbers of {', '.join(LABELS)}, not {inputs[0].dtype}"
        return too_large((*inputs[0].shape, layer.output_dim), (layer.input_dim, layer.output_dim))

    def __init__(self, layer: EmbeddingLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.plain = EmbeddingState(layer, backend, inputs, diffs)  # which tells what a number lacks
        self.parameters, self.blobs = self.plain.parameters, self.plain.blobs
        self.images, *steps = inputs[0].shape
        self.steps, self.type = prod(steps), LABELS[inputs[0].dtype]
        self.narrow = in_bf16(backend, self.blobs[0].shape, inputs)
        self.on_plain = not self.narrow

    def stages(self) -> list[str]:
        return []

    def ready(self) -> None:
        self.numbers = self.backend.empty((self.images * self.steps,), "int64")

    def forward(self, inputs: list[Own]) -> None:
        x = inputs[0].memory

        def refuse() -> None:
            self.plain.ready()
            self.plain.forward([x])

        values = {name: one.blob for name, one in zip(("w", "bias"), self.parameters, strict=False)}
        self._add("embedding", {"x": x, "y": self.blobs[0].memory, **values}, refuse)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        given = {name: one.gradient for name, one in zip(("dw", "dbias"), self.parameters, strict=False)}
        given["dx"] = None if diffs[0] is None else diffs[0].memory
        wanted = {name: array for name, array in given.items() if array is not None}
        self._add("embedding_gradient", {"dy": self.blobs_diff[0].memory, **wanted}, None)

    def _add(self, kind: str, arrays: dict[str, Array], refuse: Any) -> None:
        scalars, record = self.backend.scalars, recorder(self.backend).record
        numbers = {"images": self.images, "steps": self.steps, "number_type": self.type, "rows": scalars.place("rows")}
        numbers |= {"count": self.layer.input_dim, "size": self.layer.output_dim}
        numbers |= {"bytes": arrays["dx"].nbytes if "dx" in arrays else 0, "narrow": self.narrow}
        both = {"numbers": self.numbers, "scalars": record.read(scalars)}
        record.add(kind, {**arrays, **both}, numbers, refuse)
