"""ROCAUC: how often a true label has a higher score than a false one."""

from __future__ import annotations

from math import nan

import numpy as np

from .ranking import RankingLayer, RankingState


class ROCAUCLayer(RankingLayer, statistics=dict.fromkeys(("roc_auc", "roc_auc_{class}"), ("higher", ""))):
    """The area under the curve of the receiver operating characteristic.

    roc_auc = Σ_t Σ_f ([x_t > x_f] + 1/2 [x_t = x_f]) / (T · F), over the T labels that are true and the F that are not,
    of the rows that count: how often the true one of two has the higher score.

    Bottoms are scores and labels of one shape: (N,) or (N, 1) for one yes or no, (N, C) for C of them; or scores (N, C)
    and class numbers (N,), where each class is compared with all others, so that the scores should be probabilities.
    The statistic `roc_auc` is the mean over the classes, over all labels since the last reset, never a mean of batches;
    `records` is their number. Where all labels are alike it is NaN, with a warning, and where a score is NaN. The
    scores of a whole pass are kept. As scikit-learn's `roc_auc_score`.

    Example:
        [[layer]]
        type = "ROCAUC"
        bottoms = ["score", "label"]  # (8, 1), (8,)
    """


class ROCAUCState(RankingState, of=ROCAUCLayer):
    """`ROCAUCLayer` on any backend."""

    statistic = "roc_auc"

    def measure(self, true: np.ndarray, false: np.ndarray) -> float:
        if not len(true):
            return nan
        if not (true[-1] and false[-1]):
            self.tell(f"all labels of a class are {'true' if true[-1] else 'false'}, so roc_auc has no value")
            return nan
        above = true + np.append(0, true[:-1])  # twice the true ones above a score, where equal ones count half
        return float((np.diff(false, prepend=0) * above).sum() / (2 * int(true[-1]) * int(false[-1])))
