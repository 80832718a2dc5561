"""CalibrationError: how far probabilities are from the share of hits."""

from __future__ import annotations

from math import nan
from typing import Annotated, Any

import numpy as np

from nacre import Array, Names, every, exactly

from ..losses.base import check_probabilities
from .base import ClassesLayer, ClassesState, share

MOST = 1 << 20  # bins


class CalibrationErrorLayer(ClassesLayer, statistics={"ece": ("lower", "%")}):
    """The expected calibration error: how far the highest probability is from the share of hits.

    ece = Σ_k n[k] / M · |hits[k] / n[k] - Σ p / n[k]|, over the M labels of rows that count, where p is the highest
    probability of a label's classes, and bin k has the n[k] labels with k / n_bin < p ≤ (k + 1) / n_bin, of which
    hits[k] have their own class as the most probable one, the first one among equals.

    Bottoms are probabilities, such as those of Softmax, and labels, as for SoftmaxLoss. The statistic `ece` is over all
    labels since the last reset, NaN if a probability was; `records` is their number. Naeini, Cooper and Hauskrecht,
    "Obtaining well calibrated probabilities using Bayesian binning", 2015. Raises DataError if a number is not a
    probability.

    Example:
        [[layer]]
        type = "CalibrationError"
        bottoms = ["prob", "label"]  # (8, 10), (8,)
    """

    bottoms: Annotated[Names, exactly(2), "the probabilities and the labels"]
    n_bin: Annotated[
        int, every(lambda count: 0 < count <= MOST, f"from 1 to {MOST}"), "number of bins of equal width"
    ] = 15


class CalibrationErrorState(ClassesState, of=CalibrationErrorLayer):
    """`CalibrationErrorLayer` on any backend."""

    def nothing(self) -> dict[str, np.ndarray]:
        return {name: np.zeros(self.layer.n_bin) for name in ("labels", "hits", "sums")}

    def forward(self, inputs: list[Array]) -> None:
        probabilities, labels = self.used(inputs)
        if not len(labels):
            return
        check_probabilities(self.layer, self.backend, probabilities, "read the top of a Softmax")
        highest = probabilities.max(axis=1).astype("float64")
        bins = np.searchsorted(np.linspace(0, 1, self.layer.n_bin + 1)[1:-1], highest)
        hits = probabilities.argmax(axis=1) == labels
        for name, weights in (("labels", None), ("hits", hits), ("sums", highest)):
            self.found[name] += np.bincount(bins, weights=weights, minlength=self.layer.n_bin)

    def dump_statistics(self) -> dict[str, float]:
        labels, hits, sums = self.found["labels"], self.found["hits"], self.found["sums"]
        error: Any = np.abs(hits - sums).sum()
        records = labels.sum()
        return {"ece": nan if np.isnan(error) else float(share(error, records)), "records": float(records)}
