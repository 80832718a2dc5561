"""SoftmaxLoss: the cross-entropy of softmax probabilities and labels."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from nacre import Array, Names, exactly

from .class_loss import ClassLossState, WeightedClassLoss
from .softmax import softmax


class SoftmaxLossLayer(WeightedClassLoss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / M · Σ ω[label] log softmax(x)[label], over the labels of the rows that count.

    Bottoms are the scores and the labels. Labels are whole numbers counted from 0, of any type, in the shape (N,),
    (N, 1), or that of the scores with `axis` of length 1; those that equal `ignore_label` have no part. The weights ω
    of the classes are 1 unless `weights` are given. M is chosen by `normalize`, whatever the weights: the labels that
    are not ignored ("valid"), all labels ("full"), the rows that count ("batch"), or 1 ("none"). Raises DataError where
    a label is out of range. After Mocha.jl's `SoftmaxLossLayer` and Caffe's `SoftmaxWithLoss`.

    Example:
        [[layer]]
        type = "SoftmaxLoss"
        bottoms = ["score", "label"]  # (8, 10), (8,)
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> SoftmaxLossState:
        return SoftmaxLossState(self, backend, inputs, diffs)


class SoftmaxLossState(ClassLossState, reads=""):
    """`SoftmaxLossLayer` on any backend."""

    def __init__(self, layer: SoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.floor = float(np.finfo(backend.dtype).tiny)

    def ready(self) -> None:
        super().ready()
        self.probability = self.backend.empty(self.shape)

    def probabilities(self, x: Array) -> Array:
        softmax(self.backend, x, self.probability)
        return self.probability

    def gradient(self, dx: Array) -> None:
        xp, chosen = self.backend.xp, self.backend.scratch((self.count,))
        xp.copyto(dx.reshape(self.shape), self.probability)
        xp.subtract(self.chosen[: self.count], 1, out=chosen)
        dx.reshape(-1)[self.picked] = chosen
        if self.shares is not None:
            behind = self.shape[2]
            part = dx.reshape(self.shape)[: self.count // behind]
            xp.multiply(part, self.shares.reshape(-1, 1, behind), out=part)
        xp.multiply(dx, self.factor, out=dx)
