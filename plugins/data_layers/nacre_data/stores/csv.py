"""CSV and TSV: tables as text, one record a line, its cells separated by one character."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from nacre import DataError, Field, Reader, Store, Writer, class_order

from .cells import MISSING, NUMBER, SEPARATORS, TEXT, Cells, Rows, is_int64
from .columns import Table, check_names, part_names
from .lines import FILL, ROWS, LinesWriter, TextFile, class_names
from .table_options import TableOptions

MOST_COLUMNS = 1 << 17  # of which Python keeps names and numbers


class CSV(TableOptions, Store):
    """Tables as text (.csv, .tsv), with the quotes of RFC 4180; each line is a record.

    The columns of numbers are the field "data", float64, and the column `label` is the field "label"; other names that
    are wanted are those of columns, or mean these two, in this order. A column that is a field of its own is int64 if
    its cells are whole numbers, float64 if they are numbers, and counts classes if they are texts. Columns data.0,
    data.1, ... are one field, data. A first column without a name holds the names of the records, and is no data.
    """

    endings = (".csv", ".tsv")

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        text = TextFile(path, self.encoding)
        try:
            return CSVReader(self, text, fields)
        except BaseException:
            text.close()
            raise

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        return CSVWriter(self.cells(path), path, fields, self.encoding, append=append)


class CSVReader(Reader):
    """Records of one table; opening reads it once, for the places of the records, and for the kinds of columns."""

    def __init__(self, options: CSV, text: TextFile, wanted: Sequence[str]) -> None:
        self.text = text
        self.fill = options.fill
        self.cells = options.cells(text.path)
        self.table, has_header = self._begin(options)
        self.parts = self.table.fields(wanted)
        self.singles = {name: _Single(self, part.columns[0]) for name, part in self.parts.items() if not part.shape}
        self._scan(int(has_header))
        self.count: int | None = text.count
        self.fields: Mapping[str, Field] = {
            name: self.singles[name].field() if name in self.singles else Field(part.shape, "float64")
            for name, part in self.parts.items()
        }
        self.numbers = {
            name: {text: number for number, text in enumerate(field.classes)} for name, field in self.fields.items()
        }

    # What is where

    def _begin(self, options: CSV) -> tuple[Table, bool]:
        """Return what the first two lines say: what the table has, and whether it has a header."""
        scanned = self.text.scan(quotes=True)
        head = list(islice((pair for found in scanned for pair in zip(*found, strict=True)), 2))
        if not head:
            raise DataError(f"{self.text.path}: line 1: the table is empty")
        lines = [int(line) for line, _ in head]
        found = self._rows([record for _, record in head], lines.__getitem__)
        self.width = found.widths()[0]
        self._check_widths(found, lines)
        rows = found.all()
        where = self.where(lines[0])
        if self.width > MOST_COLUMNS:
            message = f"{where} has {self.width:,} cells, but a table may have {MOST_COLUMNS:,}"
            raise DataError(message, "use a .npy or .h5 file")
        if self.width == 1 and (other := self._other_separator(head[0][1])):
            message = f"{where} is one column, {rows[0][0][:40]!r}, but there is {other!r} in it"
            raise DataError(message, f"say separator = {other!r}, or put the cell in quotes")
        has_header = self._has_header(where, rows[0]) if options.header is None else options.header
        if has_header and len(rows) == 1:
            raise DataError(f"{where}: the table has a header, but no records")
        names, line, first = (rows[0], lines[1], rows[1]) if has_header else ([], lines[0], rows[0])
        return Table(self.text.path, names, line, first, self.cells, options), has_header

    def _other_separator(self, record: str) -> str:
        other = [sign for sign in SEPARATORS if sign in record and sign != self.cells.decimal]
        return other[0] if other and not record.startswith('"') else ""

    def _has_header(self, where: str, row: Sequence[str]) -> bool:
        found = {self.cells.kind(cell): cell[:40] for cell in row}
        if (NUMBER in found) == (TEXT in found):
            has = f"the text {found[TEXT]!r} and the number {found[NUMBER]!r}" if TEXT in found else "no values"
            message = f"{where} has {has}, so that it is not clear whether it is a header"
            raise DataError(message, "say header = true or header = false")
        return TEXT in found

    def _scan(self, header: int) -> None:
        """Look at all records behind the header, which has 1 or 0 lines."""
        skip = header
        for all_lines, records in self.text.scan(quotes=True):
            lines, skip, rows = all_lines[skip:].tolist(), 0, self._rows(records[skip:], all_lines[skip:].__getitem__)
            self._check_widths(rows, lines)
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
        for name, places in out.items():
            columns = self.parts[name].columns
            if self.numbers[name]:
                values = np.array([self.numbers[name][cell] for cell in rows.cells(columns, self.width)])
            elif self.fields[name].dtype == "int64":
                values = np.array([*map(int, rows.cells(columns, self.width))])
            else:
                values = self._values(rows, columns, numbers)
            places[...] = values.reshape(places.shape)

    def _values(self, rows: Rows, columns: tuple[int, ...], numbers: np.ndarray) -> np.ndarray:
        values = rows.numbers(columns, self.width) if self.cells.as_c else None
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
        raise self.table.no_value(line, column, cell, FILL)

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
            elif not is_int64(cell):
                self.whole = False

    def _check(self) -> None:
        table = self.reader.table
        if MISSING in self.first and (TEXT in self.first or self.column == table.label or self.reader.fill is None):
            line, cell = self.first[MISSING]
            is_class = TEXT in self.first or self.column == table.label
            remedy = "remove the record; or take this out of `missing`, if it is a class" if is_class else FILL
            raise table.no_value(line, self.column, cell, remedy)
        if TEXT in self.first and NUMBER in self.first:
            (before, (other, first)), (kind, (line, cell)) = self.first.items()
            message = f"{self.reader.where(line)}: {table.called(self.column)} is {kind}, {cell[:40]!r}"
            raise DataError(f"{message}, but in line {other} it is {before}, {first[:40]!r}", "correct the table")

    def field(self) -> Field:
        """Return what the column holds."""
        if self.texts:
            return Field((), "int64", class_order(self.texts))
        return Field((), "int64" if self.whole else "float64")


class CSVWriter(LinesWriter):
    """A table that grows. The names of records, if there are any, become a first column without a name."""

    def __init__(self, cells: Cells, path: Path, fields: Mapping[str, Field], encoding: str, *, append: bool) -> None:
        for name, field in fields.items():
            self._check_classes(f"{path}: the classes of '{name}'", field, cells)
        self.names = [part for name, field in fields.items() for part in part_names(name, field.shape or ())]
        check_names(path, self.names)
        super().__init__(path, fields, encoding, append=append)
        self.cells = cells
        self.with_keys: bool | None = None

    @staticmethod
    def _check_classes(where: str, field: Field, cells: Cells) -> None:
        if field.classes == tuple(map(str, range(len(field.classes)))):
            return  # read as numbers, they are the same
        if odd := [one for one in field.classes if cells.kind(one) != TEXT or "\r" in one]:
            message = f"{where} cannot be written: {odd[0][:40]!r} would be read as something else"
            raise DataError(message, "use a .jsonl or .h5 file")

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        if not len(next(iter(rows.values()))):
            return
        parts = [self._texts(name, np.asarray(rows[name])) for name in self.fields]
        if self.with_keys is None:
            self._begin(with_keys=bool(keys))
        if self.with_keys != bool(keys):
            message = f"{self.path}: names of records are{'' if keys else ' not'} given, but the first records came"
            raise DataError(f"{message} {'with' if self.with_keys else 'without'} them", "name all, or none")
        if keys:
            parts.insert(0, [[key] for key in keys])
        self.write(self._text([*chain.from_iterable(row)] for row in zip(*parts, strict=True)))

    def _texts(self, name: str, array: np.ndarray) -> list[list[str]]:
        """Return for each record what stands in the columns of a field."""
        classes = self.fields[name].classes
        if classes:
            return [[text] for text in class_names(self.path, name, array, classes)]
        array = array.reshape(len(array), -1)
        texts = (array.astype(np.uint8) if array.dtype.kind == "b" else array).astype(str).tolist()
        if self.cells.decimal == "," and array.dtype.kind == "f":
            return [[text.replace(".", ",") for text in row] for row in texts]
        return texts

    def _begin(self, *, with_keys: bool) -> None:
        """Write the header; a file that is continued has it already."""
        self.with_keys = with_keys
        header = self._text([["", *self.names] if with_keys else self.names])
        if not self.size_before:
            self.write(header)
        elif not self.continues(header):
            message = f"{self.path}: it begins with another line than {header[:80].strip()!r}"
            raise DataError(f"{message}, so that nothing can be appended", "use another name")

    def _text(self, rows: Iterable[Sequence[str]]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self.cells.separator, lineterminator="\n").writerows(rows)
        return text.getvalue()

    def finish(self) -> None:
        if self.with_keys is None and not self.size_before:
            self._begin(with_keys=False)
