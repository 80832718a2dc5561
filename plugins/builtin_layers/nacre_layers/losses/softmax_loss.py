"""SoftmaxLoss: the cross-entropy of softmax probabilities and labels."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from nacre import Array, LayerState, Names, fraction

from ..elementwise.softmax import log_softmax
from .base import check_weights, divided_by, two_or_three
from .class_loss import ClassLossState, WeightedClassLoss, class_divisor, class_weights
from .classes import Classes
from .softlabel_softmax_loss import SoftlabelSoftmaxLossState


class SoftmaxLossLayer(WeightedClassLoss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / M · Σ ω[label] log softmax(x)[label], over the labels of the rows that count.

    Bottoms are the scores and the labels. Labels are whole numbers counted from 0, of any type, in the shape (N,), (N,
    1), or that of the scores with `axis` of length 1; those that equal `ignore_label` are ignored. The weights ω of the
    classes are 1 without `weights`. M is chosen by `normalize`, whatever the weights: the labels that are not ignored
    ("valid"), all labels ("full"), the rows that count ("batch"), or 1 ("none"). The logarithm is that of a sum of
    exponentials, log softmax(x)[label] = x[label] - log Σ exp(x), so that the loss grows with the scores, however far
    apart they are; it is infinite where a label's score is -inf. Raises DataError if a label is out of range. After
    Mocha.jl's `SoftmaxLossLayer` and Caffe's `SoftmaxWithLoss`.

    With `label_smoothing` ε a label is a distribution q, 1 - ε + ε / K for its class and ε / K for the other ones of K,
    and the loss is -weight / M · Σ_label Σ_k ω[k] q[k] log softmax(x)[k]: scores need not grow for ever. It acts in
    every phase. As PyTorch's `label_smoothing`; Szegedy and others, "Rethinking the Inception architecture for computer
    vision", 2016.

    Example:
        [[layer]]
        type = "SoftmaxLoss"
        bottoms = ["score", "label"]  # (8, 10), (8,)
    """

    bottoms: Annotated[Names, two_or_three, "the scores, the labels, and optionally the weight of each record"]
    label_smoothing: Annotated[float, fraction, "share of a label that is spread over all classes"] = 0.0

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> LayerState:
        state = SmoothedSoftmaxLossState if self.label_smoothing else SoftmaxLossState
        return state(self, backend, inputs, diffs)


class SoftmaxLossState(ClassLossState, reads=""):
    """`SoftmaxLossLayer` on any backend, with labels as they are."""

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


class SmoothedSoftmaxLossState(SoftlabelSoftmaxLossState, reads=""):
    """`SoftmaxLossLayer` on any backend, with labels that are distributions."""

    def __init__(self, layer: SoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.weighs = check_weights(layer, inputs)
        self.classes = Classes(layer, backend, inputs[0].shape, inputs[1].shape)
        self.weights = class_weights(layer, inputs[0].shape) if layer.weights else None
        self.divided_by = divided_by(layer.normalize, ignores=layer.ignore_label is not None)

    def ready(self) -> None:
        super().ready()
        self.classes.ready()
        self.smooth = self.backend.empty(self.shape)
        self.share = self.layer.label_smoothing / self.shape[1]
        self.hit = self.backend.constant(np.array([1 - self.layer.label_smoothing + self.share]))
        if self.weights is not None:
            self.weight_of = self.backend.constant(self.weights.reshape(self.shape))

    def targets(self, inputs: list[Array]) -> Array:
        xp, classes, smooth = self.backend.xp, self.classes, self.smooth
        smooth[...] = self.share
        smooth.reshape(-1)[classes.pick(inputs[1])] = self.hit
        if self.weights is not None:
            xp.multiply(smooth, self.weight_of, out=smooth)
        smooth = smooth[: self.real]
        if self.weighs:
            by_record = smooth.reshape(classes.rows, -1)
            xp.multiply(by_record, inputs[2].reshape(-1, 1)[: classes.rows], out=by_record)
        if classes.ignored is not None:
            xp.copyto(smooth, 0, where=classes.ignored.reshape(-1, 1, self.shape[2]))
        return smooth

    def divisor(self) -> int:
        self.n_counted = self.classes.used()
        return class_divisor(self.layer, self.classes)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        super().backward(inputs, diffs[:2])
        for diff in diffs[2:]:
            if diff is not None:
                diff[...] = 0

    def label_gradient(self, diff: Array, log: Array) -> None:
        diff[...] = 0
