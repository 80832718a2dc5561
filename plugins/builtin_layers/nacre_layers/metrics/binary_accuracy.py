"""BinaryAccuracy: the share of scores on the right side of a threshold."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Layer, Names, exactly, finite

from ..losses.base import check_alike
from .accuracy import SHARES, ShareState


class BinaryAccuracyLayer(Layer, is_sink=True, statistics=SHARES):
    """The share of scores that are above `threshold` where their label is, and not above it where it is not.

    accuracy = 1 / M · Σ [(x > threshold) = (label > threshold)], over the M numbers of rows that count.

    Bottoms are the scores and the labels, of one shape; axes of length 1 may differ. The threshold is also that of the
    labels: 0 for labels -1 and 1, 0.5 for labels 0 and 1. Statistics are `accuracy`, a mean over all numbers of rows
    that count since the last reset, `records`, how many they are, and `error`, 1 - accuracy. After Mocha.jl's
    `BinaryAccuracyLayer`; a score that is NaN is never right.

    Example:
        [[layer]]
        type = "BinaryAccuracy"
        bottoms = ["prob", "label"]  # (8, 1), (8,)
        threshold = 0.5
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]
    threshold: Annotated[float, finite, "the threshold for scores and labels"] = 0.0
    report_error: Annotated[bool, "report the statistic `error` too"] = False


class BinaryAccuracyState(ShareState, of=BinaryAccuracyLayer, reads=""):
    """`BinaryAccuracyLayer` on any backend."""

    def __init__(self, layer: BinaryAccuracyLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        check_alike(layer, inputs)
        self.images = inputs[0].shape[0]

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        x, labels = (one.reshape(self.images, -1)[: self.backend.rows] for one in inputs)
        right, above, number = (self.backend.scratch(x.shape, "bool", slot=slot) for slot in range(3))
        xp.greater(x, self.layer.threshold, out=right)
        xp.greater(labels, self.layer.threshold, out=above)
        xp.equal(right, above, out=right)
        xp.equal(x, x, out=number)
        xp.logical_and(right, number, out=right)
        self.hits = self.hits + xp.count_nonzero(right)
        self.total += x.size
