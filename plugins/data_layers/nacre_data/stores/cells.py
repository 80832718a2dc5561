"""Cells of tables: how records are divided into them, and which of them are numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter

import numpy as np

from nacre import DataError

SEPARATORS = ";\t,|"
"""Those that a file may have instead of the one that is looked for."""
MISSING, NUMBER, TEXT = "missing", "a number", "a text"
WHOLE = re.compile("[ \t]*[+-]?[0-9]{1,19}[ \t]*")


class Cells:
    """How the cells of a table are written: separator, decimal point or comma, and what stands for missing values."""

    def __init__(self, separator: str, decimal: str, missing: Sequence[str]) -> None:
        self.separator = separator
        self.decimal = decimal
        self.missing = {one.strip(" \t") for one in missing}
        point = re.escape(decimal)
        digits = rf"(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)(?:e[+-]?[0-9]+)?"
        self._number = re.compile(rf"[+-]?(?:{digits}|inf(?:inity)?|(nan))", re.IGNORECASE | re.ASCII)
        self._float: Callable[[str], float] = float if decimal == "." else _with_comma
        self._number_is_missing = any(self._number.fullmatch(one) for one in self.missing)
        self.as_c = decimal == "." and not self._number_is_missing
        """Whether numbers are written as in C, and all of them are values."""

    def kind(self, cell: str) -> str:
        """Return whether a cell is MISSING, a NUMBER or a TEXT; NaN is missing."""
        cell = cell.strip(" \t")
        if cell in self.missing:
            return MISSING
        number = self._number.fullmatch(cell)
        return TEXT if number is None else MISSING if number[1] else NUMBER

    def numbers(self, cells: list[str], fill: float | None) -> np.ndarray | None:
        """Return the values of cells, and `fill` for those that are missing; None if one of them is no number."""
        values = None if self._number_is_missing else self._values(cells)
        if values is None:
            values = self._values(["nan" if cell.strip(" \t") in self.missing else cell for cell in cells])
        if values is None or fill is None:
            return None if values is None or np.isnan(values).any() else values
        values[np.isnan(values)] = fill
        return values

    def _values(self, cells: list[str]) -> np.ndarray | None:
        text = "".join(cells)
        if "_" in text or not text.isascii():  # float() takes 1_0, and digits of other scripts
            return None
        try:
            return np.fromiter(map(self._float, cells), np.float64, len(cells))
        except ValueError:
            return None


def is_int64(cell: str) -> bool:
    """Return whether a cell is a whole number that int64 holds."""
    return WHOLE.fullmatch(cell) is not None and -(2**63) <= int(cell) < 2**63


def _with_comma(cell: str) -> float:
    if "." in cell:
        raise ValueError
    return float(cell.replace(",", "."))


class Rows:
    """Some records of a table, which are divided into cells only as far as necessary.

    `where` says, for the position of a record, what an error begins with.

    Raises:
        DataError: quotes, or the ends of lines, are not as RFC 4180 wants them.
    """

    def __init__(self, records: list[str], separator: str, where: Callable[[int], str]) -> None:
        self.records = records
        self.separator = separator
        self.divided: list[list[str]] | None = None
        text = "\n".join(records)
        self.parsed = self._parse(where) if '"' in text or "\r" in text else None

    def _parse(self, where: Callable[[int], str]) -> list[list[str]]:
        try:
            rows = list(csv.reader(self.records, delimiter=self.separator, strict=True))
        except csv.Error:
            rows = []
        if len(rows) == len(self.records):
            return rows
        return [self._parse_one(record, where(position)) for position, record in enumerate(self.records)]

    def _parse_one(self, record: str, where: str) -> list[str]:
        try:
            (row,) = csv.reader([record], delimiter=self.separator, strict=True)
        except csv.Error as error:
            message = f"{where}: its quotes, or the ends of lines in it, are not those of a table: {error}"
            remedy = 'put the whole cell in quotes, and double each quote in it: "a ""b"" c"; end lines with \\n'
            raise DataError(message, remedy) from error
        return row

    def all(self) -> list[list[str]]:
        """Return all cells of each record, which are divided once."""
        if self.divided is None:
            divided = [record.split(self.separator) for record in self.records] if self.parsed is None else self.parsed
            self.divided = divided
        return self.divided

    def widths(self) -> list[int]:
        """Return the number of cells of each record."""
        if self.parsed is None:
            return [record.count(self.separator) + 1 for record in self.records]
        return [*map(len, self.parsed)]

    def numbers(self, columns: tuple[int, ...], width: int) -> np.ndarray | None:
        """Return the numbers in some columns, read by NumPy's fast parser; None if it cannot."""
        if self.parsed is not None or width == 1:  # for which a cell of spaces would be an empty line
            return None
        try:
            return np.loadtxt(self.records, comments=None, delimiter=self.separator, usecols=columns, ndmin=2)
        except ValueError:
            return None

    def cells(self, columns: tuple[int, ...], width: int) -> list[str]:
        """Return the cells of all records in some columns; each record has `width` cells."""
        first, behind = columns[0], width - columns[0]
        if self.parsed is None and self.divided is None and len(columns) == 1:
            if first < behind:
                return [record.split(self.separator, first + 1)[first] for record in self.records]
            return [record.rsplit(self.separator, behind)[-behind] for record in self.records]
        together = columns == tuple(range(first, first + len(columns)))
        pick = itemgetter(slice(first, first + len(columns))) if together else itemgetter(*columns)
        return [*chain.from_iterable(map(pick, self.all()))]
