"""JSON lines: one object a line, its numbers, lists of numbers and texts by name."""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nacre import DataError, Field, Reader, Store, Writer, class_order, nearest

from ..checks import checked_rows
from .continued import TEXT, as_text, check_continued
from .errors import NeedsFields
from .lines import FILL, LONGEST, ROWS, LinesWriter, TextFile, check_whole, class_names
from .pipe import Pipe, is_pipe
from .places import InPlace

KEY = "key"
"""What the name of a record is called."""
LETTERS = "U"
"""NumPy's kind of texts."""
NUMBERS = {bool, int, float, type(None)}
AXES = 32
"""Lists in lists, at most: more than that, and NumPy has no array for them."""


class JSONLines(Store):
    """Objects of JSON, one on each line (.jsonl, .ndjson), in UTF-8: each field is a number, a list of them, or a text.

    Lists may hold lists; all records have the same fields and shapes. Booleans become bool, whole numbers int64, others
    float64. A field of texts counts classes. A text that is called "key" names the record, and is no field unless it is
    wanted.

    From a pipe, such as /dev/stdin, records come one after the other. Their fields, of numbers only, are those of the
    first one.
    """

    endings = (".jsonl", ".ndjson")

    fill: Annotated[float | None, "the number for null and NaN; without it, they are errors"] = None

    def missing_number(self) -> float | None:
        return self.fill

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        file = Pipe(path) if is_pipe(path) else TextFile(path)
        try:
            if isinstance(file, Pipe):
                return JSONPipeReader(file, fields, self.fill)
            return JSONLinesReader(file, fields, self.fill)
        except BaseException:
            file.close()
            raise

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        return JSONLinesWriter(path, fields, append=append)


class _Records(Reader):
    """Records of one file, or of a pipe, whose fields are those that the first one has."""

    def __init__(self, path: Path, wanted: Sequence[str], fill: float | None) -> None:
        self.path = path
        self.wanted = wanted
        self.fill = fill
        self.seen: dict[str, _Seen] = {}

    def look(self, content: str, line: int) -> dict[str, Any]:
        """Return the record in a line; it is checked, and noted what its fields are."""
        record = parsed(content, f"{self.path}: line {line}")
        if not self.seen:
            names = self.wanted or [name for name, value in record.items() if not _is_key(name, value)]
            self.seen = {name: _Seen(self.fill) for name in names}
        if not self.seen:
            raise DataError(f"{self.path}: line {line} has no fields")
        for name, seen in self.seen.items():
            if name not in record:
                known = ", ".join(list(record)[:20])
                message = f"{self.path}: line {line} has no field {name!r}{nearest(name, record)}"
                raise DataError(f"{message}; it has: {known or 'none'}")
            try:
                seen.look(record[name], line)
            except DataError as error:
                raise error.reworded(f"{self.path}: line {line}: {name!r} {error.args[0]}") from error
        if not self.wanted and len(record) > len(self.seen):
            for name, value in record.items():
                if name not in self.seen and not _is_key(name, value):
                    message = f"{self.path}: line {line} has the field {name!r}, but the first record has not"
                    raise DataError(message, "give all records the same fields, or name those that are wanted")
        return record

    def array(self, name: str, values: Any) -> np.ndarray:
        """Return the numbers of a field, of one record or of several."""
        array = np.array(values, self.fields[name].dtype)  # makes NaN of null
        if self.seen[name].missing:
            array[np.isnan(array)] = self.fill
        return array


class JSONLinesReader(_Records):
    """Records of one file; opening reads it once, for the types, shapes and classes of the fields."""

    def __init__(self, text: TextFile, wanted: Sequence[str], fill: float | None) -> None:
        super().__init__(text.path, wanted, fill)
        self.text = text
        for lines, records in text.scan():
            for line, record in zip(lines.tolist(), records, strict=True):
                self.look(record, line)
        self.count: int | None = text.count
        if not self.count:
            raise DataError(f"{text.path}: line 1: the file has no records")
        self.fields: Mapping[str, Field] = {name: seen.field() for name, seen in self.seen.items()}
        self.numbers = {
            name: {text: number for number, text in enumerate(field.classes)} for name, field in self.fields.items()
        }

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        for first in range(0, len(numbers), ROWS):
            some = slice(first, first + ROWS)
            records = [DECODER.decode(record) for record in self.text.read(numbers[some])]
            for name, places in out.items():
                values, known = [record[name] for record in records], self.numbers[name]
                places[some] = [known[value] for value in values] if known else self.array(name, values)

    def key(self, number: int) -> str:
        return f"line {self.text.line(number)}"

    def close(self) -> None:
        self.text.close()


class JSONPipeReader(_Records):
    """Records of a pipe, one after the other; opening waits for the first one, which says what the fields are."""

    def __init__(self, pipe: Pipe, wanted: Sequence[str], fill: float | None) -> None:
        super().__init__(pipe.path, wanted, fill)
        self.count: int | None = None
        self.pipe = pipe
        self.records = self._records(io.BufferedReader(pipe))
        self.first = list(islice(self.records, 1))
        if not self.first:
            raise DataError(f"{pipe.path}: line 1: there are no records")
        self.fields: Mapping[str, Field] = {name: seen.field() for name, seen in self.seen.items()}
        self.whole = [name for name, field in self.fields.items() if field.dtype == "int64"]
        for name, seen in self.seen.items():
            if seen.texts:
                message = f"{pipe.path}: {name!r} is text, whose classes are known only when all records have come"
                raise DataError(message, "give numbers, name the fields that are wanted, or write a file first")

    def _records(self, file: io.BufferedReader) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the line of each record, and the record."""
        for line, content in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
            if len(content) > LONGEST:
                raise DataError(
                    f"{self.path}: line {line} has more than {LONGEST >> 20} MiB", "check the ends of lines"
                )
            try:
                text = content.decode("utf-8-sig").strip()
            except UnicodeDecodeError as error:
                message = f"{self.path}: line {line} is not in UTF-8: it has the byte {content[error.start]:#x}"
                raise DataError(message, "write UTF-8") from error
            if text:
                yield line, self.look(text, line)

    def rows(self, start: int = 0) -> Iterator[Mapping[str, Any]]:
        if not self.first:
            message = f"{self.path}: its records came already, and come only once"
            raise DataError(message, "write them into a file first, as nacre data convert does")
        first, self.first = self.first, []
        return self._rows(chain(first, self.records), start)

    def _rows(self, records: Iterator[tuple[int, dict[str, Any]]], start: int) -> Iterator[Mapping[str, Any]]:
        for line, record in islice(records, start, None):
            for name in self.whole:
                if "f" in self.seen[name].kinds:
                    message = f"{self.path}: line {line}: {name!r} is {_brief(record[name])}, but all before are whole"
                    raise DataError(message, "write a point into the first number too, as in 1.0")
            yield {name: self.array(name, record[name]) for name in self.fields}

    def interrupt(self) -> None:
        self.pipe.interrupt()

    def close(self) -> None:
        self.pipe.close()


def _is_key(name: str, value: Any) -> bool:
    return name == KEY and type(value) is str


class _Seen:
    """What the values of a field were so far: NumPy's kinds of types, texts, and the first value."""

    def __init__(self, fill: float | None) -> None:
        self.fill = fill
        self.kinds: set[str] = set()
        self.shape: tuple[int, ...] = ()
        self.texts: set[str] = set()
        self.missing = False
        self.line = 0
        self.value: Any = None

    def look(self, value: Any, line: int) -> None:
        """Check a value.

        Raises:
            DataError: it is no number, or does not fit those before; the message does not say where it is.
        """
        kind, shape = (LETTERS, ()) if type(value) is str else self._numbers(value)
        if not self.kinds:
            self.shape, self.line, self.value = shape, line, value
        self.kinds.add(kind)
        if shape != self.shape or (len(self.kinds) > 1 and self.kinds != {"i", "f"}):
            message = f"is {_brief(value)}, but in line {self.line} it is {_brief(self.value)}"
            raise DataError(message, "give all records one type and one shape")
        if kind == LETTERS:
            self.texts.add(value)

    def _numbers(self, value: Any) -> tuple[str, tuple[int, ...]]:
        """Return the kind and the shape of a number, or of a list of numbers."""
        try:  # for each text in a list, NumPy would make as much room as for the longest
            array = np.array(() if _has_texts(value) else value)
            if array.dtype.kind == "O" and type(None) in (types := set(map(type, array.flat))) and types <= NUMBERS:
                array = array.astype(np.float64)  # with NaN for null
        except (ValueError, OverflowError) as error:
            message = f"is {_brief(value)}: its lists differ in length, or go deeper than {AXES}"
            raise DataError(message, "give all rows one length") from error
        if array.dtype.kind not in "bif" or not array.size or array.ndim > AXES:
            message = f"is {_brief(value)}, which is no number of 64 bits, no list of them, and no text"
            raise DataError(message, "correct the record, or name the fields that are wanted")
        if array.dtype.kind == "f" and np.isnan(array).any():
            self.missing = True
            if self.fill is None:
                raise NeedsFields(f"is {_brief(value)}, and a missing value cannot be used", FILL, ["fill"])
        return array.dtype.kind, array.shape

    def field(self) -> Field:
        """Return what the field holds."""
        if self.texts:
            return Field((), "int64", class_order(self.texts))
        return Field(self.shape, "float64" if "f" in self.kinds else "int64" if "i" in self.kinds else "bool")


def _has_texts(value: Any, deep: int = AXES) -> bool:
    """Return whether there is a text in a list, or in the lists in it."""
    kinds = set(map(type, value)) if type(value) is list else ()
    return str in kinds or (deep > 0 and list in kinds and any(_has_texts(one, deep - 1) for one in value))


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}..."


# JSON


class _Refused(ValueError):
    """An object that has a key twice, of which Python would take the last."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Refused(next(name for name in names if names.count(name) > 1))
    return made


DECODER = json.JSONDecoder(object_pairs_hook=_object)


def parsed(content: str, where: str) -> dict[str, Any]:
    """Return the object in a line; raise DataError, which begins with `where`, if there is none."""
    try:
        record = DECODER.decode(content)
    except _Refused as error:
        raise DataError(f"{where} has the field {str(error)[:40]!r} twice", "remove one of them") from error
    except json.JSONDecodeError as error:
        message = f"{where} is not JSON: at character {error.pos + 1}: {error.msg}"
        raise DataError(message, "write one whole object on each line") from error
    except (RecursionError, ValueError) as error:  # Python reads no whole numbers of more than 4300 digits
        raise DataError(f"{where} cannot be read: {error}") from error
    if not isinstance(record, dict):
        example = '{"data": [0.5], "label": 1}'
        raise DataError(f"{where} is {_brief(record)}, which is not an object", f"write lines such as {example}")
    if "\\ud" in content or "\\uD" in content:
        _check_texts(record, where)
    return record


def _check_texts(record: Any, where: str) -> None:
    """Refuse halves of characters, which Python's texts can hold, but no file in UTF-8."""
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise DataError(f"{where} has {half}, which is half a character", "write both halves, or the letter") from error


class JSONLinesWriter(LinesWriter):
    """A file of lines that grows. The names of records, if there are any, become the field "key".

    A last record that a killed writer left unfinished is cut off, with a warning.
    """

    def __init__(self, path: Path, fields: Mapping[str, Field], *, append: bool) -> None:
        if KEY in fields:
            raise DataError(f"{path}: no field can be called {KEY!r}, which is for the names of records", "rename it")
        super().__init__(path, fields, append=append)
        if isinstance(self.place, InPlace) and self.size_before:
            try:
                self._end_last(self.place)
                if self.size_before:
                    self._check_first()
            except BaseException:
                self.close(commit=False)
                raise

    def _end_last(self, place: InPlace) -> None:
        """Complete the last line of a file that is continued: end it, or cut off what is no whole record."""
        with place.writing():
            self.file.seek(max(0, self.size_before - LONGEST))
            last = self.file.read().rpartition(b"\n")[2]
            if not last:
                return
            try:
                parsed(last.decode("utf-8-sig", "replace"), "")
            except DataError:
                self.size_before -= len(last)
                warnings.warn(f"{self.path}: its last record is cut; its {len(last):,} bytes are cut off", stacklevel=6)
                place.cut(self.size_before)
            else:
                self.file.write(b"\n")

    def _check_first(self) -> None:
        """Check that a file that is continued has these fields."""
        self.continues("")
        self.file.seek(0)
        first = self.file.readline(LONGEST).decode("utf-8-sig", "replace").strip()
        records = _Records(self.path, (), 0.0)
        records.look(first, 1)
        before = {
            name: Field(seen.shape, TEXT) if seen.texts else as_text(seen.field(), "bool")
            for name, seen in records.seen.items()
        }
        check_continued(self.path, before, {name: as_text(field, "bool") for name, field in self.fields.items()})
        self.file.seek(0, os.SEEK_END)

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        columns = {KEY: list(keys)} if keys else {}
        for name, array in checked_rows(self.path, self.fields, rows).items():
            field = self.fields[name]
            check_whole(self.path, name, array)
            columns[name] = class_names(self.path, name, array, field.classes) if field.classes else _values(array)
        try:
            lines = [
                json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, allow_nan=False)
                for row in zip(*columns.values(), strict=True)
            ]
        except ValueError as error:
            raise DataError(f"{self.path}: JSON has no infinite numbers", "use a .csv or .h5 file") from error
        self.write("".join(f"{line}\n" for line in lines))


def _values(array: np.ndarray) -> list[Any]:
    """Return numbers as Python has them: with the digits that they have in their own type, and None for NaN."""
    if array.dtype.kind != "f":
        return array.tolist()
    values = array.astype(str).astype(np.float64).astype(object)
    values[np.isnan(array)] = None
    return values.tolist()
