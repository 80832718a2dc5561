"""The common code of statistics over a pass: they collect what they need, so that batches of any size give the same."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Annotated, Any

import numpy as np

from nacre import Array, Layer, LayerState, Names, exactly, non_zero

from ..losses.classes import Classes


class CollectingState(LayerState, reads="", host_only=True):
    """Collects arrays over a pass, in NumPy's memory.

    `found` is what was collected since the last reset. `collected` gives it to another rank, whose state joins it: by
    default arrays with one name are added up.
    """

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reset_statistics()

    def nothing(self) -> dict[str, np.ndarray]:
        """Return what there is before the first batch."""
        raise NotImplementedError

    def collected(self) -> Mapping[str, np.ndarray]:
        """Return what was collected since the last reset, for `join`."""
        return self.found

    def join(self, other: Mapping[str, np.ndarray]) -> None:
        """Add what another state of this layer has collected."""
        self.found = {name: one + other[name] for name, one in self.found.items()}

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: a statistic has no gradient."""

    def reset_statistics(self) -> None:
        self.found = self.nothing()


class ClassesLayer(Layer, is_sink=True):
    """The fields of statistics over classes."""

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]
    axis: Annotated[int, non_zero, "axis of the classes"] = 1
    ignore_label: Annotated[int | None, "labels of this value are ignored"] = None


class ClassesState(CollectingState):
    """Collects from scores and labels: the common state of statistics over classes.

    Raises:
        ConfigError: the labels do not fit the scores.
    """

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        self.classes = Classes(layer, backend, tuple(inputs[0].shape), tuple(inputs[1].shape))
        self.count = self.classes.shape[1]
        super().__init__(layer, backend, inputs, diffs)

    def ready(self) -> None:
        self.classes.backend = self.backend  # NumPy's memory, if the net is on a device
        self.classes.ready()

    def used(self, inputs: list[Array]) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores, one row for each label that counts, and the labels."""
        labels = self.classes.labels(inputs[1], self.classes.count)
        scores = np.moveaxis(inputs[0].reshape(self.classes.shape), 1, 2).reshape(-1, self.count)[: len(labels)]
        if self.classes.ignored is None:
            return scores, labels
        counts = ~self.classes.ignored
        return scores[counts], labels[counts]


class MatrixState(ClassesState):
    """Counts how often a label was taken for a class, the one with the highest score, the first among equal ones.

    `found["matrix"]` is (labels, predictions); `found["bad"]` counts labels with a score that is NaN, which are not in
    it.
    """

    def nothing(self) -> dict[str, np.ndarray]:
        return {"matrix": np.zeros((self.count, self.count), np.int64), "bad": np.zeros((), np.int64)}

    def forward(self, inputs: list[Array]) -> None:
        scores, labels = self.used(inputs)
        whole = ~np.isnan(scores).any(axis=1)
        np.add.at(self.found["matrix"], (labels[whole], scores[whole].argmax(axis=1)), 1)
        self.found["bad"] += np.count_nonzero(~whole)

    @property
    def matrix(self) -> np.ndarray:
        return self.found["matrix"]

    def told(self, statistics: dict[str, float]) -> dict[str, float]:
        """Return statistics with the number of records behind them; all are NaN if a score was."""
        if self.found["bad"]:
            statistics = dict.fromkeys(statistics, nan)
        return {**statistics, "records": float(self.matrix.sum() + self.found["bad"])}


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return part / whole, and 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros(np.shape(whole)), where=np.asarray(whole) > 0)
