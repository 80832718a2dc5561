"""KLDivergenceLoss: how far a distribution is from another one."""

from __future__ import annotations

from typing import Annotated

from nacre import Array, Names, exactly

from .base import FLOOR, Loss, PairLossState, check_probabilities


class KLDivergenceLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = weight / N · Σ t log(t / p), over the N rows that count: what p lacks to be t, in nats.

    Bottoms are probabilities p, after a Softmax for example, and t, of one shape; axes of length 1 may differ. Both
    have a gradient: -t / p, and log(t / p) + 1. A term with t = 0 is 0, and in logarithms and divisors numbers below
    1e-20 count as 1e-20. Raises DataError where one of p is below 0 or above 1. For scores and a distribution t without
    a gradient SoftlabelSoftmaxLoss has the same gradient of the scores, and is more exact. As PyTorch's `KLDivLoss`
    with reduction="batchmean", which takes the logarithm of p. Kullback and Leibler, "On information and sufficiency",
    1951.

    Example:
        [[layer]]
        type = "KLDivergenceLoss"
        bottoms = ["prob", "target"]  # (8, 3), (8, 3)
    """

    bottoms: Annotated[Names, exactly(2), "the probabilities p, and t, what they should be"]


class KLDivergenceLossState(PairLossState, of=KLDivergenceLossLayer, reads="inputs"):
    """`KLDivergenceLossLayer` on any backend."""

    def terms(self, a: Array, b: Array, out: Array) -> None:
        remedy = "add a Softmax before it, or use SoftlabelSoftmaxLoss, which takes scores"
        check_probabilities(self.layer, self.backend, a, remedy)
        self._logarithm(a, b, out)
        self.backend.xp.multiply(out, b, out=out)

    def slope(self, index: int, a: Array, b: Array, out: Array) -> None:
        xp = self.backend.xp
        if index == 0:
            xp.maximum(a, FLOOR, out=out)
            xp.divide(b, out, out=out)
            xp.negative(out, out=out)
        else:
            self._logarithm(a, b, out)
            xp.add(out, 1.0, out=out)

    def _logarithm(self, p: Array, t: Array, out: Array) -> None:
        """Write log(t / p)."""
        xp, part = self.backend.xp, self.backend.scratch(p.shape, slot=1)
        xp.maximum(p, FLOOR, out=part)
        xp.log(part, out=part)
        xp.maximum(t, FLOOR, out=out)
        xp.log(out, out=out)
        xp.subtract(out, part, out=out)
