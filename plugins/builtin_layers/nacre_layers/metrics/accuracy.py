"""Accuracy: the share of labels that are among the highest scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from nacre import Array, ConfigError, Layer, LayerState, Names, exactly, non_zero, positive

from ..losses.classes import Classes

SHARES = {"accuracy": ("higher", "%"), "error": ("lower", "%")}


class AccuracyLayer(Layer, is_sink=True, statistics={**SHARES, "class_{class}": ("higher", "%")}):
    """The share of labels whose score is one of the `top_k` highest.

    accuracy = 1 / M · Σ [rank ≤ top_k] over the M labels of rows that count, where rank is the number of scores x[c]
    that are as high as that of the label, x[label], or higher.

    Equal scores count against the label: it is a hit if at most `top_k` scores, its own among them, are as high as its
    own or higher. So a net that gives all classes the same score has no hits. Bottoms are the scores and the labels, as
    for SoftmaxLoss. The statistic `accuracy` is a mean over all labels of rows that count since the last reset,
    `records` is their number, `error` is 1 - accuracy, and `class_0`, `class_1`, ... are the accuracies of the labels
    of each class, 0 where there were none. After Mocha.jl's `AccuracyLayer` and Caffe's.

    Example:
        [[layer]]
        type = "Accuracy"
        bottoms = ["score", "label"]  # (8, 10), (8,)
        top_k = 5
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]
    axis: Annotated[int, non_zero, "axis of the classes"] = 1
    top_k: Annotated[int, positive, "the label must be among this many highest scores"] = 1
    ignore_label: Annotated[int | None, "labels of this value are ignored"] = None
    report_error: Annotated[bool, "report the statistic `error` too"] = False
    per_class: Annotated[bool, "report the accuracy of each class too"] = False


class ShareState(LayerState, reads=""):
    """Counts hits: the common state of layers that report an accuracy."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reset_statistics()

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: a statistic has no gradient."""

    def dump_statistics(self) -> dict[str, float]:
        total = float(self.total)
        accuracy = float(self.hits) / total if total else 0.0
        statistics = {"accuracy": accuracy, "records": total}
        return {**statistics, "error": 1 - accuracy} if self.layer.report_error else statistics

    def reset_statistics(self) -> None:
        self.hits: Any = 0
        self.total: Any = 0

    def collected(self) -> dict[str, float]:
        return {"hits": float(self.hits), "total": int(self.total)}

    def join(self, other: Mapping[str, Any]) -> None:
        self.hits, self.total = self.hits + float(other["hits"]), self.total + int(other["total"])


class AccuracyState(ShareState, of=AccuracyLayer, reads=""):
    """`AccuracyLayer` on any backend."""

    def __init__(self, layer: AccuracyLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        self.classes = Classes(layer, backend, inputs[0].shape, inputs[1].shape)
        self.shape = self.classes.shape
        super().__init__(layer, backend, inputs, diffs)
        if layer.top_k > self.shape[1]:
            raise ConfigError(f"{layer.name}: top_k={layer.top_k}, but there are {self.shape[1]} classes")

    def ready(self) -> None:
        self.classes.ready()

    def forward(self, inputs: list[Array]) -> None:
        xp, scratch, classes = self.backend.xp, self.backend.scratch, self.classes
        picked, count = classes.pick(inputs[1]), classes.count
        real = (count // self.shape[2], *self.shape[1:])
        x = inputs[0].reshape(self.shape)[: real[0]]
        own = scratch((real[0], 1, real[2]), str(x.dtype))
        xp.take(inputs[0].reshape(-1), picked, out=own.reshape(-1), mode="clip")
        reaches, rivals = scratch(real, "bool"), scratch((real[0], real[2]), "int64")
        xp.greater_equal(x, own, out=reaches)
        xp.sum(reaches, axis=1, out=rivals)
        hit, other = scratch((count,), "bool", slot=1), scratch((count,), "bool", slot=2)
        xp.less_equal(rivals.reshape(-1), self.layer.top_k, out=hit)
        xp.greater(rivals.reshape(-1), 0, out=other)  # a label whose score is NaN is never a hit
        xp.logical_and(hit, other, out=hit)
        if classes.ignored is not None:
            xp.logical_not(classes.ignored, out=other)
            xp.logical_and(hit, other, out=hit)
        self.hits = self.hits + xp.count_nonzero(hit)
        self.total = self.total + classes.used()
        if self.layer.per_class:
            self._count_classes(inputs[1], hit)

    def _count_classes(self, label: Array, hit: Array) -> None:
        xp, classes = self.backend.xp, self.shape[1]
        labels = self.classes.labels(label, self.classes.count)
        used = None if self.classes.ignored is None else ~self.classes.ignored
        self.class_hits = self.class_hits + xp.bincount(labels, weights=hit, minlength=classes)
        self.class_totals = self.class_totals + xp.bincount(labels, weights=used, minlength=classes)

    def collected(self) -> dict[str, Any]:
        counts = {"class_hits": self.class_hits, "class_totals": self.class_totals} if self.layer.per_class else {}
        host = {name: self.backend.to_host(one) if self.total else 0 for name, one in counts.items()}
        return {**super().collected(), **host}

    def join(self, other: Mapping[str, Any]) -> None:
        super().join(other)
        if self.layer.per_class and other["total"]:
            hits, totals = (self.backend.empty((self.shape[1],), "float64") for _ in range(2))
            self.backend.from_host(np.asarray(other["class_hits"], np.float64), hits)
            self.backend.from_host(np.asarray(other["class_totals"], np.float64), totals)
            self.class_hits, self.class_totals = self.class_hits + hits, self.class_totals + totals

    def dump_statistics(self) -> dict[str, float]:
        statistics = super().dump_statistics()
        for index in range(self.shape[1] if self.layer.per_class else 0):
            hits, total = (float(one[index]) if self.total else 0.0 for one in (self.class_hits, self.class_totals))
            statistics[f"class_{index}"] = hits / total if total else 0.0
        return statistics

    def reset_statistics(self) -> None:
        super().reset_statistics()
        self.class_hits: Any = 0
        self.class_totals: Any = 0
