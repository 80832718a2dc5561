"""SoftmaxLoss: the cross-entropy of softmax probabilities and labels."""

from __future__ import annotations

from typing import Annotated

from nacre import Array, Names, exactly

from ..elementwise.softmax import log_softmax
from .class_loss import ClassLossState, WeightedClassLoss


class SoftmaxLossLayer(WeightedClassLoss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / M · Σ ω[label] log softmax(x)[label], over the labels of the rows that count.

    Bottoms are the scores and the labels. Labels are whole numbers counted from 0, of any type, in the shape (N,), (N,
    1), or that of the scores with `axis` of length 1; those that equal `ignore_label` are ignored. The weights ω of the
    classes are 1 without `weights`. M is chosen by `normalize`, whatever the weights: the labels that are not ignored
    ("valid"), all labels ("full"), the rows that count ("batch"), or 1 ("none"). The logarithm is that of a sum of
    exponentials, log softmax(x)[label] = x[label] - log Σ exp(x), so that the loss grows with the scores, however far
    apart they are; it is infinite where a label's score is -inf. Raises DataError if a label is out of range. After
    Mocha.jl's `SoftmaxLossLayer` and Caffe's `SoftmaxWithLoss`.

    Example:
        [[layer]]
        type = "SoftmaxLoss"
        bottoms = ["score", "label"]  # (8, 10), (8,)
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]


class SoftmaxLossState(ClassLossState, of=SoftmaxLossLayer, reads=""):
    """`SoftmaxLossLayer` on any backend."""

    def ready(self) -> None:
        super().ready()
        self.log = self.backend.empty(self.shape)

    def logarithms(self, x: Array, log: Array) -> None:
        xp, chosen = self.backend.xp, self.chosen[: self.count]
        log_softmax(self.backend, x, self.log)
        xp.take(self.log.reshape(-1), self.picked, out=log, mode="clip")
        xp.expm1(log, out=chosen)  # p - 1

    def gradient(self, dx: Array) -> None:
        xp, chosen = self.backend.xp, self.chosen[: self.count]
        xp.exp(self.log, out=dx.reshape(self.shape))
        dx.reshape(-1)[self.picked] = chosen
        if self.shares is not None:
            behind = self.shape[2]
            part = dx.reshape(self.shape)[: self.count // behind]
            xp.multiply(part, self.shares.reshape(-1, 1, behind), out=part)
            xp.copyto(part, 0, where=self.uncounted().reshape(-1, 1, behind))
        xp.multiply(dx, self.factor, out=dx)
