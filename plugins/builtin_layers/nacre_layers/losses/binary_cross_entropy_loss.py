"""BinaryCrossEntropyLoss: the cross-entropy of probabilities and targets from 0 to 1."""

from __future__ import annotations

from math import log
from typing import Annotated, Any

import numpy as np

from nacre import Array, Names

from ..neurons import Sigmoid
from .base import FLOOR, Loss, PairLossState, check_probabilities, two_or_three

SIGMOID = Sigmoid()


class BinaryCrossEntropyLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / N · Σ (t log p + (1 - t) log(1 - p)), over the N rows that count.

    Bottoms are probabilities p (after a Sigmoid, for example) and targets t, both from 0 to 1 and of one shape; axes of
    length 1 may differ. Both have a gradient. In the logarithms and below the fractions of the gradient, p and 1 - p
    are at least 1e-20, so all is finite where a prediction is 0 or 1. Raises DataError where one is below 0 or above 1.
    After Mocha.jl's `BinaryCrossEntropyLossLayer`.

    Example:
        [[layer]]
        type = "BinaryCrossEntropyLoss"
        bottoms = ["prob", "target"]  # (8, 3), (8, 3)
    """

    weighs = True
    boundary = 0.5

    bottoms: Annotated[Names, two_or_three, "the probabilities, the targets, and optionally the weight of each record"]


class BinaryCrossEntropyLossState(PairLossState, of=BinaryCrossEntropyLossLayer, reads="inputs"):
    """`BinaryCrossEntropyLossLayer` on any backend."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.below_one = 1 - float(np.finfo(backend.dtype).epsneg)

    def terms(self, a: Array, b: Array, out: Array) -> None:
        xp, other, part = self.backend.xp, self.backend.scratch(a.shape, slot=1), self.backend.scratch(a.shape, slot=2)
        check_probabilities(self.layer, self.backend, a, "add a Sigmoid before it, or use SigmoidCrossEntropyLoss")
        self._logarithms(a, out, other)
        xp.multiply(out, b, out=out)
        xp.subtract(1.0, b, out=part)
        xp.multiply(other, part, out=other)
        xp.add(out, other, out=out)
        xp.negative(out, out=out)

    def _logarithms(self, p: Array, out: Array, other: Array) -> None:
        """Write log p into `out`, and log(1 - p) into `other`; 1 - p itself is 1 for all p that are small."""
        xp, certain = self.backend.xp, self.backend.scratch(p.shape, "bool")
        xp.maximum(p, FLOOR, out=out)
        xp.log(out, out=out)
        xp.minimum(p, self.below_one, out=other)
        xp.negative(other, out=other)
        xp.log1p(other, out=other)
        xp.greater_equal(p, 1, out=certain)
        xp.copyto(other, log(FLOOR), where=certain)

    def slope(self, index: int, a: Array, b: Array, out: Array) -> None:
        xp, other = self.backend.xp, self.backend.scratch(a.shape, slot=1)
        if index == 1:
            self._logarithms(a, out, other)
            xp.subtract(other, out, out=out)
            return
        # (1 - t) / (1 - p) - t / p: apart, since (p - t) / (p (1 - p)) is 0 / 0 where a hit is certain
        part = self.backend.scratch(a.shape)
        xp.subtract(1.0, a, out=other)
        xp.maximum(other, FLOOR, out=other)
        xp.subtract(1.0, b, out=part)
        xp.divide(part, other, out=other)
        xp.maximum(a, FLOOR, out=part)
        xp.divide(b, part, out=out)
        xp.subtract(other, out, out=out)
