"""TopKAccuracy: the share of labels among the highest scores, for several numbers of these at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np

from nacre import Array, ConfigError, Sizes, default, positive

from .base import ClassesLayer, ClassesState, share


class TopKAccuracyLayer(ClassesLayer, statistics={"top_*": ("higher", "%")}):
    """The shares of labels whose score is one of the k highest, for each k of a list.

    top_k = 1 / M · Σ [rank ≤ k] over the M labels of rows that count, where rank is the number of scores that are as
    high as that of the label, or higher.

    Equal scores count against the label, as in Accuracy, and a label whose score is NaN is never a hit. Bottoms are the
    scores and the labels, as for SoftmaxLoss. The statistics `top_1`, `top_5`, ... are over all labels since the last
    reset, `records` is their number.

    Example:
        [[layer]]
        type = "TopKAccuracy"
        bottoms = ["score", "label"]  # (8, 10), (8,)
        k = [1, 5]
    """

    k: Annotated[Sizes, positive, "the label must be among this many highest scores"] = default((1, 5))

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if len({*self.k}) < len(self.k):
            yield f"k={list(self.k)} has a number twice"


class TopKAccuracyState(ClassesState, of=TopKAccuracyLayer):
    """`TopKAccuracyLayer` on any backend."""

    def __init__(self, layer: TopKAccuracyLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        if max(layer.k) > self.count:
            raise ConfigError(
                f"{layer.name}: k={list(layer.k)}, but there are {self.count} classes",
                f"write k=[1], or other numbers up to {self.count}",
            )

    def nothing(self) -> dict[str, np.ndarray]:
        return {"hits": np.zeros(len(self.layer.k), np.int64), "labels": np.zeros((), np.int64)}

    def forward(self, inputs: list[Array]) -> None:
        scores, labels = self.used(inputs)
        own = np.take_along_axis(scores, labels[:, None], axis=1)
        rank = (scores >= own).sum(axis=1)  # 0 if the label's score is NaN
        for place, k in enumerate(self.layer.k):
            self.found["hits"][place] += np.count_nonzero((rank > 0) & (rank <= k))
        self.found["labels"] += len(labels)

    def dump_statistics(self) -> dict[str, float]:
        shares = share(self.found["hits"], np.full(len(self.layer.k), self.found["labels"]))
        statistics = {f"top_{k}": float(one) for k, one in zip(self.layer.k, shares, strict=True)}
        return {**statistics, "records": float(self.found["labels"])}
