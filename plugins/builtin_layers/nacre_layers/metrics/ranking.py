"""The common code of ROCAUC and AveragePrecision: the scores of a whole pass, and how they rank what is true."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from math import nan
from typing import Annotated, Any, ClassVar

import numpy as np

from nacre import Array, Layer, Names, exactly, finite, non_zero

from ..axes import axis_of, split_shape
from ..losses.base import alike
from ..losses.classes import Classes
from .base import CollectingState


class RankingLayer(Layer, is_sink=True):
    """The fields of ROCAUC and AveragePrecision."""

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]
    axis: Annotated[int, non_zero, "axis of the classes"] = 1
    threshold: Annotated[float, finite, "labels of the scores' shape are true if they are above it"] = 0.5
    ignore_label: Annotated[int | None, "class numbers of this value are ignored"] = None
    per_class: Annotated[bool, "report the statistic of each class too, with `_0`, `_1`, ... after its name"] = False


class RankingState(CollectingState):
    """Keeps the scores of a pass, and what is true, both (labels, classes); a subclass measures one class.

    Raises:
        ConfigError: the labels have neither the shape of the scores, nor that of class numbers.
    """

    statistic: ClassVar[str] = ""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        scores, labels = (tuple(one.shape) for one in inputs)
        self.images, self.dtype = scores[0], inputs[0].dtype
        self.classes = None if alike(scores, labels) else Classes(layer, backend, scores, labels)
        self.shape = split_shape(scores, axis_of(layer, scores)) if len(scores) > 1 else (self.images, 1, 1)
        super().__init__(layer, backend, inputs, diffs)

    def ready(self) -> None:
        if self.classes is not None:
            self.classes.backend = self.backend  # NumPy's memory, if the net is on a device
            self.classes.ready()

    def nothing(self) -> dict[str, np.ndarray]:
        self.parts: list[Mapping[str, np.ndarray]] = []  # behind what is found
        return {"scores": np.zeros((0, self.shape[1]), self.dtype), "true": np.zeros((0, self.shape[1]), bool)}

    def collected(self) -> Mapping[str, np.ndarray]:
        if self.parts:
            every = [self.found, *self.parts]
            self.found, self.parts = {name: np.concatenate([one[name] for one in every]) for name in self.found}, []
        return self.found

    def forward(self, inputs: list[Array]) -> None:
        scores = self._by_class(inputs[0])
        if self.classes is None:
            true = self._by_class(inputs[1]) > self.layer.threshold
        else:
            labels = self.classes.labels(inputs[1], self.classes.count)
            true = labels[:, None] == np.arange(self.shape[1])
            if self.classes.ignored is not None:
                scores, true = scores[~self.classes.ignored], true[~self.classes.ignored]
        self.join({"scores": scores.copy(), "true": true})

    def _by_class(self, array: Array) -> np.ndarray:
        """Return the real rows of a bottom as (labels, classes)."""
        before, classes, behind = self.shape
        rows = before * behind * min(self.backend.rows, self.images) // self.images
        return np.moveaxis(array.reshape(self.shape), 1, 2).reshape(-1, classes)[:rows]

    def join(self, other: Mapping[str, np.ndarray]) -> None:
        self.parts.append(other)

    def measure(self, true: np.ndarray, false: np.ndarray) -> float:
        """Return the statistic of a class.

        `true` and `false` are for each different score, the highest first, how many scores of what is true and of what
        is not are as high or higher.
        """
        raise NotImplementedError

    def dump_statistics(self) -> dict[str, float]:
        found = self.collected()
        each = [self._measured(*both) for both in zip(found["scores"].T, found["true"].T, strict=True)]
        statistics = {self.statistic: float(np.mean(each))}
        if self.layer.per_class:
            statistics |= {f"{self.statistic}_{index}": one for index, one in enumerate(each)}
        return {**statistics, "records": float(len(found["true"]))}

    def _measured(self, scores: np.ndarray, true: np.ndarray) -> float:
        if np.isnan(scores).any():
            return nan
        order = np.argsort(scores)[::-1]  # of whole numbers too, which -scores would change
        scores, hits = scores[order], np.cumsum(true[order])
        last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)[: len(scores)])  # of those with one score
        return self.measure(hits[last], 1 + last - hits[last])

    def tell(self, what: str) -> None:
        """Warn that a statistic has no value."""
        warnings.warn(f"{self.layer.name}: {what}", stacklevel=2)
