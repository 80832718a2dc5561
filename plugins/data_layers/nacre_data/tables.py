"""Transformers for tables, which are fitted to the training data: Standardize, FillMissing and Categories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, prod
from typing import Annotated, Any, Literal

import numpy as np

from nacre import Blocks, Converted, DataError, Transformer, default, renumbered

UNKNOWN = "<unknown>"
"""The name of all categories that training did not have."""
AT_A_TIME = 1 << 26
"""Bytes of columns that are in memory at a time, and at least one column."""


class Standardize(Transformer):
    """Subtracts the mean of each column of the training data, and divides by the standard deviation.

    y = (x - mean) / deviation, where the deviation is that of all n records: sqrt(sum((x - mean)²) / n), in float64. A
    column is one number of a record, whatever the record's shape. One that is the same in all records of the training
    data becomes 0. Raises DataError if a number is missing: use `FillMissing` before.
    """

    def fit(self, blocks: Blocks) -> Mapping[str, Any]:
        moments = Moments(blocks.shape)
        for block in blocks:
            moments.add(block, np.ones(block.shape, bool))
        deviation = np.where(moments.low == moments.high, 0, np.sqrt(moments.squares / moments.count))
        mean = np.where(moments.low == moments.high, moments.low, moments.mean)
        _check_finite(mean + deviation, "its mean and deviation are")
        return {"mean": mean, "deviation": deviation}

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        shape = batch.shape[1:]
        mean, deviation = (self.fitted_array(key, shape) for key in ("mean", "deviation"))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is reported by the net
            batch[...] = (batch - mean) / np.where(deviation > 0, deviation, np.inf)


class Moments:
    """Means, sums of squared distances from them, and ranges of columns, which grow by blocks (Chan et al., 1979)."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.records = 0
        self.count = np.zeros(shape)
        self.mean = np.zeros(shape)
        self.squares = np.zeros(shape)
        self.low = np.full(shape, np.inf)
        self.high = np.full(shape, -np.inf)

    def add(self, block: np.ndarray, there: np.ndarray) -> None:
        """Add the numbers of a block that are `there`. Raises DataError if one of them is not finite."""
        if (bad := np.argwhere(there & ~np.isfinite(block))).size:
            record, *place = bad[0].tolist()
            found, remedy = ("infinite", "correct the data")
            if np.isnan(block[tuple(bad[0])]):
                found, remedy = ("missing (NaN)", "use the transformer FillMissing before")
            raise DataError(f"{_column(place)} is {found} in record {self.records + record}", remedy)
        self.records += len(block)
        count = there.sum(0)
        both = np.maximum(self.count + count, 1)
        with np.errstate(over="ignore", invalid="ignore"):  # looked at in the end
            mean = np.where(there, block, 0).sum(0) / np.maximum(count, 1)
            away, between = np.where(there, block - mean, 0), np.where(count, mean - self.mean, 0)
            self.squares += np.square(away).sum(0) + np.square(between) * self.count * count / both
            self.mean += between * count / both
        self.count = self.count + count
        self.low = np.minimum(self.low, np.where(there, block, np.inf).min(0))
        self.high = np.maximum(self.high, np.where(there, block, -np.inf).max(0))


def _column(place: Sequence[int]) -> str:
    return f"column {', '.join(map(str, place))}" if place else "the number"


def _check_finite(values: np.ndarray, what: str) -> None:
    if (bad := np.argwhere(~np.isfinite(values))).size:
        raise DataError(f"{_column(bad[0].tolist())}: {what} too large for float64", "divide the numbers before")


STATISTICS = ("mean", "median", "frequent")
Given = str | float | Sequence[str | float]


class Filling(Converted[Given, "tuple[str | float, ...]"]):
    """What stands for missing numbers: a statistic or a number, for all columns or for each."""

    wants = '"mean", "median", "frequent", a number, or a list of these with one for each column'

    @staticmethod
    def convert(value: Any) -> tuple[str | float, ...]:
        given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        read = tuple(one if isinstance(one, str) else float(one) for one in given)
        if not read or not all(one in STATISTICS if isinstance(one, str) else isfinite(one) for one in read):
            raise ValueError
        return read


class FillMissing(Transformer):
    """Replaces missing numbers (NaN) by a number for each column: `fill`.

    "mean", "median" (of an even number of values: the middle between the two in the middle) and "frequent" (of several
    values that are as frequent: the smallest) are those of the values that the training data have. A column is one
    number of a record. Raises DataError if the training data have no value in a column whose statistic is wanted.
    """

    fill: Annotated[Filling, 'number or statistic: "mean", "median", "frequent"; a list has one for each column'] = (
        default("mean")
    )

    @property
    def needs_fit(self) -> bool:
        return any(isinstance(one, str) for one in self.fill)

    def fit(self, blocks: Blocks) -> Mapping[str, Any]:
        wanted = self._of_each(blocks.shape)
        fills = np.array([np.nan if isinstance(one, str) else one for one in wanted])
        by_name = {name: [place for place, one in enumerate(wanted) if one == name] for name in STATISTICS}
        if by_name["mean"]:
            moments, chosen = Moments(blocks.shape), np.reshape([one == "mean" for one in wanted], blocks.shape)
            for block in blocks:
                moments.add(block, chosen & ~np.isnan(block))
            _check_values(moments.count.reshape(-1), by_name["mean"], blocks)
            fills[by_name["mean"]] = moments.mean.reshape(-1)[by_name["mean"]]
        for column, values in _values(blocks, by_name["median"]):
            fills[column] = np.median(values)
        for column, values in _values(blocks, by_name["frequent"]):
            known, counts = np.unique(values, return_counts=True)
            fills[column] = known[np.argmax(counts)]
        _check_finite(fills.reshape(blocks.shape), "what fills it is")
        return {"fill": fills.reshape(blocks.shape)}

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        missing = np.isnan(batch)
        if missing.any():
            shape = batch.shape[1:]
            fill = self.fitted_array("fill", shape) if self.needs_fit else np.reshape(self._of_each(shape), shape)
            np.copyto(batch, fill, casting="same_kind", where=missing)

    def _of_each(self, shape: Sequence[int]) -> list[str | float]:
        width = prod(shape)
        if len(self.fill) not in (1, width):
            raise DataError(f"fill={list(self.fill)} is for {len(self.fill)} columns, but the records have {width}")
        return list(self.fill) * (width if len(self.fill) == 1 else 1)


def _values(blocks: Blocks, columns: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the values of each of these columns that are not missing."""
    step = max(1, AT_A_TIME // (8 * blocks.count))
    for first in range(0, len(columns), step):
        some = columns[first : first + step]
        held, start = np.empty((len(some), blocks.count)), 0
        for block in blocks:
            held[:, start : start + len(block)] = block.reshape(len(block), -1)[:, some].T
            start += len(block)
        present = ~np.isnan(held)
        for row, column in enumerate(some):
            _check_values({column: present[row].sum()}, [column], blocks)
            yield column, held[row][present[row]]


def _check_values(counts: Any, columns: Sequence[int], blocks: Blocks) -> None:
    for column in columns:
        if not counts[column]:
            place = [int(one) for one in np.unravel_index(column, blocks.shape)] if blocks.shape else []
            raise DataError(
                f"{_column(place)} is missing (NaN) in all {blocks.count} records of the training data",
                "leave this column out, or give a number for it in fill",
            )


class Labels(Transformer):
    """Gives classes the numbers that they have in training, which has `known` classes; see `renumbered`."""

    numbers: Any
    known: int

    def transform(self, batch: np.ndarray, random: Any = None, phase: str = "") -> None:
        """Replace the numbers of a source by those of training, in place."""
        batch[...] = renumbered(batch, self.numbers, self.known)


class Numbers:
    """The numbers that categories of a source have in training: `numbers[n]` for category n, -1 if it has none."""

    def __init__(self, numbers: np.ndarray, names: Sequence[str], known: Sequence[str]) -> None:
        self.numbers = numbers
        self.names = names
        self.known = known

    def transform(self, batch: np.ndarray) -> None:
        """Replace the numbers of a source by those of training, in place."""
        given = self.whole(batch, len(self.numbers))
        found = self.numbers[given]
        if (bad := np.argwhere(found < 0)).size:
            name, listed = self.names[int(given[tuple(bad[0])])], ", ".join(one or "''" for one in self.known[:10])
            more = ", ..." if len(self.known) > 10 else ""
            raise DataError(
                f"row {bad[0][0]} of the batch is '{name}', which is not one of the {len(self.known)} categories of "
                f"the training data: {listed}{more}",
                'correct the data, or let all unknown ones share a number: unknown = "own"',
            )
        batch[...] = found

    @staticmethod
    def whole(batch: np.ndarray, count: int) -> np.ndarray:
        """Return the numbers of classes as indices. Raises DataError if there are no such classes."""
        there = (batch >= 0) & (batch < count)
        if batch.dtype.kind == "f":
            there &= np.floor(batch) == batch
        if (bad := np.argwhere(~there)).size:
            number, why = batch[tuple(bad[0])].item(), f"there are only the classes 0 to {count - 1}"
            if 0 <= number < count:
                why = "an input of classes needs whole numbers"
            raise DataError(f"row {bad[0][0]} of the batch is {number:g}, but {why}", "give the number of a class")
        return batch.astype(np.intp)


class Naming(Transformer):
    """Gives a top the numbers of names that training had: `fit` returns these as "classes", so that layers count them.

    If they have a name that stands for all others, it is "unknown". Such a transformer is for a top whose numbers count
    names, such as a column of texts, and comes before all others of its top; what it makes stays int64.
    """

    def named(self, blocks: Blocks) -> Sequence[str]:
        """Return the names that the numbers count. Raises DataError if they have none."""
        if not blocks.classes:
            raise DataError(
                f"{type(self).__name__}: the numbers of this top have no names, so they are no categories",
                "name them in the field classes, or read a column of texts",
            )
        return blocks.classes


class Categories(Naming):
    """Gives the texts of a column, or other classes, the numbers that they have in training: 0, 1, ... in their order.

    It is for a top whose numbers count names, such as a column of texts; they stay int64, so that an `Embedding` can
    take them: its `input_dim` may be the name of the top. Only categories that a record of the training data has get a
    number; any other is an error, or with unknown="own" they all get the next number, that of a category "<unknown>".
    It comes before all other transformers of its top.
    """

    unknown: Annotated[
        Literal["error", "own"], 'categories that training did not have: "error", or "own" for a number of their own'
    ] = "error"

    def fit(self, blocks: Blocks) -> Mapping[str, Any]:
        names = self.named(blocks)
        found = np.zeros(len(names), bool)
        for block in blocks:
            found[Numbers.whole(block, len(found))] = True
        known = [name for name, one in zip(names, found, strict=True) if one]
        if self.unknown == "error":
            return {"classes": known}
        return {"classes": [*dict.fromkeys([*known, UNKNOWN])], "unknown": UNKNOWN}

    def with_fitted(self, fitted: Mapping[str, Any], classes: Sequence[str] = ()) -> Transformer:
        known: Sequence[str] = fitted["classes"]
        here = {name: number for number, name in enumerate(known)}
        own = -1
        if self.unknown == "own":  # nets of nacre 0.1 have no name for it
            own = here.setdefault(fitted.get("unknown", UNKNOWN), len(known))
        numbers = [here.get(name, own) for name in classes] or [*here.values()]
        real = [name for name in known if name != fitted.get("unknown")]
        return super().with_fitted({"numbers": Numbers(np.array(numbers), classes, real)})

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        numbers: Numbers = vars(self)["fitted"]["numbers"]
        numbers.transform(batch)
