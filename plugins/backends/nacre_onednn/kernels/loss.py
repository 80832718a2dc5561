"""SoftmaxLoss of plain scores, by the helper: see loss.c. Classes that are not the last axis are copied to be it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nacre import Array, Own
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer

from ..dnnl.primitives import Call, plain, reorder, strided
from ..helper.native import CONSTANTS
from ..record import recorder
from .base import OnednnKernel, in_bf16, unserved

LABELS = {name: CONSTANTS[f"LABEL_{name.upper()}"] for name in ("float32", "float64", "int32", "int64", "uint8")}
"""Types of labels, as operations.h counts them."""
DIVISORS = {name: CONSTANTS[f"DIVIDE_BY_{name.upper()}"] for name in ("valid", "full", "batch", "none")}


class SoftmaxLossKernel(OnednnKernel, reads=""):
    """Loss and gradient over scores of any number of axes.

    It works on plain arrays, except on scores of bf16 whose classes lie side by side, unless other bottoms would be
    rounded to bf16, too.
    """

    @classmethod
    def supports(cls, layer: SoftmaxLossLayer, inputs: list[Any]) -> str | None:
        scores, labels, *weights = inputs
        if reason := unserved([scores]):
            return reason
        if weights and weights[0].dtype != "float32":
            return f"serves weights of float32, not {weights[0].dtype}"
        return None if labels.dtype in LABELS else f"serves labels of {', '.join(LABELS)}, not {labels.dtype}"

    def __init__(self, layer: SoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.plain: Any = layer.setup(backend, inputs, diffs)  # checks the shapes, and tells what a label lacks
        self.divided_by = self.plain.divided_by
        if len(inputs) > 2:
            self.reads = "inputs"  # the weights of records
        before, self.classes, behind = self.shape = self.plain.shape
        self.images = inputs[0].shape[0]
        self.steps = before * behind // self.images
        self.type = LABELS[inputs[1].dtype]
        self._loss = np.zeros(2)  # and the weight of a label
        self.narrow = in_bf16(backend, inputs[0].shape, inputs[1:]) and behind == 1
        self.on_plain = not self.narrow

    @property
    def loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """The loss of the last batch."""
        return self._loss.item(0)

    @property
    def n_counted(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """The number of labels of the last batch that are not ignored."""
        labels = self.given[: min(self.backend.rows, self.images)]
        return labels.size - int(np.count_nonzero(labels == self.layer.ignore_label))

    def stages(self) -> list[str]:
        return []

    def ready(self) -> None:
        rows = self.images * self.steps
        self.probability = self.backend.empty((rows, self.classes))
        self.chosen = self.backend.empty((rows,), "int64")
        self.logs = self.backend.empty((rows,), "float64")
        self.turned = self.backend.empty((rows, self.classes)) if self.shape[2] > 1 else None
        self.weights: Array | None = None
        if self.plain.weights is not None:
            by_row = np.moveaxis(self.plain.weights.reshape(self.shape), 1, 2).reshape(rows, self.classes)
            alike = np.shape(self.layer.weights) == (self.classes,)
            self.weights = self.backend.constant(np.ascontiguousarray(by_row[:1] if alike else by_row))

    def forward(self, inputs: list[Own]) -> None:
        x, self.given, *_ = given = [one.memory for one in inputs]

        def refuse() -> None:
            self.plain.ready()
            self.plain.forward(given)

        if self.turned is not None:
            recorder(self.backend).enqueue(self._turn("x", "turned"), {"x": x, "turned": self.turned})
        self._add("loss", {"x": x if self.turned is None else self.turned}, inputs, refuse)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        names = ("dx", "dlabels", "dof_images")
        wanted = {name: one.memory for name, one in zip(names, diffs, strict=False) if one is not None}
        if "dx" not in wanted or self.turned is None:
            self._add("loss_gradient", wanted, inputs, None)
            return
        self._add("loss_gradient", {**wanted, "dx": self.turned}, inputs, None)
        recorder(self.backend).enqueue(self._turn("turned", "dx"), {"dx": wanted["dx"], "turned": self.turned})

    def _turn(self, source: str, target: str) -> list[Call]:
        """Return the calls that copy scores so that their classes lie side by side, or back."""
        _, classes, behind = self.shape
        descs = {"turned": strided(self.shape, (classes * behind, 1, classes))}
        return reorder(source, descs.get(source, plain(*self.shape)), target, descs.get(target, plain(*self.shape)))

    def _add(self, kind: str, ends: dict[str, Array], inputs: list[Own], refuse: Callable[[], None] | None) -> None:
        scalars, record = self.backend.scalars, recorder(self.backend).record
        arrays = {
            **ends,
            **dict(zip(("labels", "of_images"), (one.memory for one in inputs[1:]), strict=False)),
            **({} if self.weights is None else {"weights": self.weights}),
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
            "smoothing": self.layer.label_smoothing,
            "weight_rows": 1 if self.weights is None else len(self.weights),
            "bytes": ends["dlabels"].nbytes if "dlabels" in ends else 0,
            "narrow": self.narrow,
        }
        record.add(kind, arrays, numbers, refuse)
