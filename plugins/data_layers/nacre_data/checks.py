"""Checks of arrays of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre import DataError

NUMBERS = "biuf"  # NumPy's kinds: booleans, whole numbers with and without a sign, floating-point numbers


def check_entries(where: str, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Check that an array has records of numbers; `where` begins the error.

    Raises:
        DataError: there is no axis of records, a record is empty, or its entries are not real numbers.
    """
    if not shape:
        raise DataError(f"{where} is a single value, but its first axis must count the records")
    if dtype.kind not in NUMBERS:
        raise DataError(f"{where} is of type {dtype}, but it must hold whole or floating-point numbers")
    if 0 in shape[1:]:
        raise DataError(f"{where} has records of shape {tuple(shape[1:])}, which hold no number")


def check_counts(where: str, names: Sequence[str], counts: Sequence[int]) -> None:
    """Check that every field has as many records as the first.

    Raises:
        DataError: one has more or fewer.
    """
    for name, count in zip(names, counts, strict=True):
        if count != counts[0]:
            raise DataError(f"{where}: '{name}' has {count} records, but '{names[0]}' has {counts[0]}")
