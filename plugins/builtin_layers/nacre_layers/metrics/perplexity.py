"""Perplexity: among how many equally probable classes the labels would be as hard to guess."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log
from typing import Annotated, Any

from nacre import Array, Layer, LayerState, Names, exactly, non_zero

from ..elementwise.softmax import log_softmax
from ..losses.classes import Classes

LIKELIHOOD = {"perplexity": ("lower", ""), "bits": ("lower", "")}


class PerplexityLayer(Layer, is_sink=True, statistics=LIKELIHOOD):
    """The perplexity of the labels: e to the power of their mean negative log-likelihood.

    perplexity = exp(-1 / M · Σ log softmax(x)[label]), over the M labels of rows that count.

    Bottoms are the scores and the labels, as for SoftmaxLoss. The statistic `perplexity` is over all labels since the
    last reset: the mean is taken first, so that it is the same for batches of any size. `bits` is the same mean in bits
    for each label, log2(perplexity), and `records` is the number of labels. A net that knows nothing of n classes has
    the perplexity n.

    Example:
        [[layer]]
        type = "Perplexity"
        bottoms = ["score", "label"]  # (8, 50, 96), (8, 50)
        axis = -1
        ignore_label = -1
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]
    axis: Annotated[int, non_zero, "axis of the classes"] = 1
    ignore_label: Annotated[int | None, "labels of this value are ignored"] = None


class Likelihood:
    """The sum of the logarithms of probabilities, and how many they are: what the statistics of a text are made of."""

    def __init__(self) -> None:
        self.total: Any = 0.0
        self.count: Any = 0

    def add(self, total: Any, count: Any) -> None:
        self.total = self.total + total
        self.count = self.count + count

    def collected(self) -> dict[str, float]:
        return {"total": float(self.total), "count": int(self.count)}

    def statistics(self) -> dict[str, float]:
        mean = -float(self.total) / max(int(self.count), 1)
        try:
            perplexity = exp(mean)
        except OverflowError:
            perplexity = inf
        return {"perplexity": perplexity, "bits": mean / log(2), "records": float(self.count)}


class CountsLikelihood:
    """The statistics of a state that adds to its `likelihood`."""

    likelihood: Likelihood

    def dump_statistics(self) -> dict[str, float]:
        return self.likelihood.statistics()

    def reset_statistics(self) -> None:
        self.likelihood = Likelihood()

    def collected(self) -> dict[str, float]:
        return self.likelihood.collected()

    def join(self, other: Mapping[str, Any]) -> None:
        self.likelihood.add(float(other["total"]), int(other["count"]))


class PerplexityState(CountsLikelihood, LayerState, of=PerplexityLayer, reads=""):
    """`PerplexityLayer` on any backend."""

    def __init__(self, layer: PerplexityLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.classes = Classes(layer, backend, inputs[0].shape, inputs[1].shape)
        self.reset_statistics()

    def ready(self) -> None:
        self.classes.ready()
        # as exact as sums and counts are, whatever the net's type
        self.log = self.backend.empty(self.classes.shape, "float64")

    def forward(self, inputs: list[Array]) -> None:
        xp, classes = self.backend.xp, self.classes
        picked, count = classes.pick(inputs[1]), classes.count
        log_softmax(self.backend, inputs[0].reshape(classes.shape), self.log)
        chosen = self.backend.scratch((count,), "float64")
        xp.take(self.log.reshape(-1), picked, out=chosen, mode="clip")
        if classes.ignored is not None:
            xp.copyto(chosen, 0, where=classes.ignored)
        self.likelihood.add(xp.sum(chosen, dtype="float64"), classes.used())

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: a statistic has no gradient."""
