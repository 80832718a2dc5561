"""Files of text whose records stand on lines: read by their numbers, and written so that they can go on."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nacre import DataError, Field, Writer
from nacre.files import Watched, check_file, os_errors, unchanged

from .errors import NeedsFields, NeedsShape
from .places import Beside, InPlace

CHUNK = 1 << 18
LONGEST = 1 << 24
"""Bytes of a record, at most: a file without ends of lines would be read into memory as a whole."""
NEWLINE, QUOTE = b'\n"'
ROWS = 256
"""Records that are parsed at a time."""
FILL = "write a value there, or say fill = NUMBER in the store, which then stands there"


class TextFile:
    """An open file of text. `scan` finds its records; then they are read by their numbers.

    Only the offset of each record stays in memory. Text that is not in UTF-8 is first copied into a temporary file that
    is. A byte order mark is left out.
    """

    def __init__(self, path: Path, encoding: str = "utf-8") -> None:
        check_file(path, "a file of text")
        self.path = path
        name = codecs.lookup(encoding).name
        with os_errors(path, "cannot be read", DataError):
            self.file: BinaryIO = path.open("rb") if name.startswith("utf-8") else _in_utf8(path, name)
            self.begin = 3 if self.file.read(3) == codecs.BOM_UTF8 else 0
        self.watched = Watched(self.file.fileno(), str(path))
        self.starts = np.zeros(1, np.int64)
        self.jumps = self.jump_lines = np.zeros(0, np.int64)

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    def scan(self, *, quotes: bool = False) -> Iterator[tuple[np.ndarray, list[str]]]:
        """Yield all records, some at a time, each with its line; afterwards they can be read. Empty lines are none.

        With `quotes`, the end of a line within quotes is part of the record.

        Raises:
            DataError: the text is not in its encoding, or has too long a record.
        """
        offset, line, count = self.begin, 1, 0
        starts, jumps, jump_lines = [self.starts[:0]], [self.jumps[:0]], [self.jumps[:0]]
        for part, ends in self._parts(quotes=quotes):
            self._check(part, line)
            begins = np.concatenate([np.zeros(1, np.intp), ends[:-1]])
            newlines = np.flatnonzero(np.frombuffer(part, np.uint8) == NEWLINE)
            lines = line + np.searchsorted(newlines, begins)
            records = _divided(part, [0, *ends.tolist()])
            if "" in records:
                real = np.array([bool(record) for record in records])
                begins, lines, records = begins[real], lines[real], [record for record in records if record]
            jump = np.flatnonzero(np.diff(lines, prepend=-1) != 1)
            starts.append(begins + offset)
            jumps.append(count + jump)
            jump_lines.append(lines[jump])
            offset, line, count = offset + len(part), line + len(newlines), count + len(lines)
            if records:
                yield lines, records
        self.starts = np.concatenate([*starts, np.array([offset])])
        self.jumps, self.jump_lines = np.concatenate(jumps), np.concatenate(jump_lines)

    def _parts(self, *, quotes: bool) -> Iterator[tuple[bytes, np.ndarray]]:
        """Yield the text in parts of whole records, each with the positions behind them."""
        rest = b""
        with os_errors(self.path, "cannot be read", DataError), self.watched.reading():
            self.file.seek(self.begin)
            while more := self.file.read(max(CHUNK, len(rest))):  # a long record is looked at a few times only
                rest += more
                ends = _ends(rest, quotes=quotes)
                if len(ends):
                    yield rest[: ends[-1]], ends
                    rest = rest[ends[-1] :]
                elif len(rest) > LONGEST:
                    begin = rest[:40].decode(errors="replace")
                    message = f"{self.path}: the record that begins with {begin!r} has more than {LONGEST >> 20} MiB"
                    raise DataError(message, "check the ends of the lines, and that every quote is closed")
            if rest:
                yield rest, np.array([len(rest)])

    def _check(self, part: bytes, line: int) -> None:
        try:
            part.decode()
        except UnicodeDecodeError as error:
            line += part.count(b"\n", 0, error.start)
            message = f"{self.path}: line {line} is not in UTF-8: it has the byte {part[error.start]:#x}"
            remedy = "say encoding = 'latin-1' or 'utf-16', or write UTF-8"
            raise NeedsFields(message, remedy, ["encoding"]) from error

    def skip_first(self) -> None:
        """Take the first record, which is a header, out of those that are read."""
        self.starts, self.jumps = self.starts[1:], self.jumps - 1

    def read(self, numbers: np.ndarray) -> list[str]:
        """Return the records of these numbers; those that follow each other are read in one call."""
        begins, ends = self.starts[numbers].tolist(), self.starts[numbers + 1].tolist()
        runs = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        parts: list[bytes] = []
        with os_errors(self.path, "cannot be read", DataError), self.watched.reading():
            for first, last in pairwise(runs if begins else ()):
                self.file.seek(begins[first])
                parts.append(self.file.read(ends[last - 1] - begins[first]))
        records: list[str] = []
        for part, (first, last) in zip(parts, pairwise(runs), strict=False):
            records += _divided(part, [begin - begins[first] for begin in (*begins[first:last], ends[last - 1])])
        return records

    def line(self, number: int) -> int:
        """Return the line in which a record begins."""
        jump = int(np.searchsorted(self.jumps, number, "right")) - 1
        return int(self.jump_lines[jump]) + number - int(self.jumps[jump])

    def close(self) -> None:
        self.file.close()


def _in_utf8(path: Path, encoding: str) -> BinaryIO:
    """Return a temporary file with the same text in UTF-8."""
    with os_errors(path, "cannot be copied into a temporary file in UTF-8", DataError), ExitStack() as stack:
        copy = stack.enter_context(tempfile.TemporaryFile())
        written = io.TextIOWrapper(copy, "utf-8", newline="")
        try:
            with unchanged(path), path.open(encoding=encoding, newline="") as text:
                shutil.copyfileobj(text, written)
        except UnicodeError as error:
            raise DataError(f"{path}: it is not in the encoding {encoding}: {error}") from error
        written.detach()
        copy.seek(0)
        stack.pop_all()
        return copy


def _divided(part: bytes, bounds: list[int]) -> list[str]:
    """Return the records between these positions, without the ends of their lines."""
    if part.count(b"\n") + (part[-1:] != b"\n") == len(bounds) - 1:  # every line is one, so that this is faster:
        lines = part.decode().removesuffix("\n").split("\n")
        return [line.rstrip("\r") for line in lines] if b"\r" in part else lines
    return [part[begin:end].rstrip(b"\r\n").decode() for begin, end in pairwise(bounds)]


def _ends(part: bytes, *, quotes: bool) -> np.ndarray:
    """Return the positions behind records: behind each newline, with `quotes` only behind those outside of quotes."""
    array = np.frombuffer(part, np.uint8)
    newlines = np.flatnonzero(array == NEWLINE)
    if quotes and b'"' in part:
        newlines = newlines[np.searchsorted(np.flatnonzero(array == QUOTE), newlines) % 2 == 0]
    return newlines + 1


class LinesWriter(Writer):
    """A file of text that grows: beside its place until it is complete, or with `append` in the file itself.

    In the file itself, what is flushed survives a crash, and `close(commit=False)` leaves what was there before.
    """

    def __init__(self, path: Path, fields: Mapping[str, Field], encoding: str = "utf-8", *, append: bool) -> None:
        for name, field in fields.items():
            if field.shape is None or field.codec:
                message = f"{path}: '{name}' differs in shape from record to record, or is not numbers"
                raise NeedsShape(message, "give all records one shape, or use a folder")
            if not prod(field.shape):
                raise DataError(f"{path}: the records of '{name}' have the shape {field.shape}, which holds no number")
            if field.classes and field.shape:
                message = f"{path}: '{name}' has classes, and records of shape {field.shape}, but a class is one text"
                raise DataError(message, "give each record one class, of shape ()")
            if self.writes_texts(field):
                check_different(path, name, field.classes)
        self.path = path
        self.fields = fields
        self.encoder = codecs.getincrementalencoder(encoding)()  # it writes a byte order mark only once
        self.place = InPlace(path) if append else Beside(path)
        self.file = self.place.stream
        self.size_before = self.place.start if isinstance(self.place, InPlace) else 0

    @staticmethod
    def writes_texts(field: Field) -> bool:
        """Return whether the names of a field's classes are written, and not only their numbers."""
        return bool(field.classes)

    def continues(self, begin: str) -> bool:
        """Return whether the file, which is not empty, begins with this text, and move to its end.

        Raises:
            DataError: its last line has no end.
        """
        with self.place.writing():
            self.file.seek(0)
            data = self.encoder.encode(begin)
            fits = self.file.read(len(data)) == data
            newline = self.encoder.encode("\n")
            self.file.seek(-min(len(newline), self.size_before), os.SEEK_END)
            if self.file.read() != newline:
                message = f"{self.path}: its last line has no end, so nothing can be appended: was its writing cut off?"
                raise DataError(message, "complete or remove that line")
        return fits

    def write(self, text: str) -> None:
        try:
            data = self.encoder.encode(text)
        except UnicodeEncodeError as error:
            sign = error.object[error.start]
            message = f"{self.path}: its encoding {error.encoding} has no {sign!r}"
            classes = (one for field in self.fields.values() for one in field.classes if sign in one)
            if name := next(classes, None):
                message = f"{message}, which is in the class {name[:80]!r}"
            half = "\ud800" <= sign <= "\udfff"  # it comes from a name that is not UTF-8, and no encoding has it
            remedy = f"rename the {'class' if name else 'record'}" if half else "write UTF-8"
            raise DataError(message, remedy) from error
        with self.place.writing():
            self.file.write(data)

    def finish(self) -> None:
        """Write what a complete file has besides its records; for subclasses."""

    def flush(self) -> None:
        self.place.flush()

    def close(self, commit: bool) -> None:
        if self.file.closed:
            return
        try:
            if commit:
                self.finish()
                self.place.commit()
        finally:
            self.place.drop()


def check_different(path: Path, name: str, classes: Sequence[str]) -> None:
    """Raise DataError if two classes of a field have one name, where that is all that is written of them."""
    if len({*classes}) < len(classes):
        twice = next(one for place, one in enumerate(classes) if one in classes[:place])
        message = f"{path}: '{name}' has two classes called {twice[:80]!r}, which would be read as one"
        raise DataError(message, "use a .h5 file, which numbers them, or rename one")


def class_names(path: Path, name: str, numbers: np.ndarray, texts: tuple[str, ...]) -> list[str]:
    """Return the name of the class of each record.

    Raises:
        DataError: a number counts no class.
    """
    wrong = np.flatnonzero((numbers < 0) | (numbers >= len(texts)))
    if len(wrong):
        number = numbers[wrong[0]]
        raise DataError(f"{path}: '{name}' is {number}, but there are {len(texts)} classes, counted from 0")
    return [texts[number] for number in numbers.astype(np.int64).tolist()]


def check_whole(path: Path, name: str, array: np.ndarray) -> None:
    """Raise DataError if a whole number is too large for int64, as which it would be read."""
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        message = f"{path}: '{name}' is {array.max()}, but whole numbers are read up to {np.iinfo(np.int64).max}"
        raise DataError(message, "use a .h5 or .npz file")
