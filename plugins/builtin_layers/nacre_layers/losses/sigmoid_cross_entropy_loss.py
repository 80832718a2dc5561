"""SigmoidCrossEntropyLoss: binary cross-entropy of scores, sigmoid included."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Names

from .base import Loss, Normalizer, PairLossState, divided_by, divisor, two_or_three
from .binary_cross_entropy_loss import SIGMOID


class SigmoidCrossEntropyLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / M · Σ (t log σ(x) + (1 - t) log(1 - σ(x))) with σ(x) = 1 / (1 + exp(-x)).

    Bottoms are scores x and targets t from 0 to 1, of one shape; axes of length 1 may differ. Both have a gradient.
    Computed from the scores, so nothing overflows. M is chosen by `normalize`: the rows that count ("batch"), the
    targets in them ("full"), those of them that are not ignored ("valid"), or 1 ("none"). After Caffe's
    `SigmoidCrossEntropyLoss`.

    Example:
        [[layer]]
        type = "SigmoidCrossEntropyLoss"
        bottoms = ["score", "target"]  # (8, 3), (8, 3)
    """

    weighs = True
    boundary = 0.0

    bottoms: Annotated[Names, two_or_three, "the scores, the targets, and optionally the weight of each record"]
    normalize: Annotated[Normalizer, "the divisor of the sum"] = "batch"
    ignore_label: Annotated[int | None, "targets of this value are ignored"] = None


class SigmoidCrossEntropyLossState(PairLossState, of=SigmoidCrossEntropyLossLayer, reads="inputs"):
    """`SigmoidCrossEntropyLossLayer` on any backend."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.divided_by = divided_by(layer.normalize, ignores=layer.ignore_label is not None)

    def terms(self, a: Array, b: Array, out: Array) -> None:
        # log(1 + exp(-|x|)) + (max(x, 0) - x t), where the difference may be 0
        xp, part, product = self.backend.xp, *(self.backend.scratch(a.shape, slot=slot) for slot in (1, 2))
        xp.abs(a, out=out)
        xp.negative(out, out=out)
        xp.exp(out, out=out)
        xp.log1p(out, out=out)
        xp.maximum(a, 0.0, out=part)
        xp.multiply(a, b, out=product)
        xp.subtract(part, product, out=part)
        xp.add(out, part, out=out)
        self.n_counted = self.full = out.size
        if self.layer.ignore_label is not None:
            self.n_counted = self.full - self._clear(b, out)

    def divisor(self, rows: int) -> Any:
        return divisor(self.backend, self.layer.normalize, valid=self.n_counted, full=self.full, batch=rows)

    def slope(self, index: int, a: Array, b: Array, out: Array) -> None:
        if index == 0:
            SIGMOID.forward(self.backend, a, out)
            self.backend.xp.subtract(out, b, out=out)
        else:
            self.backend.xp.negative(a, out=out)
        if self.layer.ignore_label is not None:
            self._clear(b, out)

    def _clear(self, targets: Array, out: Array) -> Any:
        """Write 0 into `out` where the target is ignored; return how many are, on a device as an array of one."""
        xp, ignored = self.backend.xp, self.backend.scratch(targets.shape, "bool")
        xp.equal(targets, self.layer.ignore_label, out=ignored)
        xp.copyto(out, 0, where=ignored)
        return self.backend.number(xp.count_nonzero(ignored))
