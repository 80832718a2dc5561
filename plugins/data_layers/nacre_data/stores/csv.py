"""CSV and TSV: tables as text, one record a line, its cells separated by one character."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from nacre import DataError, Field, Reader, Store, Writer, class_order

from ..checks import checked_rows
from .cells import MISSING, NUMBER, SEPARATORS, TEXT, Cells, Rows, is_int64
from .columns import Table, check_groups, check_names, columns_of, groups_of, part_names
from .continued import NUMBERS, as_text, check_continued
from .continued import TEXT as CLASSES
from .errors import NeedsFields
from .lines import FILL, ROWS, LinesWriter, TextFile, check_whole, class_names
from .table_options import TableOptions

MOST_COLUMNS = 1 << 17  # of which Python keeps names and numbers
DECIMAL_COMMA = re.compile("[+-]?[0-9]+,[0-9]+")
EXACT, LONG = 1 << 53, 8  # whole numbers that float64 holds, and bytes of those that may be larger
FEW = 8  # columns that are looked for one after the other; for more each record is divided once
FILL_TEXTS = f"{FILL}; a missing text is then a class of its own"


class CSV(TableOptions, Store):
    """Tables as text (.csv, .tsv), with the quotes of RFC 4180; each line is a record.

    The columns of numbers are the field "data", float64, and the column `label` is the field "label"; other names that
    are wanted are those of columns, or mean these two, in this order. A column that is a field of its own is int64 if
    its cells are whole numbers, float64 if they are numbers, and counts classes if they are texts. Columns data.0,
    data.1, ... are one field, data. A first column without a name holds the names of the records, and is no data.
    """

    endings = (".csv", ".tsv")

    def missing_number(self) -> float | None:
        return self.fill

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        text = TextFile(path, self.encoding)
        try:
            return CSVReader(self, text, fields)
        except BaseException:
            text.close()
            raise

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        return CSVWriter(self, path, fields, append=append)


class CSVReader(Reader):
    """Records of one table; opening reads it once, for the places of the records, and for the kinds of columns."""

    def __init__(self, options: CSV, text: TextFile, wanted: Sequence[str]) -> None:
        self.text = text
        self.fill = options.fill
        self.cells = options.cells(text.path)
        self.width = 0
        self.table, has_header = self._begin(options)
        self.parts = self.table.fields(wanted)
        self.singles = {name: _Single(self, part.columns[0]) for name, part in self.parts.items() if not part.shape}
        self._scan(int(has_header))
        self.count: int | None = text.count
        self.fields: Mapping[str, Field] = {
            name: replace(
                self.singles[name].field() if name in self.singles else Field(part.shape, "float64"),
                columns=self.table.names_of(part),
                places=part.columns,
            )
            for name, part in self.parts.items()
        }
        self.numbers = {name: single.numbers() for name, single in self.singles.items()}
        self.rounded = False

    # What is where

    def _begin(self, options: CSV) -> tuple[Table, bool]:
        """Return what the first records say: what the table has, and whether it has a header."""
        records = (
            (int(line), record) for found in self.text.scan(quotes=True) for line, record in zip(*found, strict=True)
        )
        head = list(islice(records, 2))
        if not head:
            raise DataError(f"{self.text.path}: line 1: the table is empty")
        lines = [line for line, _ in head]
        try:
            rows = self._divided(head)
        except DataError as error:
            if other := self._other_separator(head):
                raise self._separator_error(head, other) from error
            raise
        if self.width > MOST_COLUMNS:
            message = f"{self.where(lines[0])} has {self.width:,} cells, but a table may have {MOST_COLUMNS:,}"
            raise DataError(message, "use a .npy or .h5 file")
        if self.width == 1 and (other := self._other_separator(head[:1])):
            raise self._separator_error(head, other)
        cells = rows.all()
        has_header = self._has_header(self.where(lines[0]), cells[0]) if options.header is None else options.header
        if has_header and len(cells) == 1:
            raise DataError(f"{self.where(lines[0])}: the table has a header, but no records")
        begin = int(has_header)
        firsts = self._first_values(lines[begin], cells[begin], chain(head[begin + 1 :], records))
        return Table(self.text.path, cells[0] if has_header else [], firsts, self.cells, options), has_header

    def _divided(self, records: Sequence[tuple[int, str]]) -> Rows:
        """Return records, each behind its line, as rows of the same width; that of the first sets it."""
        lines = [line for line, _ in records]
        rows = self._rows([record for _, record in records], lines.__getitem__)
        self.width = self.width or rows.widths()[0]
        self._check_widths(rows, lines)
        return rows

    def _first_values(self, line: int, row: Sequence[str], records: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return for each column the line and the cell of its first value, or of its first cell if it has none."""
        firsts = [(line, cell) for cell in row]
        missing = [column for column, cell in enumerate(row) if self.cells.kind(cell) == MISSING]
        while missing and (some := list(islice(records, ROWS))):
            rows = self._divided(some)
            if len(missing) > FEW:
                rows.all()
            for column in missing.copy():
                cells = zip(some, rows.cells((column,), self.width), strict=True)
                found = next(((line, cell) for (line, _), cell in cells if self.cells.kind(cell) != MISSING), None)
                if found:
                    firsts[column] = found
                    missing.remove(column)
        return firsts

    def _other_separator(self, records: Sequence[tuple[int, str]]) -> str:
        """Return what divides each of these records into as many cells, and more than one; "" if nothing does."""
        for sign in SEPARATORS:
            if sign not in (self.cells.separator, self.cells.decimal):
                try:
                    rows = list(csv.reader([record for _, record in records], delimiter=sign, strict=True))
                except csv.Error:
                    continue
                if len(rows[0]) > 1 and len({*map(len, rows)}) == 1:
                    return sign
        return ""

    def _separator_error(self, head: Sequence[tuple[int, str]], other: str) -> DataError:
        begin, sign = f"{self.where(head[0][0])} is {head[0][1][:40]!r}", self.cells.separator
        message = f"{begin}, whose cells seem to be divided by {other!r}, not by {sign!r}"
        cells = next(csv.reader([head[-1][1]], delimiter=other))
        commas = any(map(DECIMAL_COMMA.fullmatch, cells)) and self.cells.decimal == "."
        remedy = f"say separator = {other!r}" + (' and decimal = ","' if commas else "")
        remedy = f"{remedy}, or put each cell with {other!r} in it in quotes"
        return NeedsFields(message, remedy, ["separator", "decimal"] if commas else ["separator"])

    def _has_header(self, where: str, row: Sequence[str]) -> bool:
        found = {self.cells.kind(cell): cell[:40] for cell in row}
        if (NUMBER in found) == (TEXT in found):
            has = f"the text {found[TEXT]!r} and the number {found[NUMBER]!r}" if TEXT in found else "no values"
            message = f"{where} has {has}, so that it is not clear whether it is a header"
            raise NeedsFields(message, "say header = true or header = false", ["header"])
        return TEXT in found

    def _scan(self, header: int) -> None:
        """Look at all records behind the header, which has 1 or 0 lines."""
        skip = header
        for all_lines, records in self.text.scan(quotes=True):
            lines, skip, rows = all_lines[skip:].tolist(), 0, self._rows(records[skip:], all_lines[skip:].__getitem__)
            self._check_widths(rows, lines)
            if len(self.singles) > FEW:
                rows.all()
            for single in self.singles.values():
                single.look(rows.cells((single.column,), self.width), lines)
        if header:
            self.text.skip_first()

    def _rows(self, records: list[str], line: Callable[[int], int]) -> Rows:
        return Rows(records, self.cells.separator, lambda position: self.where(line(position)))

    def where(self, line: int) -> str:
        """Return what an error about a line begins with."""
        return f"{self.text.path}: line {line}"

    def _check_widths(self, rows: Rows, lines: Sequence[int]) -> None:
        widths = rows.widths()
        if widths.count(self.width) < len(widths):
            line, width = next((line, width) for line, width in zip(lines, widths, strict=True) if width != self.width)
            message = f"{self.where(line)} has {width} cells, but the first line has {self.width}"
            raise DataError(message, "complete the line; a cell with the separator in it must stand in quotes")

    # Records

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        for first in range(0, len(numbers), ROWS):
            some = slice(first, first + ROWS)
            self._read(numbers[some], {name: places[some] for name, places in out.items()})

    def _read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        rows = self._rows(self.text.read(numbers), lambda row: self.text.line(int(numbers[row])))
        if len(out) > FEW:
            rows.all()
        for name, places in out.items():
            columns = self.parts[name].columns
            if self.fields[name].classes:
                values = np.array([self.numbers[name][cell] for cell in rows.cells(columns, self.width)])
            elif self.fields[name].dtype == "int64":
                values = np.array([*map(int, rows.cells(columns, self.width))])
            else:
                values = self._values(rows, columns, numbers)
                if not self.rounded and (np.abs(values) >= EXACT).any():
                    self._tell_rounded(rows, columns, numbers)
            places[...] = values.reshape(places.shape)

    def _values(self, rows: Rows, columns: tuple[int, ...], numbers: np.ndarray) -> np.ndarray:
        whole = rows.divided is None or len(columns) * FEW > self.width  # NumPy divides each record anew
        values = rows.numbers(columns, self.width) if whole and self.cells.as_c else None
        if values is not None and not np.isnan(values).any():
            return values
        cells = rows.cells(columns, self.width)
        values = self.cells.numbers(cells, self.fill)
        if values is not None:
            return values
        wrong = {TEXT, MISSING} if self.fill is None else {TEXT}
        place, cell = next(pair for pair in enumerate(cells) if self.cells.kind(pair[1]) in wrong)
        line, column = self.text.line(int(numbers[place // len(columns)])), columns[place % len(columns)]
        if self.cells.kind(cell) == TEXT:
            raise self.table.no_number(line, column, cell)
        raise self.table.no_value(line, column, cell, FILL, ["fill"])

    def _tell_rounded(self, rows: Rows, columns: tuple[int, ...], numbers: np.ndarray) -> None:
        """Warn once of a whole number that is another one in float64."""
        for place, cell in enumerate(rows.cells(columns, self.width)):
            if is_int64(cell) and int(float(cell)) != int(cell):
                self.rounded = True
                where = self.where(self.text.line(int(numbers[place // len(columns)])))
                column = self.table.called(columns[place % len(columns)])
                kept = "a column of whole numbers that is wanted as a field of its own keeps them"
                warnings.warn(
                    f"{where}: {column} is {cell}, which float64 makes {int(float(cell))}; {kept}", stacklevel=2
                )
                return

    def key(self, number: int) -> str:
        return f"line {self.text.line(number)}"

    def close(self) -> None:
        self.text.close()


class _Single:
    """A column that is a field of its own; of which kind it is shows when all cells were looked at."""

    def __init__(self, reader: CSVReader, column: int) -> None:
        self.reader = reader
        self.column = column
        self.texts: set[str] = set()
        self.missing: set[str] = set()
        self.whole = True
        self.first: dict[str, tuple[int, str]] = {}
        """The line and the cell that were the first of each kind."""

    def look(self, cells: list[str], lines: Sequence[int]) -> None:
        for cell in dict.fromkeys(cells):
            if cell in self.texts:
                continue
            kind = self.reader.cells.kind(cell)
            if kind not in self.first:
                self.first[kind] = lines[cells.index(cell)], cell
                self._check()
            if kind == TEXT:
                self.texts.add(cell)
            elif kind == MISSING:
                self.missing.add(cell)
            elif not is_int64(cell):
                self.whole = False

    def _check(self) -> None:
        table = self.reader.table
        if MISSING in self.first and (self.column == table.label or self.reader.fill is None):
            line, cell = self.first[MISSING]
            remedy, fields = FILL_TEXTS, ["fill"]
            if self.column == table.label:
                remedy, fields = "remove the record; or take this out of `missing`, if it is a class", ["missing"]
            raise table.no_value(line, self.column, cell, remedy, fields)
        if TEXT in self.first and NUMBER in self.first:
            wrong = [(line, kind, cell) for kind, (line, cell) in self.first.items() if kind != MISSING]
            (other, before, first), (line, kind, cell) = wrong
            message = f"{self.reader.where(line)}: {table.called(self.column)} is {kind}, {cell[:40]!r}"
            raise DataError(f"{message}, but in line {other} it is {before}, {first[:40]!r}", "correct the table")

    def field(self) -> Field:
        """Return what the column holds."""
        if self.texts:
            return Field((), "int64", class_order(self._class_of(cell) for cell in (*self.texts, *self.missing)))
        return Field((), "int64" if self.whole and not self.missing else "float64")

    def numbers(self) -> dict[str, int]:
        """Return the number of the class of each cell; none if the column holds numbers."""
        known = {name: number for number, name in enumerate(self.field().classes)}
        return {cell: known[self._class_of(cell)] for cell in (*self.texts, *self.missing) if known}

    def _class_of(self, cell: str) -> str:
        return "" if cell in self.missing else cell


class CSVWriter(LinesWriter):
    """A table that grows. The names of records, if there are any, become a first column without a name.

    Columns have the names and the order that they had in another table; else those of their fields.
    """

    def __init__(self, options: CSV, path: Path, fields: Mapping[str, Field], *, append: bool) -> None:
        self.cells = options.cells(path)
        for name, field in fields.items():
            self._check_classes(f"{path}: the classes of '{name}'", field, self.cells, fills=options.fill is not None)
        self.has_header = options.header is not False
        self.names, self.order = columns_of(fields)
        check_names(path, self.names)
        if self.has_header and not (options.data or options.shape):
            in_order = [self.names[column] for column in self.order]
            check_groups(path, in_order, groups_of(in_order))
        for name in self.names if self.has_header else ():
            if not name or (options.header is None and self.cells.kind(name) != TEXT):
                message = f"{path}: a column cannot be called {name!r}, which would be read as something else"
                raise DataError(message, "rename the field, or use a .jsonl or .h5 file")
        super().__init__(path, fields, options.encoding, append=append)
        self.label = options.label
        self.with_keys: bool | None = None
        self.real = set[str]()
        """Columns of which a cell shows that they are not of whole numbers."""
        if self.size_before:
            try:
                self._check_first(options.encoding)
            except BaseException:
                self.close(commit=False)
                raise

    def _check_first(self, encoding: str) -> None:
        """Check that a file that is continued has these columns, and such cells in its first record."""
        with closing(TextFile(self.path, encoding)) as text:
            records = [*islice(chain.from_iterable(some for _, some in text.scan(quotes=True)), 2)]
        rows = Rows(records, self.cells.separator, lambda place: f"{self.path}: record {place}").all()
        names = [self.names[column] for column in self.order]
        if self.has_header and rows[:1] not in ([names], [["", *names]]):
            raise self._other_begin(names)
        for row in rows[int(self.has_header) :][:1]:
            if len(row) not in (len(names), len(names) + 1):
                raise self._other_begin(names)
            kinds = [
                as_text(Field((), field.dtype, field.classes if _are_texts(field) else ()))
                for name, field in self.fields.items()
                for _ in part_names(name, field.shape or ())
            ]
            mine = {self.names[column]: kinds[column] for column in self.order}
            cells = zip(mine.items(), row[-len(names) :], strict=True)
            check_continued(self.path, {name: self._kept(field, cell) for (name, field), cell in cells}, mine)

    def _kept(self, field: Field, cell: str) -> Field:
        """Return what a cell holds; a missing one says nothing, and is taken for what the field holds."""
        kind = self.cells.kind(cell)
        if kind == MISSING:
            return field
        return Field((), CLASSES if kind == TEXT else NUMBERS)

    def _other_begin(self, names: Sequence[str]) -> DataError:
        begin = self.cells.separator.join(names)[:80]
        message = f"{self.path}: it begins with another line than {begin!r}, so that nothing can be appended"
        return DataError(message, "use another name")

    @staticmethod
    def _check_classes(where: str, field: Field, cells: Cells, *, fills: bool) -> None:
        if not _are_texts(field):
            return  # read as numbers, they are the same
        # a class without letters is read as a missing value, for which `fill` makes a class
        odd = [one for one in field.classes if (cells.kind(one) != TEXT and (one or not fills)) or "\r" in one]
        if odd:
            message = f"{where} cannot be written: {odd[0][:40]!r} would be read as something else"
            raise DataError(message, "use a .jsonl or .h5 file")

    @staticmethod
    def writes_texts(field: Field) -> bool:
        return _are_texts(field)

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        checked = checked_rows(self.path, self.fields, rows)
        if not len(next(iter(checked.values()))):
            return
        parts = [self._texts(name, array) for name, array in checked.items()]
        if self.with_keys is None:
            self._begin(with_keys=bool(keys))
        if self.with_keys != bool(keys):
            message = f"{self.path}: names of records are{'' if keys else ' not'} given, but the first records came"
            raise DataError(f"{message} {'with' if self.with_keys else 'without'} them", "name all, or none")
        table = [[*chain.from_iterable(row)] for row in zip(*parts, strict=True)]
        if self.order != sorted(self.order):
            table = [[row[column] for column in self.order] for row in table]
        self.write(self._text([[key, *row] for key, row in zip(keys, table, strict=True)] if keys else table))

    def _texts(self, name: str, array: np.ndarray) -> list[list[str]]:
        """Return for each record what stands in the columns of a field."""
        classes = self.fields[name].classes
        if classes:
            return [[text] for text in class_names(self.path, name, array, classes)]
        check_whole(self.path, name, array)
        self._check_kept(name, array)
        array = array.reshape(len(array), -1)
        texts = (array.astype(np.uint8) if array.dtype.kind == "b" else array).astype(str).tolist()
        if array.dtype.kind != "f":
            return texts
        texts = [[text.removesuffix(".0") for text in row] for row in texts]
        if not self.fields[name].shape and name not in self.real:
            self.real.add(name)
            if all(text.removeprefix("-").isdecimal() for (text,) in texts):
                texts[0][0] += ".0"  # else the column would be read as one of whole numbers
        return [[text.replace(".", ",") for text in row] for row in texts] if self.cells.decimal == "," else texts

    def _check_kept(self, name: str, array: np.ndarray) -> None:
        """Raise DataError for a number that would be another one when it is read."""
        if array.dtype.kind in "iu" and self.fields[name].shape:  # columns of one field are read as float64
            large = array[(array > EXACT) | (array < -EXACT)].tolist() if array.dtype.itemsize == LONG else []
            if wrong := next((number for number in large if int(float(number)) != number), None):
                message = (
                    f"{self.path}: '{name}' is {wrong}, but whole numbers of several columns are read up to {EXACT}"
                )
                raise DataError(message, "use a .jsonl, .npz or .h5 file")
        if name == self.label and array.dtype.kind == "f" and np.isnan(array).any():
            message = f"{self.path}: '{name}' is NaN, which would be read as a label that is missing"
            raise DataError(message, "use a .npz or .h5 file")

    def _begin(self, *, with_keys: bool) -> None:
        """Write the header; a file that is continued has it already."""
        self.with_keys = with_keys
        names = [self.names[column] for column in self.order]
        header = self._text([["", *names] if with_keys else names] if self.has_header else [])
        if not self.size_before:
            self.write(header)
        elif not self.continues(header):
            raise self._other_begin(["", *names] if with_keys else names)

    def _text(self, rows: Iterable[Sequence[str]]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self.cells.separator, lineterminator="\n").writerows(rows)
        return text.getvalue()

    def finish(self) -> None:
        if self.with_keys is None and not self.size_before:
            self._begin(with_keys=False)


def _are_texts(field: Field) -> bool:
    """Return whether a table has texts for the classes of a field, not only their numbers."""
    return bool(field.classes) and field.classes != tuple(map(str, range(len(field.classes))))
