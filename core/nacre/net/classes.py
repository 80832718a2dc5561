"""Names of classes: their order, and the numbers that they have in other data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import DataError, nearest

WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
"""A whole number that int64 holds."""


def class_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of classes, each once, in the order that gives them their numbers.

    It is the order of code points, or that of their values if all are whole numbers: "2" comes before "10".
    """
    once = sorted(set(names))
    return tuple(sorted(once, key=int) if all(map(WHOLE.match, once)) else once)


def class_numbers(where: str, field: str, there: Sequence[str], here: Sequence[str]) -> np.ndarray:
    """Return for the number of each class there its number here, found by name.

    Raises:
        DataError: a class has no number here.
    """
    known = {name: number for number, name in enumerate(here)}
    if unknown := [name for name in there if name not in known]:
        listed = ", ".join(name or "''" for name in here[:10]) + (", ..." if len(here) > 10 else "")
        raise DataError(
            f"{where}: '{field}' has the class '{unknown[0]}'{nearest(unknown[0], here)}, which is not one of the "
            f"{len(here)} known classes: {listed}"
        )
    return np.array([known[name] for name in there], np.int64)


def renumbered(values: Any, numbers: np.ndarray, known: int, where: str = "") -> np.ndarray:
    """Return numbers of classes there as numbers here; what is the number of no class, as of ignored labels, stays.

    `numbers` are those of `class_numbers`, `known` is how many classes there are here.

    Raises:
        DataError: a number has no name there, but is that of a class here.
    """
    given = np.asarray(values)
    none = (given < 0) | (given >= max(len(numbers), known))
    nameless = given[~none & (given >= len(numbers))]
    if nameless.size:
        last = len(numbers) - 1
        raise DataError(f"{where}the number {nameless[0]:g} has no name: only those from 0 to {last} have one")
    return np.where(none, given, numbers[np.where(none, 0, given).astype(np.intp)])


def ordered(values: np.ndarray, names: Sequence[str], *, every: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return numbers that count names as numbers that count them in their order: `every` name, or those that occur.

    What is the number of no class, as of ignored labels, stays.
    """
    there = range(len(names)) if every else [one for one in np.unique(values).tolist() if 0 <= one < len(names)]
    order = class_order(names[one] for one in there)
    known = {name: number for number, name in enumerate(order)}
    return renumbered(values, np.array([known.get(name, 0) for name in names]), len(names)), order
