"""MeanAbsoluteError: how far predictions are from the truth, in its unit."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from nacre import Array, Layer, Names, exactly

from ..losses.base import check_alike
from .base import CollectingState, share


class MeanAbsoluteErrorLayer(Layer, is_sink=True, statistics={"mae": ("lower", "")}):
    """The mean distance of predictions from the truth.

    mae = 1 / M · Σ |x - y|, over the M numbers of rows that count.

    Bottoms are the predictions and the truth, of one shape; axes of length 1 may differ. The statistic `mae` is over
    all numbers since the last reset, `records` is how many they are. As scikit-learn's `mean_absolute_error`.

    Example:
        [[layer]]
        type = "MeanAbsoluteError"
        bottoms = ["price", "label"]  # (8, 1), (8,)
    """

    compares_numbers = True

    bottoms: Annotated[Names, exactly(2), "the predictions and the truth"]


class MeanAbsoluteErrorState(CollectingState, of=MeanAbsoluteErrorLayer):
    """`MeanAbsoluteErrorLayer` on any backend."""

    def __init__(self, layer: MeanAbsoluteErrorLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        check_alike(layer, inputs)
        self.images = inputs[0].shape[0]

    def nothing(self) -> dict[str, np.ndarray]:
        return {"total": np.zeros(()), "count": np.zeros((), np.int64)}

    def forward(self, inputs: list[Array]) -> None:
        x, y = (one.reshape(self.images, -1)[: self.backend.rows].astype("float64") for one in inputs)
        self.found["total"] += np.abs(x - y).sum()
        self.found["count"] += x.size

    def dump_statistics(self) -> dict[str, float]:
        return {"mae": float(share(*self.found.values())), "records": float(self.found["count"])}
