"""ContrastiveLoss: brings similar pairs together, and moves others apart."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, ConfigError, LayerState, Names, exactly, positive

from .base import FLOOR, Loss, check_alike
from .classes import whole_numbers


class ContrastiveLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = weight / 2N · Σ (s d² + (1 - s) max(0, margin - d)²), with the distances d = |a - b| of N pairs.

    Bottoms are a and b, of one shape (N, ...), and the labels s, (N,) or (N, 1): 1 where a pair is similar, 0 where it
    is not. With `legacy` the second term is (1 - s) max(0, margin - d²). Only real rows count; a and b have gradients,
    which are 0 where dissimilar ones are equal. Raises DataError if a label is neither 0 nor 1. After Caffe's
    `ContrastiveLoss`; Hadsell, Chopra and LeCun, "Dimensionality reduction by learning an invariant mapping", 2006.

    Example:
        [[layer]]
        type = "ContrastiveLoss"
        bottoms = ["left", "right", "label"]  # (8, 4), (8, 4), (8,)
        margin = 2.0
    """

    bottoms: Annotated[Names, exactly(3), "both sides of the pairs, and the labels (1: similar)"]
    margin: Annotated[float, positive, "distance from which on dissimilar pairs have no loss"] = 1.0
    legacy: Annotated[bool, "compare the margin with the squared distance, as in old versions of Caffe"] = False


class ContrastiveLossState(LayerState, of=ContrastiveLossLayer, reads="", capturable="rows"):
    """`ContrastiveLossLayer` on any backend."""

    def __init__(self, layer: ContrastiveLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        check_alike(layer, inputs)
        shape, labels = tuple(inputs[0].shape), tuple(inputs[2].shape)
        self.images, self.size = shape[0], prod(shape[1:])
        if labels not in ((self.images,), (self.images, 1)):
            raise ConfigError(f"{layer.name}: labels have the shape {labels}, but {(self.images,)} is needed")
        self.loss: Any = 0.0

    def ready(self) -> None:
        empty = self.backend.empty
        self.difference = empty((self.images, self.size))
        self.similar, self.square, self.missing = (empty((self.images, 1)) for _ in range(3))

    def forward(self, inputs: list[Array]) -> None:
        xp, layer = self.backend.xp, self.layer
        self.rows = rows = min(self.backend.rows, self.images)
        d, s, square, missing = self._parts()
        labels = whole_numbers(layer, self.backend, inputs[2], rows, 2, remedy="use 1 for similar pairs, 0 for others")
        xp.copyto(s, labels.reshape(-1, 1), casting="unsafe")
        a, b = (one.reshape(self.images, -1)[:rows] for one in inputs[:2])
        xp.subtract(a, b, out=d)
        work = self.backend.scratch(d.shape)
        xp.multiply(d, d, out=work)
        xp.sum(work, axis=1, keepdims=True, out=square)
        if layer.legacy:
            xp.subtract(layer.margin, square, out=missing)
        else:
            xp.sqrt(square, out=missing)
            xp.subtract(layer.margin, missing, out=missing)
        xp.maximum(missing, 0.0, out=missing)
        # s square + (1 - s) penalty
        penalty = self.backend.scratch(s.shape, slot=1)
        xp.copyto(penalty, missing)
        if not layer.legacy:
            xp.multiply(penalty, missing, out=penalty)
        near = self.backend.scratch(s.shape, slot=2)
        xp.subtract(square, penalty, out=near)
        xp.multiply(near, s, out=near)
        xp.add(near, penalty, out=near)
        self.factor = layer.weight / rows
        self.loss = 0.5 * self.factor * xp.sum(near)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Write the gradients: that of a is `slope` · (a - b), that of b its negative."""
        xp = self.backend.xp
        d, s, square, missing = self._parts()
        slope = self.backend.scratch(s.shape)
        if self.layer.legacy:
            xp.sign(missing, out=slope)
        else:
            distance = self.backend.scratch(s.shape, slot=1)
            xp.sqrt(square, out=distance)
            xp.maximum(distance, FLOOR, out=distance)
            xp.divide(missing, distance, out=slope)
        # s - (1 - s) slope
        part = self.backend.scratch(s.shape, slot=1)
        xp.add(slope, 1.0, out=part)
        xp.multiply(part, s, out=part)
        xp.subtract(part, slope, out=slope)
        xp.multiply(slope, self.factor, out=slope)
        for diff, sign in zip(diffs[:2], (1.0, -1.0), strict=True):
            if diff is not None:
                gradient = diff.reshape(self.images, -1)
                xp.multiply(d, slope, out=gradient[: self.rows])
                xp.multiply(gradient[: self.rows], sign, out=gradient[: self.rows])
                gradient[self.rows :] = 0
        if diffs[2] is not None:
            diffs[2][...] = 0

    def _parts(self) -> list[Array]:
        """Return differences, labels, squared distances and what is missing to the margin, of the rows that count."""
        return [one[: self.rows] for one in (self.difference, self.similar, self.square, self.missing)]
