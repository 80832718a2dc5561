"""Checks of arrays of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacre import DataError, Field, misfit, number_text

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


def check_counts(where: str, names: Sequence[str], counts: Sequence[int], remedy: str = "") -> None:
    """Check that every field has as many records as the first.

    Raises:
        DataError: one has more or fewer.
    """
    for name, count in zip(names, counts, strict=True):
        if count != counts[0]:
            raise DataError(f"{where}: '{name}' has {count} records, but '{names[0]}' has {counts[0]}", remedy)


def checked_rows(
    where: str | Path, fields: Mapping[str, Field], rows: Mapping[str, Any], *, lengths_differ: bool = False
) -> dict[str, Any]:
    """Return the rows of each field that are to be written: an array, or what was given for bytes and varying shapes.

    Raises:
        DataError: a field has no rows, rows of another shape, what is no number or none of its type, or, unless
            `lengths_differ`, more or fewer than the first one; the message begins with `where`.
    """
    checked: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in rows:
            raise DataError(f"{where}: the field '{name}' is missing among the rows: {', '.join(rows) or 'none'}")
        values = rows[name]
        if not field.codec and field.shape is not None:
            values = np.asarray(values)
            if values.shape[1:] != field.shape and len(values):
                message = f"{where}: the rows of '{name}' have the shape {values.shape[1:]}, but it has {field.shape}"
                raise DataError(message, "give an array (rows, *shape)")
            values = values if len(values) else np.empty((0, *field.shape), field.dtype)
            if values.dtype.kind not in NUMBERS:
                message = f"{where}: the rows of '{name}' are of type {values.dtype}"
                raise DataError(message, "give an array of numbers; NaN stands for one that is missing")
            if (index := misfit(values, np.dtype(field.dtype))) is not None:
                message = f"{where}: '{name}' is {number_text(values.flat[index])}, but its type is {field.dtype}"
                raise DataError(message, "begin the file with another type of this field")
        checked[name] = values
    if not lengths_differ:
        check_counts(str(where), [*checked], [*map(len, checked.values())])
    return checked
