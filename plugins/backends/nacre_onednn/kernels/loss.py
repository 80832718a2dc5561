"""SoftmaxLoss of plain scores, by the helper: see loss.c."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from nacre import Array, LayerState, Own
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer, SoftmaxLossState

from ..helper.native import CONSTANTS
from ..record import recorder
from .base import unserved

LABELS = {name: CONSTANTS[f"LABEL_{name.upper()}"] for name in ("float32", "float64", "int32", "int64", "uint8")}
"""Types of labels, as operations.h counts them."""
DIVISORS = {name: CONSTANTS[f"DIVIDE_BY_{name.upper()}"] for name in ("valid", "full", "batch", "none")}


class SoftmaxLossKernel(LayerState, reads="", dtypes=("float32",), on_plain=True):
    """Loss and gradient over scores of any number of axes, of which the last one has the classes."""

    @classmethod
    def supports(cls, layer: SoftmaxLossLayer, inputs: list[Any]) -> str | None:
        if reason := unserved(inputs, 2):
            return reason
        if layer.weights or layer.label_smoothing:
            return "serves no weights, and no label_smoothing"
        scores, labels = inputs
        if layer.axis not in (-1, len(scores.shape) - 1):
            return "serves classes along the last axis"
        return None if labels.dtype in LABELS else f"serves labels of {', '.join(LABELS)}, not {labels.dtype}"

    def __init__(self, layer: SoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.images, *steps, self.classes = inputs[0].shape
        self.steps = prod(steps)
        self.plain = SoftmaxLossState(layer, backend, inputs, diffs)  # checks the shapes, and tells what a label lacks
        self.divided_by = self.plain.divided_by
        self.type = LABELS[inputs[1].dtype]
        self._loss = np.zeros(2)  # and the weight of a label

    @property
    def loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """The loss of the last batch."""
        return float(self._loss[0])

    @property
    def n_counted(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """The number of labels of the last batch that are not ignored."""
        labels = self.given[: min(self.backend.rows, self.images)]
        return labels.size - int(np.count_nonzero(labels == self.layer.ignore_label))

    def ready(self) -> None:
        rows = self.images * self.steps
        self.probability = self.backend.empty((rows, self.classes))
        self.chosen = self.backend.empty((rows,), "int64")
        self.logs = self.backend.empty((rows,), "float64")

    def forward(self, inputs: list[Own]) -> None:
        x, labels = (one.memory for one in inputs)
        self.given = labels

        def refuse() -> None:
            self.plain.ready()
            self.plain.forward([x, labels])

        self._add("loss", {"x": x}, labels, refuse)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if diffs[0] is not None:
            self._add("loss_gradient", {"dx": diffs[0].memory}, inputs[1].memory, None)

    def _add(self, kind: str, array: dict[str, Array], labels: Array, refuse: Callable[[], None] | None) -> None:
        scalars, record = self.backend.scalars, recorder(self.backend).record
        arrays = {
            "labels": labels,
            "probabilities": self.probability,
            "scalars": record.read(scalars),
            "loss": self._loss,
            "chosen": self.chosen,
            "logs": self.logs,
        }
        ignored = self.layer.ignore_label
        numbers = {
            "images": self.images,
            "steps": self.steps,
            "classes": self.classes,
            "ignores": ignored is not None,
            "ignored": ignored or 0,
            "divisor": DIVISORS[self.layer.normalize],
            "label_type": self.type,
            "rows": scalars.place("rows"),
            "weight": self.layer.weight,
        }
        record.add(kind, {**array, **arrays}, numbers, refuse)
