"""PrecisionRecall: precision, recall and F1, of each class and of all."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from .base import ClassesLayer, MatrixState, share


class PrecisionRecallLayer(
    ClassesLayer,
    statistics=dict.fromkeys(
        ("precision", "recall", "f1", "precision_{class}", "recall_{class}", "f1_{class}"), ("higher", "%")
    ),
):
    """Precision, recall and F1 of the class with the highest score.

    precision[c] = n[c, c] / Σ_a n[a, c], recall[c] = n[c, c] / Σ_b n[c, b], f1 = 2 precision · recall / (precision +
    recall), where n[a, b] labels of class a were taken for class b; 0 / 0 is 0.

    Bottoms are the scores and the labels, as for SoftmaxLoss; among equal scores the first one counts. The statistics
    `precision`, `recall` and `f1` are over all labels of rows that count since the last reset: with average="macro" the
    means over all classes, those without labels included; with "weighted" the means weighted with the number of labels
    of each class; with "micro" all classes are counted together, so that all three are the accuracy. `records` is the
    number of labels. All others are NaN if a score was. As scikit-learn's `precision_recall_fscore_support` with all
    classes as its labels, and zero_division=0.

    Example:
        [[layer]]
        type = "PrecisionRecall"
        bottoms = ["score", "label"]  # (8, 10), (8,)
        per_class = true
    """

    average: Annotated[Literal["macro", "micro", "weighted"], "how classes are put together"] = "macro"
    per_class: Annotated[bool, "report `precision_0`, `recall_0`, `f1_0`, ... too"] = False


class PrecisionRecallState(MatrixState, of=PrecisionRecallLayer):
    """`PrecisionRecallLayer` on any backend."""

    def dump_statistics(self) -> dict[str, float]:
        hits, labels, predictions = self.matrix.diagonal(), self.matrix.sum(axis=1), self.matrix.sum(axis=0)
        each = {
            "precision": share(hits, predictions),
            "recall": share(hits, labels),
            "f1": share(2 * hits, labels + predictions),
        }
        if self.layer.average == "micro":
            statistics = dict.fromkeys(each, float(share(hits.sum(), labels.sum())))
        else:
            weights = labels if self.layer.average == "weighted" and labels.any() else np.ones(self.count)
            statistics = {name: float(np.average(values, weights=weights)) for name, values in each.items()}
        if self.layer.per_class:
            statistics |= {
                f"{name}_{index}": float(one) for name, values in each.items() for index, one in enumerate(values)
            }
        return self.told(statistics)
