"""SquareLoss: half the squared distance."""

from __future__ import annotations

from typing import Annotated

from nacre import Array, Names

from .base import Loss, PairLossState, two_or_three


class SquareLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = weight / 2N · Σ (x - t)², over the N rows that count.

    Bottoms are two blobs of one shape; axes of length 1 may differ, so labels (N,) fit a prediction (N, 1). Both have a
    gradient. After Mocha.jl's `SquareLossLayer` and Caffe's `EuclideanLoss`.

    Example:
        [[layer]]
        type = "SquareLoss"
        bottoms = ["prediction", "target"]  # (8, 3), (8, 3)
    """

    compares_numbers = True
    weighs = True

    bottoms: Annotated[Names, two_or_three, "the prediction, the target, and optionally the weight of each record"]


class SquareLossState(PairLossState, of=SquareLossLayer, reads="inputs"):
    """`SquareLossLayer` on any backend."""

    def terms(self, a: Array, b: Array, out: Array) -> None:
        xp = self.backend.xp
        xp.subtract(a, b, out=out)
        xp.multiply(out, out, out=out)
        xp.multiply(out, 0.5, out=out)

    def slope(self, index: int, a: Array, b: Array, out: Array) -> None:
        first, second = (a, b) if index == 0 else (b, a)
        self.backend.xp.subtract(first, second, out=out)
