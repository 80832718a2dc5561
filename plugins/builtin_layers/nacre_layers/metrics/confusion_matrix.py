"""ConfusionMatrix: how often each class was taken for each other one."""

from __future__ import annotations

from typing import Any

from nacre import ConfigError

from .base import ClassesLayer, MatrixState

MOST = 100  # classes


class ConfusionMatrixLayer(ClassesLayer, statistics={"accuracy": ("higher", "%"), "{class}_as_{class}": ("", "")}):
    """How many labels of each class were taken for each class.

    n[a, b] = Σ [label = a] [prediction = b], over the labels of rows that count, where the prediction is the class with
    the highest score, the first one among equal scores.

    Bottoms are the scores and the labels, as for SoftmaxLoss. The statistic `2_as_5` is n[2, 5] since the last reset,
    for each pair of at most 100 classes; `accuracy` is Σ n[a, a] / Σ n, which may be above that of `Accuracy`, where
    equal scores count against the label; `records` is Σ n. All others are NaN if a score was.

    Example:
        [[layer]]
        type = "ConfusionMatrix"
        bottoms = ["score", "label"]  # (8, 3), (8,)
    """


class ConfusionMatrixState(MatrixState, of=ConfusionMatrixLayer):
    """`ConfusionMatrixLayer` on any backend.

    Raises:
        ConfigError: there are more than 100 classes, too many for a statistic for each pair.
    """

    def __init__(self, layer: ConfusionMatrixLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        if self.count > MOST:
            raise ConfigError(
                f"{layer.name}: there are {self.count} classes, but a statistic for each pair needs {MOST} at most",
                "use PrecisionRecall with per_class",
            )

    def dump_statistics(self) -> dict[str, float]:
        matrix = self.matrix
        accuracy = float(matrix.trace() / max(matrix.sum(), 1))
        pairs = {f"{row}_as_{column}": float(n) for row, line in enumerate(matrix) for column, n in enumerate(line)}
        return self.told({"accuracy": accuracy, **pairs})
