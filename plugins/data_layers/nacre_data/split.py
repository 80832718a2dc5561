"""Parts of the records of one source, such as training and validation: disjoint, complete, the same in every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import Any

import numpy as np

from nacre import Converted, DataError
from nacre.random import Random

from .records import Records

KEYS = {"part": str, "fractions": Mapping, "group": str, "seed": int}


class Split(Converted["Mapping[str, Any] | None", "dict[str, Any]"]):
    """Which part of the records a source feeds; {} means all of them.

    `split = {part = "train", fractions = {train = 0.8, validation = 0.2}}`. The parts are a function of `seed` (0 by
    default), the number of records, and their classes or groups: never of the layer's name or of the net's seed, so
    that sources with equal fractions feed disjoint parts. Where records have classes, every class is split alike.
    Records with the same number in the field `group`, such as the pictures of one patient, stay together.
    """

    wants = "a table such as {part = 'train', fractions = {train = 0.8, validation = 0.2}}"

    @staticmethod
    def convert(value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not set(value) <= set(KEYS):
            raise ValueError
        table = dict(value)
        for key, entry in table.items():
            if not isinstance(entry, KEYS[key]) or isinstance(entry, bool):
                raise ValueError
        if table:
            table["fractions"] = {str(name): float(one) for name, one in table.get("fractions", {}).items()}
        return table


def split_complaints(split: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a split."""
    if not split:
        return
    fractions, part = split["fractions"], split.get("part", "")
    if part not in fractions:
        yield f"split: part={part!r}, but it must be one of the fractions: {', '.join(fractions) or '(none)'}"
    if not all(0 < one <= 1 for one in fractions.values()) or not (
        sum(fractions.values()) < 1 or isclose(sum(fractions.values()), 1)
    ):
        yield f"split: fractions={fractions}, but each must be above 0, and their sum 1 at most"


class Subset(Records):
    """Some of the records of a source, by their numbers there."""

    def __init__(self, records: Records, numbers: np.ndarray) -> None:
        self.records = records
        self.numbers = numbers
        records.replace_by(numbers)
        self.count = len(numbers)
        self.shapes, self.dtypes = records.shapes, records.dtypes
        self.classes, self.column_names = records.classes, records.column_names

    def read(self, records: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        self.records.read(self.numbers[records], arrays)

    def read_top(self, top: int, records: np.ndarray, array: np.ndarray) -> None:
        self.records.read_top(top, self.numbers[records], array)

    def in_memory(self, top: int) -> np.ndarray | None:
        found = self.records.in_memory(top)
        return None if found is None else found[self.numbers]

    def column(self, name: str) -> np.ndarray:
        return self.records.column(name)[self.numbers]

    def key(self, number: int) -> str:
        return self.records.key(int(self.numbers[number]))

    def left_out(self, records: np.ndarray) -> list[str]:
        return self.records.left_out(self.numbers[records])

    def replace_by(self, numbers: np.ndarray) -> None:
        self.records.replace_by(self.numbers[numbers])

    def interrupt(self) -> None:
        self.records.interrupt()

    def close(self) -> None:
        self.records.close()


def part_of(where: str, records: Records, label: str, split: Mapping[str, Any]) -> Subset:
    """Return the part of the records that a split names; `label` is the field with their classes, or "".

    Raises:
        DataError: the part has no record, or there is no such field.
    """
    column = split.get("group") or label
    kinds = None if not column else np.unique(records.column(column), return_inverse=True)[1].reshape(-1)
    parts = _assign(records.count, kinds, bool(split.get("group")), split["fractions"], split.get("seed", 0))
    names = list(split["fractions"])
    numbers = np.flatnonzero(parts == names.index(split["part"]))
    if not len(numbers):
        raise DataError(
            f"{where}: part '{split['part']}' has none of the {records.count} records",
            "make its fraction larger, or add records",
        )
    return Subset(records, numbers)


def _assign(
    count: int, kinds: np.ndarray | None, together: bool, fractions: Mapping[str, float], seed: int
) -> np.ndarray:
    """Return the part of each record: a number, and that of no part where the fractions do not add up to 1.

    Records come class by class, both in a random order, and each part takes them at even distances, so that every class
    and the whole are split as exactly as whole records can be. Groups, in a random order, go to the part that lacks
    most records.
    """
    shares = [*fractions.values()]
    shares.append(max(0.0, 1 - sum(shares)))
    generator = Random(seed, "split", lambda: 0).generator()
    if kinds is not None and together:
        of_group = np.argsort(kinds, kind="stable")
        groups = np.split(of_group, np.flatnonzero(np.diff(kinds[of_group])) + 1)
        return _deal([groups[index] for index in generator.permutation(len(groups))], count, shares)
    order = generator.permutation(count)
    if kinds is not None:
        order = order[np.argsort(generator.permutation(kinds.max() + 1)[kinds[order]], kind="stable")]
    parts = np.empty(count, np.intp)
    left, rest = order, 1.0
    for part, share in enumerate(shares):
        share = share / rest if part + 1 < len(shares) and rest > 0 else 1.0
        taken = np.diff(np.floor(np.arange(len(left) + 1) * min(1.0, share) + 0.5)).astype(bool)
        parts[left[taken]] = part
        left, rest = left[~taken], rest - shares[part]
    return parts


def _deal(groups: Sequence[np.ndarray], count: int, shares: Sequence[float]) -> np.ndarray:
    parts, lacking = np.empty(count, np.intp), np.zeros(len(shares))
    for group in groups:
        lacking += np.array(shares) * len(group)
        part = int(np.argmax(lacking))
        lacking[part] -= len(group)
        parts[group] = part
    return parts
