"""The records that a source feeds, wherever they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from nacre import DataError, Reader, copy_numbers, misfit, nearest, number_text, too_large

from .checks import NUMBERS
from .files import named

ONE_NUMBER = ((), (1,))
STAGED = 1 << 17
"""Bytes of records that are converted at a time."""


class Records:
    """The data of a source: `count` records, numbered from 0, each with one entry for every top.

    `shapes` and `dtypes` are those of a record's entries. The types are NumPy's, of integers or floating-point numbers.
    `classes` are the names of the classes that the numbers of a top count, where the data have names, `column_names`
    those of the columns of a table that make up a record.
    """

    count: int = 0
    shapes: Sequence[tuple[int, ...]] = ()
    dtypes: Sequence[np.dtype[Any]] = ()
    classes: Mapping[str, Sequence[str]] = MappingProxyType({})
    column_names: Mapping[str, Sequence[str]] = MappingProxyType({})

    def read(self, records: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        """Write the records of these numbers, in their order, into one array (records, *shape) for each top."""
        raise NotImplementedError

    def read_top(self, top: int, records: np.ndarray, array: np.ndarray) -> None:
        """Write the entries of one top, counted from 0, of the records of these numbers into an array."""
        kinds = zip(self.shapes, self.dtypes, strict=True)
        arrays = [
            np.empty((len(records) if one != top else 0, *shape), kind) for one, (shape, kind) in enumerate(kinds)
        ]
        arrays[top] = array
        self.read(records, arrays)

    def in_memory(self, top: int) -> np.ndarray | None:
        """Return the entries of one top, counted from 0, of all records, if they are kept in memory; else None.

        Raises:
            DataError: they cannot be read.
        """
        return None

    def column(self, name: str) -> np.ndarray:
        """Return a field of all records that has one number for each; it need not be a top.

        Raises:
            DataError: there is no such field, or it has more than one number.
        """
        raise NotImplementedError

    def key(self, number: int) -> str:
        """Return what a person finds a record by: a file's name, a line, a key."""
        return f"record {number}"

    def left_out(self, records: np.ndarray) -> list[str]:
        """Return for each of these records that could not be read, so that another one was, why."""
        return []

    def replace_by(self, numbers: np.ndarray) -> None:
        """Let only records of these numbers come in the place of those that cannot be read: the others are not fed."""

    def interrupt(self) -> None:
        """End a `read` under way in another thread with an error, if that is possible; nothing is read afterwards."""

    def close(self) -> None:
        """Release files and other things from outside; may be called twice."""


class ArrayRecords(Records):
    """Records in arrays in memory, one for each top; these are neither copied nor changed.

    `where` begins an error, and `tops` are the arrays' names in it. `columns` are further arrays, with one number for
    each record, that are no tops.
    """

    def __init__(
        self,
        where: str,
        tops: Sequence[str],
        arrays: Sequence[np.ndarray],
        columns: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.where = where
        self.tops = tops
        self.arrays = arrays
        self.columns = {**(columns or {}), **dict(zip(tops, arrays, strict=True))}
        self.count = len(arrays[0])
        self.shapes = [array.shape[1:] for array in arrays]
        self.dtypes = [array.dtype for array in arrays]
        self.staged: list[np.ndarray | None] = [None] * len(arrays)

    def read(self, records: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        """Copy records into arrays; raise DataError for a number that the array's type cannot hold."""
        together = in_a_row(records)
        for top, (array, out) in enumerate(zip(self.arrays, arrays, strict=True)):
            kept = array.dtype == out.dtype
            if not len(out):
                continue  # of a top that is not wanted here
            if together and (kept or out.dtype.kind == "f"):
                self._copy(top, array[records[0] : records[-1] + 1], out)
            elif kept:
                take(array, records, out)
            else:
                self._convert(top, records, out)

    def in_memory(self, top: int) -> np.ndarray | None:
        return self.arrays[top]

    def _convert(self, top: int, records: np.ndarray, out: np.ndarray) -> None:
        """Copy records into an array of another type: some at a time, which stay in the processor's cache."""
        staged = self._staged(top, out)
        for first in range(0, len(out), len(staged)):
            part = out[first : first + len(staged)]
            given = staged[: len(part)]
            take(self.arrays[top], records[first : first + len(part)], given)
            self._check(top, given, out.dtype, first)
            self._copy(top, given, part, first)

    def _copy(self, top: int, given: np.ndarray, out: np.ndarray, first: int = 0) -> None:
        if (index := copy_numbers(given, out)) is not None:
            record = first + index // (given.size // len(given))
            raise too_large(f"{self.where}: '{self.tops[top]}': record {record} of the batch", out.dtype)

    def column(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise DataError(f"{self.where}: there is no field '{name}'{nearest(name, self.columns)}")
        array = self.columns[name]
        check_one_number(self.where, name, array.shape[1:])
        return array.reshape(-1)

    def _staged(self, top: int, out: np.ndarray) -> np.ndarray:
        kind, shape = self.dtypes[top], self.shapes[top]
        count = max(1, min(len(out), STAGED // (kind.itemsize * prod(shape))))
        staged = self.staged[top]
        if staged is None or len(staged) != count:
            staged = self.staged[top] = np.empty((count, *shape), kind)
        return staged

    def _check(self, top: int, given: np.ndarray, dtype: np.dtype[Any], first: int) -> None:
        index = misfit(given, dtype)
        if index is not None:
            number = number_text(given.reshape(-1)[index])
            record = first + index // (given.size // len(given))
            raise DataError(
                f"{self.where}: '{self.tops[top]}' is {number} in record {record} of the batch, too large for {dtype}",
                "write the file again, with labels that count the classes from 0",
            )


def in_a_row(numbers: np.ndarray) -> bool:
    """Return whether each number is one more than the number before it."""
    steps = len(numbers) - 1
    return steps >= 0 and numbers[-1] - numbers[0] == steps == np.count_nonzero(numbers[1:] > numbers[:-1])


def take(array: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
    """Copy the rows of these numbers into `out`, which has the same type."""
    if array.flags.c_contiguous and array.flags.aligned:  # `take` would copy any other array as a whole
        array.take(numbers, axis=0, out=out, mode="clip")  # "raise" would buffer
        return
    for index, number in enumerate(numbers.tolist()):
        out[index] = array[number]


def entries_of(where: str, tops: Sequence[str], reader: Reader) -> tuple[list[tuple[int, ...]], list[np.dtype[Any]]]:
    """Return shape and type of what the records of a reader have for each top.

    Raises:
        DataError: they are no numbers, or of different shapes.
    """
    shapes: list[tuple[int, ...]] = []
    for top in tops:
        shape, kind = reader.fields[top].shape, np.dtype(reader.fields[top].dtype)
        if shape is None:
            message = (
                f"{where}: the records of '{top}' may differ in shape, as pictures do, so that of the blob is not known"
            )
            raise DataError(
                message, "give shape, such as shape = [3, 32, 32]; ImageData takes pictures as large as the first is"
            )
        if kind.kind not in NUMBERS:
            raise DataError(f"{where}: '{top}' is of type {kind}, but it must hold whole or floating-point numbers")
        shapes.append(shape)
    return shapes, [np.dtype(reader.fields[top].dtype) for top in tops]


def check_shape(reader: Reader, number: int, name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise DataError unless a record has the shape that all have."""
    if found != wanted:
        raise DataError(f"{reader.key(number)}: '{name}' has the shape {found}, but the others have {wanted}")


def check_one_number(where: str, name: str, shape: tuple[int, ...] | None) -> None:
    """Raise DataError unless the records of a field are single numbers."""
    if shape not in ONE_NUMBER:
        raise DataError(f"{where}: '{name}' has records of shape {shape}, but one number in each is needed")


def column_of(reader: Reader, where: str, name: str) -> np.ndarray:
    """Return a field of all records of a reader with a count, which has one number for each.

    Raises:
        DataError: it has more than one number, or cannot be read; `where` begins the message.
    """
    field = reader.fields[name]
    check_one_number(where, name, field.shape)
    column = np.empty((reader.count or 0, *(field.shape or ())), field.dtype)
    with named(where):
        reader.read(np.arange(len(column)), {name: column})
    return column.reshape(-1)
