"""The common code of layers over classes: the axis, the labels, and the rows that count."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from nacre import Array, ConfigError, DataError, number_text

from ..axes import axis_of, split_shape

ONE_HOT = "labels must be class numbers; for one-hot labels use SoftlabelSoftmaxLoss, or Argmax to convert them"

REMEDY = "labels count from 0: check them, and the number of outputs of the layer before"


class Classes:
    """The classes and labels in the bottoms of a layer: the axis of the classes, and which labels count.

    `shape` is that of the scores, read as (before the axis, classes, after it). Labels that equal the layer's
    `ignore_label`, if it has one, may have any value: after `labels` or `pick`, `ignored` marks them.
    """

    def __init__(self, layer: Any, backend: Any, scores: tuple[int, ...], labels: tuple[int, ...]) -> None:
        axis = axis_of(layer, scores)
        check_label_shape(layer, scores, labels, axis)
        self.layer = layer
        self.backend = backend
        self.images = scores[0]
        self.shape = split_shape(scores, axis)
        self.ignore_label: int | None = getattr(layer, "ignore_label", None)
        self.ignored: Array = None

    def ready(self) -> None:
        """Make the arrays that are kept from call to call."""
        before, classes, behind = self.shape
        # the flat index of the score of class 0 at each label's position
        starts = np.arange(before)[:, None] * (classes * behind) + np.arange(behind)
        self._starts = self.backend.constant(starts.reshape(-1), "int64")
        self._picked = self.backend.empty((before * behind,), "int64")
        if self.ignore_label is not None:
            self._ignored = self.backend.empty((before * behind,), "bool")

    @property
    def rows(self) -> int:
        """The number of real records."""
        return min(self.backend.rows, self.images)

    @property
    def count(self) -> int:
        """The number of labels in real rows."""
        before, _, behind = self.shape
        return before * behind * self.rows // self.images

    def labels(self, label: Array, count: int) -> Array:
        """Return the first `count` labels as a flat array of int64, checked; ignored ones are 0.

        Raises:
            DataError: a label is not a whole number from 0 to classes - 1; the message names the record.
        """
        if self.ignore_label is not None:
            self.ignored = self._ignored[:count]
            self.backend.xp.equal(label.reshape(-1)[:count], self.ignore_label, out=self.ignored)
        return whole_numbers(
            self.layer,
            self.backend,
            label,
            count,
            self.shape[1],
            free=self.ignored,
            remedy=REMEDY,
        )

    def pick(self, label: Array) -> Array:
        """Return the flat index of the score of every label, as int64; valid until the next `pick`."""
        xp, count = self.backend.xp, self.count
        picked = self._picked[:count]
        xp.multiply(self.labels(label, count), self.shape[2], out=picked)
        xp.add(picked, self._starts[:count], out=picked)
        return picked

    def used(self) -> Any:
        """Count the labels that are not ignored; on a device the result may be an array of one."""
        if self.ignored is None:
            return self.count
        return self.count - self.backend.number(self.backend.xp.count_nonzero(self.ignored))


def whole_numbers(
    layer: Any,
    backend: Any,
    given: Array,
    count: int,
    limit: int,
    *,
    free: Array | None = None,
    what: str = "label",
    remedy: str = "",
) -> Array:
    """Return the first `count` numbers of an array as a flat array of int64, valid until the end of the call.

    Where `free` is true any finite number is allowed; it becomes 0.

    Raises:
        DataError: one of them is not a whole number from 0 to `limit` - 1; the message names the record.
    """
    xp, scratch = backend.xp, backend.scratch
    flat = given.reshape(-1)[:count]
    whole = scratch((count,), "int64", slot=7)
    right, below = (scratch((count,), "bool", slot=slot) for slot in (7, 8))
    xp.greater_equal(flat, 0, out=right)  # false for NaN
    xp.less(flat, limit, out=below)
    xp.logical_and(right, below, out=right)
    if free is not None:
        xp.logical_or(right, free, out=right)

    def wrong() -> DataError:
        return no_whole_number(layer, backend, given, limit, free=free, what=what, remedy=remedy)

    key = layer.name, what, id(given)
    backend.require((*key, "in range"), right, wrong)
    xp.copyto(whole, flat, casting="unsafe")
    xp.equal(whole, flat, out=right)
    backend.require((*key, "whole"), right, wrong)
    if free is not None:
        xp.logical_not(free, out=below)
        xp.multiply(whole, below, out=whole)
    return whole


def no_whole_number(
    layer: Any,
    backend: Any,
    given: Array,
    limit: int,
    *,
    free: Array | None = None,
    what: str = "label",
    remedy: str = "",
) -> DataError:
    """Return the error that `whole_numbers` raises for an array: it names the first record with a wrong number."""
    host = backend.to_host(given).reshape(-1)  # all: of rows that are not real none comes before a real one
    unbound = np.zeros(host.shape, bool)
    if free is not None:
        unbound[: free.size] = backend.to_host(free)
    return DataError(f"{layer.name}: {_misfit(what, host, unbound, given.size // given.shape[0], limit)}", remedy)


def _misfit(what: str, numbers: np.ndarray, free: np.ndarray, of_record: int, limit: int) -> str:
    """Return what is wrong with the first of some numbers that is no label; a record has `of_record` of them."""
    with np.errstate(invalid="ignore"):
        right = free | (numbers >= 0) & (numbers < limit) & (np.floor(numbers) == numbers)
    index = int(right.argmin())  # a record may have many
    return (
        f"{what} {number_text(numbers[index])} of record {index // of_record} of the batch "
        f"is not a whole number from 0 to {limit - 1}"
    )


def check_label_shape(layer: Any, prediction: tuple[int, ...], label: tuple[int, ...], axis: int) -> None:
    """Check that labels are (N,), (N, 1), or of the prediction's shape with the axis of length 1."""
    full = (*prediction[:axis], 1, *prediction[axis + 1 :])
    squeezed = prediction[:axis] + prediction[axis + 1 :]
    if label not in (full, squeezed) and not (prod(full) == full[0] and label in ((full[0],), (full[0], 1))):
        raise ConfigError(
            f"{layer.name}: labels have the shape {label}, but {full} is needed for predictions {prediction}",
            ONE_HOT if label == prediction else "",
        )
