"""IoU: intersection over union of what has a label and what is taken for it."""

from __future__ import annotations

from typing import Annotated

from .base import ClassesLayer, MatrixState, share


class IoULayer(ClassesLayer, statistics=dict.fromkeys(("iou", "iou_{class}"), ("higher", "%"))):
    """The mean intersection over union of the classes, as segmentations of images are measured.

    iou[c] = n[c, c] / (Σ_a n[a, c] + Σ_b n[c, b] - n[c, c]), where n[a, b] labels of class a were taken for class b,
    the one with the highest score; 0 / 0 is 0.

    Bottoms are the scores and the labels, as for SoftmaxLoss; among equal scores the first one counts. The statistic
    `iou` is the mean over all classes, over all labels of rows that count since the last reset, never a mean of
    batches; `records` is the number of labels. All others are NaN if a score was. As scikit-learn's `jaccard_score`
    with all classes as its labels, and zero_division=0.

    Example:
        [[layer]]
        type = "IoU"
        bottoms = ["score", "label"]  # (2, 4, 8, 8), (2, 1, 8, 8)
        ignore_label = 255
    """

    per_class: Annotated[bool, "report `iou_0`, `iou_1`, ... too"] = False


class IoUState(MatrixState, of=IoULayer):
    """`IoULayer` on any backend."""

    def dump_statistics(self) -> dict[str, float]:
        hits = self.matrix.diagonal()
        each = share(hits, self.matrix.sum(axis=0) + self.matrix.sum(axis=1) - hits)
        statistics = {"iou": float(each.mean())}
        if self.layer.per_class:
            statistics |= {f"iou_{index}": float(one) for index, one in enumerate(each)}
        return self.told(statistics)
