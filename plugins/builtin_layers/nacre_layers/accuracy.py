"""Accuracy: the share of records whose highest score is the label's."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Layer, LayerState, Names, exactly, non_zero

from .classes import Classes


class AccuracyLayer(Layer, is_sink=True, has_stats=True):
    """The share of labels that the highest score hits; of equal scores the first one wins.

    Bottoms are the scores and the labels, as for SoftmaxLoss. The statistic `accuracy` is a mean over all rows that
    count since the last reset, `error` is 1 - accuracy. After Mocha.jl's `AccuracyLayer`.
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]
    axis: Annotated[int, non_zero, "axis of the classes"] = 1
    report_error: Annotated[bool, "give the statistic `error` too"] = False

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> AccuracyState:
        return AccuracyState(self, backend, inputs, diffs)


class AccuracyState(LayerState, reads=""):
    """`AccuracyLayer` on any backend."""

    def __init__(self, layer: AccuracyLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.classes = Classes(layer, backend, inputs[0].shape, inputs[1].shape)
        self.hits: Any = 0
        self.total = 0

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        before, _, behind = self.classes.shape
        count = self.classes.count
        label = self.classes.labels(inputs[1], count)
        winner = self.backend.scratch((before, behind), "int64")
        xp.argmax(inputs[0].reshape(self.classes.shape), axis=1, out=winner)
        hit = self.backend.scratch((count,), "bool")
        xp.equal(winner.reshape(-1)[:count], label, out=hit)
        self.hits = self.hits + xp.count_nonzero(hit)
        self.total += count

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """A statistic has no gradient."""

    def dump_statistics(self) -> dict[str, float]:
        accuracy = float(self.hits) / self.total if self.total else 0.0
        statistics = {"accuracy": accuracy, "records": float(self.total)}
        return {**statistics, "error": 1 - accuracy} if self.layer.report_error else statistics

    def reset_statistics(self) -> None:
        self.hits, self.total = 0, 0

    def shutdown(self) -> None:
        """Nothing is held."""
