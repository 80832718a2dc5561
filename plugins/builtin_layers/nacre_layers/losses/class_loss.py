"""The common code of losses over classes: ignored labels, weights of classes, and the divisor."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Annotated, Any, Literal

import numpy as np

from nacre import Array, ConfigError, LayerState, default, non_zero

from ..axes import axis_of
from ..fields import NumberLists
from .base import Factor, Loss, Normalizer, check_weights, divided_by, divisor
from .classes import Classes


class ClassLoss(Loss):
    """A loss over classes."""

    axis: Annotated[int, non_zero, "axis of the classes"] = 1
    normalize: Annotated[
        Normalizer, "the divisor of the sum: the labels not ignored, all labels, the records, or 1"
    ] = "valid"
    ignore_label: Annotated[int | None, "labels of this value are ignored"] = None


class WeightedClassLoss(ClassLoss):
    """A loss over classes that may have weights of their own, and records that may have some, too."""

    weighs = True

    weights: Annotated[
        NumberLists, "one number for each class, or an array of the shape of one record's scores, or of a batch's"
    ] = default(())
    normalize_weights: Annotated[
        Literal["local", "global", "no"],
        "whether to scale weights so that their mean is 1: over the classes, over a record, or not",
    ] = "local"

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.weights and np.min(self.weights) < 0:
            yield f"weights={self.weights}, but every number must be 0 or more"


def class_weights(layer: WeightedClassLoss, scores: tuple[int, ...]) -> np.ndarray:
    """Return the weight of each score if its class is that of the label.

    Raises:
        ConfigError: the weights do not fit the scores, or cannot be scaled because they are all 0.
    """
    axis, weights = axis_of(layer, scores), np.array(layer.weights)
    if weights.shape == (scores[axis],):
        weights = weights.reshape([-1 if index == axis else 1 for index in range(len(scores))])
    elif weights.shape not in (scores[1:], scores):
        needed = " or ".join(dict.fromkeys(str(shape) for shape in ((scores[axis],), scores[1:], scores)))
        raise ConfigError(
            f"{layer.name}: weights have the shape {weights.shape}, but {needed} is needed for scores {scores}"
        )
    weights = np.broadcast_to(weights, scores)
    if layer.normalize_weights == "no":
        return weights
    over = (axis,) if layer.normalize_weights == "local" else tuple(range(1, len(scores)))
    total = weights.sum(axis=over, keepdims=True)
    if not total.all():
        raise ConfigError(
            f"{layer.name}: weights add up to 0 over axes {over}, so normalize_weights='{layer.normalize_weights}' "
            "cannot scale them",
            "use normalize_weights='no'",
        )
    return weights * (prod(scores[index] for index in over) / total)


def class_divisor(layer: ClassLoss, classes: Classes) -> Any:
    """Return the divisor of a loss over classes, after its labels were read."""
    valid = classes.used() if layer.normalize == "valid" else 0
    return divisor(classes.backend, layer.normalize, valid=valid, full=classes.count, batch=classes.rows)


class ClassLossState(LayerState, reads="", capturable="rows"):
    """loss = -weight / M · Σ ω log p, with the probability p of each label's class and the weight ω of that class.

    A subclass gives the logarithms of the probabilities, and the gradient.
    """

    def __init__(self, layer: WeightedClassLoss, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.classes = Classes(layer, backend, inputs[0].shape, inputs[1].shape)
        self.weighs = check_weights(layer, inputs)
        self.shape = self.classes.shape
        self.weights = class_weights(layer, inputs[0].shape) if layer.weights else None
        self.divided_by = divided_by(layer.normalize, ignores=layer.ignore_label is not None)
        self.loss: Any = 0.0

    def ready(self) -> None:
        empty, labels = self.backend.empty, self.shape[0] * self.shape[2]
        self.classes.ready()
        self.factors = Factor(self.backend)
        self.chosen, self.share = empty((labels,)), empty((labels,))  # `chosen` is a subclass's, for its gradient
        if self.weights is not None:
            self.weight_of = self.backend.constant(self.weights.reshape(self.shape))

    def logarithms(self, x: Array, log: Array) -> None:
        """Write log p of the labels' classes, whose indices are `picked`; x is (before, classes, after)."""
        raise NotImplementedError

    def forward(self, inputs: list[Array]) -> None:
        xp, layer = self.backend.xp, self.layer
        self.picked = self.classes.pick(inputs[1])
        self.count = count = self.classes.count
        log = self.backend.scratch((count,))
        self.logarithms(inputs[0].reshape(self.shape), log)
        self.shares = self._shares(count, inputs[2:])
        if self.shares is not None:
            xp.multiply(log, self.shares, out=log)
            xp.copyto(log, 0, where=self.uncounted())  # also where the logarithm is infinite, or NaN
        self.factor = self.factors.of(layer.weight, class_divisor(layer, self.classes))
        self.n_counted = self.classes.used()
        self.loss = -self.factor * xp.sum(log, dtype="float64")

    def _shares(self, count: int, of_records: list[Array]) -> Array | None:
        """Return the weight of each label in the sum; None if all are 1."""
        xp, ignored = self.backend.xp, self.classes.ignored
        if self.weights is None and ignored is None and not of_records:
            return None
        share = self.share[:count]
        if self.weights is None:
            share[...] = 1
        else:
            xp.take(self.weight_of.reshape(-1), self.picked, out=share, mode="clip")
        if ignored is not None:
            used = self.backend.scratch((count,), "bool")
            xp.logical_not(ignored, out=used)
            xp.multiply(share, used, out=share)
        for weights in of_records:
            rows = self.classes.rows
            by_record = share.reshape(rows, -1)
            xp.multiply(by_record, weights.reshape(-1, 1)[:rows], out=by_record)
        return share

    def uncounted(self) -> Array:
        """Return which labels have the weight 0, or None if all have 1; valid until the next call of a layer."""
        nothing = self.backend.scratch((self.count,), "bool")
        self.backend.xp.equal(self.shares, 0, out=nothing)
        return nothing

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        dx, *others = diffs
        if dx is not None:
            self.gradient(dx)
            dx[self.classes.rows :] = 0
        for other in others:
            if other is not None:
                other[...] = 0

    def gradient(self, dx: Array) -> None:
        """Write the gradient of the bottom; rows that do not count do not matter."""
        raise NotImplementedError
