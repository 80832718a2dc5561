"""HuberLoss: squares of small errors, and sizes of large ones."""

from __future__ import annotations

from typing import Annotated

from nacre import Array, Names, exactly, finite, positive

from .base import Loss, PairLossState


class HuberLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = weight / N · Σ f(x - t), over the N rows that count, where few large errors do not outweigh the others.

    f(d) = d² / 2 where |d| is at most `delta`, else delta · (|d| - delta / 2), a straight line that goes on from there.
    Bottoms are two blobs of one shape; axes of length 1 may differ, so labels (N,) fit a prediction (N, 1). Both have a
    gradient, d cut off at ±delta. As PyTorch's `HuberLoss` with reduction="sum", divided by N; its `SmoothL1Loss` is
    this divided by delta. Huber, "Robust estimation of a location parameter", 1964.

    Example:
        [[layer]]
        type = "HuberLoss"
        bottoms = ["prediction", "target"]  # (8, 3), (8, 3)
        delta = 0.5
    """

    compares_numbers = True

    bottoms: Annotated[Names, exactly(2), "the prediction and the target"]
    delta: Annotated[float, positive, finite, "the largest error that counts by its square"] = 1.0


class HuberLossState(PairLossState, of=HuberLossLayer, reads="inputs"):
    """`HuberLossLayer` on any backend."""

    def terms(self, a: Array, b: Array, out: Array) -> None:
        # with e = d cut off at ±delta, f(d) = e (d - e / 2)
        xp, cut = self.backend.xp, self.backend.scratch(a.shape, slot=1)
        self.slope(0, a, b, cut)
        xp.subtract(a, b, out=out)
        part = self.backend.scratch(a.shape, slot=2)
        xp.multiply(cut, 0.5, out=part)
        xp.subtract(out, part, out=out)
        xp.multiply(out, cut, out=out)

    def slope(self, index: int, a: Array, b: Array, out: Array) -> None:
        first, second = (a, b) if index == 0 else (b, a)
        self.backend.xp.subtract(first, second, out=out)
        self.backend.xp.clip(out, -self.layer.delta, self.layer.delta, out=out)
