"""GaussianKLLoss: the divergence of normal distributions from the standard normal one."""

from __future__ import annotations

from typing import Annotated

from nacre import Array, DataError, Names, default, exactly

from .base import Loss, PairLossState


class GaussianKLLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = weight / 2N · Σ (μ² + σ² - 2 log σ - 1), over the N rows that count.

    That is the Kullback-Leibler divergence of normal distributions with mean μ and standard deviation σ (above 0, not
    its logarithm, nor the variance) from the standard normal one. Bottoms are two blobs of one shape, one number for
    each distribution; both have a gradient. Raises DataError if a standard deviation is 0 or below. After Mocha.jl's
    `GaussianKLLossLayer`.

    Example:
        [[layer]]
        type = "GaussianKLLoss"
        bottoms = ["mu", "sigma"]  # (8, 5), (8, 5)
        weight = 0.5
    """

    bottoms: Annotated[Names, exactly(2), "the means and the standard deviations"] = default(("mu", "sigma"))


class GaussianKLLossState(PairLossState, of=GaussianKLLossLayer, reads="inputs"):
    """`GaussianKLLossLayer` on any backend."""

    def terms(self, a: Array, b: Array, out: Array) -> None:
        xp, part = self.backend.xp, self.backend.scratch(a.shape, slot=1)
        smallest = xp.min(b)

        def wrong() -> DataError:
            holds = f"{self.layer.name}: bottom '{self.layer.bottoms[1]}' holds {float(smallest):g}"
            remedy = "add an Exponential or a Softplus before it"
            return DataError(f"{holds}, but a standard deviation is above 0", remedy)

        self.backend.require((self.layer.name, "deviations"), ~(smallest <= 0), wrong)
        xp.multiply(a, a, out=out)
        xp.multiply(b, b, out=part)
        xp.add(out, part, out=out)
        xp.subtract(out, 1.0, out=out)
        xp.multiply(out, 0.5, out=out)
        xp.log(b, out=part)
        xp.subtract(out, part, out=out)

    def slope(self, index: int, a: Array, b: Array, out: Array) -> None:
        if index == 0:
            self.backend.xp.copyto(out, a)
        else:
            self.backend.xp.divide(-1.0, b, out=out)
            self.backend.xp.add(out, b, out=out)
