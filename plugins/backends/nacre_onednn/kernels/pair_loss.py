"""SquareLoss, HuberLoss and SigmoidCrossEntropyLoss, by the helper: see pair_loss.c."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from nacre import Array, LayerState, Own
from nacre_layers.losses.huber_loss import HuberLossLayer
from nacre_layers.losses.sigmoid_cross_entropy_loss import SigmoidCrossEntropyLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer

from ..helper.native import CONSTANTS
from ..record import recorder
from .base import unserved
from .loss import DIVISORS

FUNCTIONS: dict[type, int] = {
    SquareLossLayer: CONSTANTS["SQUARED"],
    HuberLossLayer: CONSTANTS["HUBER"],
    SigmoidCrossEntropyLossLayer: CONSTANTS["CROSS_ENTROPY"],
}
PIECE = CONSTANTS["PAIR_PIECE"]


class PairLossKernel(LayerState, reads="inputs", dtypes=("float32",), on_plain=True):
    """Loss and gradients of two bottoms of one shape; on plain arrays, so that in bf16 no target is rounded."""

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        if layer.ignored() is not None:
            return "serves losses without ignore_label"
        return next(filter(None, (unserved([one]) for one in inputs)), None)

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        own: Any = layer.setup(backend, inputs, diffs)  # checks the shapes
        self.divided_by = own.divided_by
        self.shape = inputs[0].shape
        self._loss = np.zeros(2)  # and the factor of gradients

    @property
    def loss(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """The loss of the last batch."""
        return self._loss.item(0)

    def ready(self) -> None:
        self.sums = self.backend.empty((prod(self.shape) // PIECE + 1,), "float64")

    def forward(self, inputs: list[Own]) -> None:
        self._add("pair_loss", {}, inputs)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        names = ("da", "db", "dof_images")
        wanted = {name: one.memory for name, one in zip(names, diffs, strict=False) if one is not None}
        self._add("pair_loss_gradient", wanted, inputs)

    def _add(self, kind: str, wanted: dict[str, Array], inputs: list[Own]) -> None:
        scalars, record = self.backend.scalars, recorder(self.backend).record
        arrays = {
            **wanted,
            **dict(zip(("a", "b", "of_images"), (one.memory for one in inputs), strict=False)),
            "scalars": record.read(scalars),
            "sums": self.sums,
            "loss": self._loss,
        }
        numbers = {
            "function": FUNCTIONS[type(self.layer)],
            "images": self.shape[0],
            "numbers": prod(self.shape[1:]),
            "rows": scalars.place("rows"),
            "divisor": DIVISORS[getattr(self.layer, "normalize", "batch")],
            "weight": self.layer.weight,
            "delta": getattr(self.layer, "delta", 0.0),
        }
        record.add(kind, arrays, numbers)
