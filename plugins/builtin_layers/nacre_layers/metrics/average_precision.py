"""AveragePrecision: the mean of the precision where each true label is found."""

from __future__ import annotations

import numpy as np

from .ranking import RankingLayer, RankingState


class AveragePrecisionLayer(
    RankingLayer, statistics=dict.fromkeys(("average_precision", "average_precision_{class}"), ("higher", ""))
):
    """The average precision, a summary of the curve of precision over recall.

    average_precision = Σ_k (recall[k] - recall[k - 1]) · precision[k], over the different scores, the highest first:
    precision[k] is the share of true labels among those with score k or a higher one, recall[k] the share of all true
    labels that are among them. Of the rows that count.

    Bottoms are as those of ROCAUC. The statistic `average_precision` is the mean over the classes, over all labels
    since the last reset, never a mean of batches; `records` is their number. It is 0 where no label is true, and NaN
    where a score is. The scores of a whole pass are kept. As scikit-learn's `average_precision_score`.

    Example:
        [[layer]]
        type = "AveragePrecision"
        bottoms = ["score", "label"]  # (8, 5), (8, 5)
        per_class = true
    """


class AveragePrecisionState(RankingState, of=AveragePrecisionLayer):
    """`AveragePrecisionLayer` on any backend."""

    statistic = "average_precision"

    def measure(self, true: np.ndarray, false: np.ndarray) -> float:
        if not len(true) or not true[-1]:
            return 0.0
        return float((np.diff(true, prepend=0) * true / (true + false)).sum() / true[-1])
