"""MultinomialLogisticLoss: the cross-entropy of probabilities and labels."""

from __future__ import annotations

from typing import Annotated

from nacre import Array, Names

from .base import FLOOR, check_probabilities, two_or_three
from .class_loss import ClassLossState, WeightedClassLoss


class MultinomialLogisticLossLayer(WeightedClassLoss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / M · Σ ω[label] log p[label], over the labels of the rows that count.

    Bottoms are probabilities, after a Softmax for example, and labels as for SoftmaxLoss, which does both and is more
    exact. A probability below 1e-20 counts as 1e-20, also in the divisor of the gradient. `weights`, `normalize` and
    `ignore_label` are those of SoftmaxLoss. Raises DataError if the number of a label's class is below 0 or above 1.
    After Mocha.jl's `MultinomialLogisticLossLayer`, which has no gradient, and Caffe's.

    Example:
        [[layer]]
        type = "MultinomialLogisticLoss"
        bottoms = ["prob", "label"]  # (8, 10), (8,)
    """

    bottoms: Annotated[Names, two_or_three, "the probabilities, the labels, and optionally the weight of each record"]


class MultinomialLogisticLossState(ClassLossState, of=MultinomialLogisticLossLayer, reads=""):
    """`MultinomialLogisticLossLayer` on any backend."""

    def logarithms(self, x: Array, log: Array) -> None:
        xp, chosen = self.backend.xp, self.chosen[: self.count]
        xp.take(x.reshape(-1), self.picked, out=chosen, mode="clip")
        check_probabilities(self.layer, self.backend, chosen, "add a Softmax before it, or use SoftmaxLoss")
        xp.maximum(chosen, FLOOR, out=log)
        xp.log(log, out=log)

    def gradient(self, dx: Array) -> None:
        xp, slope = self.backend.xp, self.backend.scratch((self.count,))
        xp.maximum(self.chosen[: self.count], FLOOR, out=slope)
        xp.divide(-self.factor, slope, out=slope)
        if self.shares is not None:
            xp.multiply(slope, self.shares, out=slope)
        dx[...] = 0
        dx.reshape(-1)[self.picked] = slope
