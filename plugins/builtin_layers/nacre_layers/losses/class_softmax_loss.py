"""ClassSoftmaxLoss: the cross-entropy of many labels in classes, of which only the scores in one class are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Annotated, Any

import numpy as np

from nacre import Array, ClassCount, ConfigError, LayerState, Names, Parameter, Shape, default, exactly, positive

from ..elementwise.softmax import log_softmax_with
from ..fields import Weighted
from ..metrics.perplexity import LIKELIHOOD, CountsLikelihood
from .base import Loss, Normalizer, divided_by, divisor
from .classes import whole_numbers


class ClassSoftmaxLossLayer(
    Weighted, Loss, is_sink=True, has_param=True, has_loss=True, can_do_bp=True, statistics=LIKELIHOOD
):
    """loss = -weight / M · Σ log(p[class] p[label | class]), over the labels of the rows that count.

    p[class] is the softmax of class_weight x + class_bias, and p[label | class] that of weight x + bias over the labels
    of the class only. So with many labels, such as words, most scores are never computed.

    Bottoms are x, (images, ..., features), and the labels, (images, ...): whole numbers below `n_label`, of any type;
    those that equal `ignore_label` are ignored. A class has neighbouring labels: `starts` are the first labels of the
    classes. Without it, `class_starts` divides the labels into at most `n_class` classes that are about as frequent,
    where label n is 1 / (n + 1) as frequent as label 0 (Zipf's law), as the words of `WordText` about are. `weight` is
    (n_label, features), `bias` (n_label), `class_weight` (classes, features), `class_bias` (classes). M is chosen by
    `normalize`, as for SoftmaxLoss. Statistics are those of `Perplexity`. Raises DataError if a label is out of range.
    After SINGA's loss of the example RNNLM, which adds up where this takes the mean, and has no bias.

    Example:
        [[layer]]
        type = "ClassSoftmaxLoss"
        bottoms = ["hidden", "label"]  # (8, 20, 64), (8, 20)
        n_label = 10000
        n_class = 100
    """

    bottoms: Annotated[Names, exactly(2), "the features and the labels"]
    n_label: Annotated[ClassCount, positive, "number of different labels, or the blob of classes"]
    n_class: Annotated[int | None, positive, "number of classes, if starts is not given; by default √n_label"] = None
    starts: Annotated[Shape, "the first label of each class: 0, and then rising numbers"] = default(())
    normalize: Annotated[
        Normalizer, "the divisor of the sum: the labels not ignored, all labels, the records, or 1"
    ] = "valid"
    ignore_label: Annotated[int | None, "labels of this value are ignored"] = None

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if isinstance(self.n_label, str):  # checked when the number is known
            return
        if self.starts:
            if self.n_class is not None:
                yield "n_class and starts are both given, but one of them is enough"
            ends = (*self.starts, self.n_label)
            if self.starts[0] != 0 or any(one >= other for one, other in pairwise(ends)):
                yield f"starts={list(self.starts)}, but it must begin with 0, and rise, below n_label={self.n_label}"
        elif self.n_class is not None and self.n_class > self.n_label:
            yield f"n_class={self.n_class}, but there are only {self.n_label} labels"

    def first_labels(self) -> tuple[int, ...]:
        """Return the first label of each class."""
        if self.starts:
            return self.starts
        return class_starts(1 / np.arange(1, self.n_label + 1), self.n_class or round(self.n_label**0.5))


def class_starts(counts: Sequence[float] | np.ndarray, n_class: int) -> tuple[int, ...]:
    """Return the first label of each class, so that classes are about as frequent; there are at most `n_class`.

    `counts` says how frequent each label is, the most frequent first. A class ends with the label with which the share
    of all labels so far exceeds (class + 1) / n_class. After Mikolov's RNNLM, and SINGA's example of it.
    """
    shares = np.cumsum(counts, dtype=float)
    if not len(shares) or not np.all(np.diff(shares, prepend=0.0) >= 0) or not 0 < shares[-1] < np.inf:
        raise ConfigError("class_starts: counts must be numbers from 0 on, one for each label, of which not all are 0")
    shares /= shares[-1]
    starts = [0]
    for label, share in enumerate(shares[:-1].tolist(), 1):
        if len(starts) < n_class and share > len(starts) / n_class:
            starts.append(label)
    return tuple(starts)


class ClassSoftmaxLossState(CountsLikelihood, LayerState, of=ClassSoftmaxLossLayer, reads=""):
    """`ClassSoftmaxLossLayer` on any backend.

    The labels that count are sorted by class, `counted`. In this order `x` are their features, and `all_class_log` and
    `all_log` the logarithms of the probabilities of all classes, and of all labels in the class of each: flat arrays,
    in which `class_chosen` and `chosen` are the places of the labels' own. `slope` and `total` are scratch memory.
    """

    def __init__(self, layer: ClassSoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape, labels = tuple(inputs[0].shape), tuple(inputs[1].shape)
        if len(shape) < 2 or labels not in (shape[:-1], (*shape[:-1], 1)):
            raise ConfigError(
                f"{layer.name}: labels have the shape {labels}, but {shape[:-1]} is needed for features {shape}"
            )
        self.images, self.features, self.size = shape[0], shape[-1], prod(shape[:-1])
        self.ends = np.array([*layer.first_labels(), layer.n_label])
        self.n_class = len(self.ends) - 1
        self.parameters = [
            Parameter.of(layer, "weight", (layer.n_label, self.features)),
            self._of_classes("weight", (self.n_class, self.features)),
        ]
        if layer.bias:
            self.parameters += [
                Parameter.of(layer, "bias", (layer.n_label,)),
                self._of_classes("bias", (self.n_class,)),
            ]
        self.divided_by = divided_by(layer.normalize, ignores=layer.ignore_label is not None)
        self.loss: Any = 0.0
        self.reset_statistics()

    def _of_classes(self, name: str, shape: tuple[int, ...]) -> Parameter:
        parameter = Parameter.of(self.layer, name, shape)
        parameter.name = f"class_{name}"
        return parameter

    def ready(self) -> None:
        empty, widest = self.backend.empty, int(np.diff(self.ends).max())
        self.all_x = empty((self.size, self.features))
        self.all_class_log, self.all_log = empty((self.size * self.n_class,)), empty((self.size * widest,))
        self.slope, self.total = empty((self.size * max(self.n_class, widest),)), empty((self.size, 1))
        self.places = [empty((self.size,), "int64") for _ in range(3)]

    def forward(self, inputs: list[Array]) -> None:
        xp, layer, backend = self.backend.xp, self.layer, self.backend
        rows = min(backend.rows, self.images)
        full = self.size // self.images * rows
        self._sort(inputs[1], full)
        count = len(self.counted)
        self.x, log = self.all_x[:count], backend.scratch((count,), slot=2)
        xp.take(inputs[0].reshape(-1, self.features), self.order, axis=0, out=self.x, mode="clip")
        self._scores(self.x, 1, slice(None), self._class_part(self.all_class_log))
        for first, last, labels, part in self._parts(self.all_log):
            self._scores(self.x[first:last], 0, labels, part)
        xp.take(self.all_class_log, self.class_chosen, out=log, mode="clip")
        total = xp.sum(log, dtype="float64")
        xp.take(self.all_log, self.chosen, out=log, mode="clip")
        total = total + xp.sum(log, dtype="float64")
        self.n_counted = count
        self.factor = layer.weight / divisor(backend, layer.normalize, valid=count, full=full, batch=rows)
        self.loss = -self.factor * total
        self.likelihood.add(total, count)

    def _sort(self, label: Array, full: int) -> None:
        """Read the labels of the rows that count, and find their order, and the places of their probabilities."""
        free = None
        if self.layer.ignore_label is not None:
            free = self.backend.scratch((full,), "bool", slot=6)
            self.backend.xp.equal(label.reshape(-1)[:full], self.layer.ignore_label, out=free)
        remedy = "check the labels, and n_label"
        found = whole_numbers(self.layer, self.backend, label, full, self.layer.n_label, free=free, remedy=remedy)
        self.backend.check_required()
        labels = self.backend.to_host(found)
        used = np.arange(full) if free is None else np.flatnonzero(~self.backend.to_host(free))
        classes = np.searchsorted(self.ends, labels[used], "right") - 1
        by_class = np.argsort(classes, kind="stable")
        order, self.counted = used[by_class], classes[by_class]
        widths = np.diff(self.ends)[self.counted]
        behind = np.cumsum(widths) - widths + labels[order] - self.ends[self.counted]
        places = order, np.arange(len(order)) * self.n_class + self.counted, behind
        self.order, self.class_chosen, self.chosen = (array[: len(order)] for array in self.places)
        for place, array in zip(places, (self.order, self.class_chosen, self.chosen), strict=True):
            self.backend.from_host(place, array)

    def _class_part(self, flat: Array) -> Array:
        count = len(self.counted)
        return flat[: count * self.n_class].reshape(count, self.n_class)

    def _parts(self, flat: Array) -> Iterator[tuple[int, int, slice, Array]]:
        """Yield for each class where its rows begin and end, its labels, and its part of an array like `all_log`."""
        ends, begin = np.searchsorted(self.counted, np.arange(self.n_class), "right").tolist(), 0
        for number, (first, last) in enumerate(pairwise([0, *ends])):
            if first < last:
                low, high = self.ends[number : number + 2].tolist()
                end = begin + (last - first) * (high - low)
                yield first, last, slice(low, high), flat[begin:end].reshape(last - first, high - low)
                begin = end

    def _scores(self, x: Array, index: int, labels: slice, out: Array) -> None:
        """Write the logarithms of the probabilities of some labels, or of the classes."""
        xp = self.backend.xp
        xp.matmul(x, self.parameters[index].blob[labels].T, out=out)
        if self.layer.bias:
            xp.add(out, self.parameters[index + 2].blob[labels], out=out)
        part = self.slope[: out.size].reshape(out.shape)
        log_softmax_with(xp, out, out, self.total[: out.shape[0]], part)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        count = len(self.counted)
        dx, part = (
            self.backend.scratch((count, self.features), slot=2),
            self.backend.scratch((count, self.features), slot=3),
        )
        for index in range(0, len(self.parameters), 2):
            if (gradient := self.parameters[index].gradient) is not None:
                gradient[...] = 0  # of labels in classes that this batch does not have
        slope = self._slope(self.all_class_log, self.class_chosen, count * self.n_class)
        self._gradients(self.x, 1, slice(None), self._class_part(slope), dx)
        widths = np.diff(self.ends)[self.counted]
        slope = self._slope(self.all_log, self.chosen, int(widths.sum()))
        for first, last, labels, scores in self._parts(slope):
            self._gradients(self.x[first:last], 0, labels, scores, part[first:last])
        if diffs[0] is not None:
            self.backend.xp.add(dx, part, out=dx)
            diffs[0][...] = 0
            diffs[0].reshape(-1, self.features)[self.order] = dx
        if diffs[1] is not None:
            diffs[1][...] = 0

    def _slope(self, log: Array, chosen: Array, size: int) -> Array:
        """Return the gradient of the scores: factor · (p - 1) where the label is, and factor · p elsewhere."""
        xp = self.backend.xp
        slope, own = self.slope[:size], self.backend.scratch(chosen.shape, slot=5)
        xp.exp(log[:size], out=slope)
        xp.take(log, chosen, out=own, mode="clip")
        xp.expm1(own, out=own)
        slope[chosen] = own
        xp.multiply(slope, self.factor, out=slope)
        return slope

    def _gradients(self, x: Array, index: int, labels: slice, slope: Array, dx: Array) -> None:
        xp, weight = self.backend.xp, self.parameters[index]
        if weight.gradient is not None:
            xp.matmul(slope.T, x, out=weight.gradient[labels])
        if self.layer.bias and (gradient := self.parameters[index + 2].gradient) is not None:
            xp.sum(slope, axis=0, out=gradient[labels])
        xp.matmul(slope, weight.blob[labels], out=dx)
