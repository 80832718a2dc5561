"""R2: the share of the truth's variance that predictions explain."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan
from typing import Annotated, Any

import numpy as np

from nacre import Array, Layer, Names, exactly

from ..losses.base import check_alike
from .base import CollectingState


class R2Layer(Layer, is_sink=True, statistics={"r2": ("higher", "")}):
    """The coefficient of determination R².

    r2 = 1 - Σ (y - x)² / Σ (y - mean(y))², over the rows that count, for predictions x and the truth y.

    Bottoms are the predictions and the truth, of one shape; axes of length 1 may differ. If a record has several
    numbers, the statistic `r2` is the mean of theirs. It is over all records since the last reset, and `records` is how
    many they are; of fewer than two it is NaN. Where the truth is always the same it is 1 if all predictions are right,
    else 0. Predictions that are always the mean have 0, worse ones less. As scikit-learn's `r2_score`.

    Example:
        [[layer]]
        type = "R2"
        bottoms = ["price", "label"]  # (8, 1), (8,)
    """

    compares_numbers = True

    bottoms: Annotated[Names, exactly(2), "the predictions and the truth"]


class R2State(CollectingState, of=R2Layer):
    """`R2Layer` on any backend.

    `squares` is Σ (y - mean)², which is joined without a loss of digits: Chan, Golub and LeVeque, "Updating formulae
    and a pairwise algorithm for computing sample variances", 1979.
    """

    def __init__(self, layer: R2Layer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        check_alike(layer, inputs)
        self.images, self.size = inputs[0].shape[0], inputs[0].size // inputs[0].shape[0]
        super().__init__(layer, backend, inputs, diffs)

    def nothing(self) -> dict[str, np.ndarray]:
        zeros = {name: np.zeros(self.size) for name in ("mean", "squares", "errors")}
        return {"count": np.zeros(()), **zeros, "low": np.full(self.size, inf), "high": np.full(self.size, -inf)}

    def forward(self, inputs: list[Array]) -> None:
        x, y = (one.reshape(self.images, -1)[: self.backend.rows].astype("float64") for one in inputs)
        if len(y):
            mean, low, high = y.mean(axis=0), y.min(axis=0), y.max(axis=0)
            squares, errors = ((y - mean) ** 2).sum(axis=0), ((y - x) ** 2).sum(axis=0)
            count = np.array(float(len(y)))
            self.join({"count": count, "mean": mean, "squares": squares, "errors": errors, "low": low, "high": high})

    def join(self, other: Mapping[str, np.ndarray]) -> None:
        mine, count = self.found, self.found["count"] + other["count"]
        if not count:
            return
        part, apart = other["count"] / count, other["mean"] - mine["mean"]
        self.found = {
            "count": count,
            "mean": mine["mean"] + part * apart,
            "squares": mine["squares"] + other["squares"] + mine["count"] * part * apart**2,
            "errors": mine["errors"] + other["errors"],
            "low": np.minimum(mine["low"], other["low"]),
            "high": np.maximum(mine["high"], other["high"]),
        }

    def dump_statistics(self) -> dict[str, float]:
        squares, errors, records = self.found["squares"], self.found["errors"], float(self.found["count"])
        if records < 2:
            return {"r2": nan, "records": records}
        constant = self.found["low"] == self.found["high"]  # squares may differ from 0 by a rounding
        each = np.where(constant, errors == 0, 1 - errors / np.where(constant, 1, squares))
        return {"r2": float(each.mean()), "records": records}
