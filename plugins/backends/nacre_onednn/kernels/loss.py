"""SoftmaxLoss of plain scores, by the helper: see loss.c. Classes that are not the last axis are copied to be it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nacre import Array, LayerState, Own
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer, SoftmaxLossState

from ..dnnl.primitives import Call, plain, reorder, strided
from ..helper.native import CONSTANTS
from ..record import recorder
from .base import unserved

LABELS = {name: CONSTANTS[f"LABEL_{name.upper()}"] for name in ("float32", "float64", "int32", "int64", "uint8")}
"""Types of labels, as operations.h counts them."""
DIVISORS = {name: CONSTANTS[f"DIVIDE_BY_{name.upper()}"] for name in ("valid", "full", "batch", "none")}


class SoftmaxLossKernel(LayerState, reads="", dtypes=("float32",), on_plain=True):
    """Loss and gradient over scores of any number of axes."""

    @classmethod
    def supports(cls, layer: SoftmaxLossLayer, inputs: list[Any]) -> str | None:
        if reason := unserved(inputs, 2):
            return reason
        if layer.weights or layer.label_smoothing:
            return "serves no weights, and no label_smoothing"
        labels = inputs[1]
        return None if labels.dtype in LABELS else f"serves labels of {', '.join(LABELS)}, not {labels.dtype}"

    def __init__(self, layer: SoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.plain = SoftmaxLossState(layer, backend, inputs, diffs)  # checks the shapes, and tells what a label lacks
        self.divided_by = self.plain.divided_by
        before, self.classes, behind = self.shape = self.plain.shape
        self.images = inputs[0].shape[0]
        self.steps = before * behind // self.images
        self.type = LABELS[inputs[1].dtype]
        self._loss = np.zeros(2)  # and the weight of a label

    @property
    def loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """The loss of the last batch."""
        return self._loss.item(0)

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
        self.turned = self.backend.empty((rows, self.classes)) if self.shape[2] > 1 else None

    def forward(self, inputs: list[Own]) -> None:
        x, labels = (one.memory for one in inputs)
        self.given = labels

        def refuse() -> None:
            self.plain.ready()
            self.plain.forward([x, labels])

        if self.turned is not None:
            recorder(self.backend).enqueue(self._turn("x", "turned"), {"x": x, "turned": self.turned})
        self._add("loss", {"x": x if self.turned is None else self.turned}, labels, refuse)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if diffs[0] is None:
            return
        dx = diffs[0].memory
        self._add("loss_gradient", {"dx": dx if self.turned is None else self.turned}, inputs[1].memory, None)
        if self.turned is not None:
            recorder(self.backend).enqueue(self._turn("turned", "dx"), {"dx": dx, "turned": self.turned})

    def _turn(self, source: str, target: str) -> list[Call]:
        """Return the calls that copy scores so that their classes lie side by side, or back."""
        _, classes, behind = self.shape
        descs = {"turned": strided(self.shape, (classes * behind, 1, classes))}
        return reorder(source, descs.get(source, plain(*self.shape)), target, descs.get(target, plain(*self.shape)))

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
