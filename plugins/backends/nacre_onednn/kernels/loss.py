"""SoftmaxLoss of plain scores, by the helper."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import LayerState, Own
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer, SoftmaxLossState

from ..helper.native import LABELS, LOSS, LOSS_GRADIENT, MISSING, helper
from ..record import recorder
from .base import unfit


class SoftmaxLossKernel(LayerState, reads="", dtypes=("float32",), on_plain=True):
    """Loss and gradient over scores (images, classes)."""

    @classmethod
    def supports(cls, layer: SoftmaxLossLayer, inputs: list[Any]) -> str | None:
        if helper() is None:
            return MISSING
        if reason := unfit(inputs, 2):
            return reason
        if layer.weights or layer.ignore_label is not None or layer.normalize == "none":
            return "serves no weights, no ignored label, and no normalize='none'"
        scores, labels = inputs
        if len(scores.shape) != 2:
            return "serves scores of two axes"
        return None if labels.dtype in LABELS else f"serves labels of {', '.join(LABELS)}, not {labels.dtype}"

    def __init__(self, layer: SoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.images, self.classes = inputs[0].shape
        self.plain = SoftmaxLossState(layer, backend, inputs, diffs)  # checks the shapes, and tells what a label lacks
        self.type = LABELS[inputs[1].dtype]
        self._loss = np.zeros(1)

    @property
    def loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """The loss of the last batch."""
        return float(self._loss[0])

    def ready(self) -> None:
        self.probability = self.backend.empty((self.images, self.classes))
        self.chosen = self.backend.empty((self.images,), "int64")

    def forward(self, inputs: list[Own]) -> None:
        x, labels = (one.memory for one in inputs)

        def refuse() -> None:
            self.plain.ready()
            self.plain.forward([x, labels])

        self._add(LOSS, x, labels, refuse)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if diffs[0] is not None:
            self._add(LOSS_GRADIENT, diffs[0].memory, inputs[1].memory, None)

    def _add(self, kind: int, array: Any, labels: Any, refuse: Any) -> None:
        scalars, record = self.backend.scalars, recorder(self.backend).record
        pointers = [array, labels, self.probability, record.read(scalars), self._loss, self.chosen]
        numbers = [self.images, self.classes, self.type, scalars.place("rows")]
        record.add(kind, pointers, numbers, [self.layer.weight], refuse)
