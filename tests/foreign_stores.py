"""Stores and a codec as another distribution would bring them; the records are lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacre import Codec, DataError, Field, Reader, Store, Writer
from nacre.files import NewFile, check_file


class Lines(Store):
    """A first line with the fields, and one for each record, with its name."""

    endings = (".lines",)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        check_file(path, "a file of lines")
        return LinesReader(path, fields)

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        return LinesWriter(path, fields)


class LinesReader(Reader):
    def __init__(self, path: Path, wanted: Sequence[str]) -> None:
        head, *self.lines = path.read_text("utf-8").splitlines()
        known = {
            name: Field(tuple(shape), dtype, tuple(names)) for name, (shape, dtype, names) in json.loads(head).items()
        }
        self.path = path
        self.count: int | None = len(self.lines)
        self.named = any('"key": ""' not in line for line in self.lines)
        self.fields: Mapping[str, Field] = {name: known[name] for name in wanted or known if name in known}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        for row, number in enumerate(numbers.tolist()):
            for name, places in out.items():
                places[row] = self.record(number)[name]

    def record(self, number: int) -> dict[str, Any]:
        try:
            return json.loads(self.lines[number])
        except ValueError as error:
            raise DataError(f"{self.path}: {self.key(number)}: this is not JSON") from error

    def key(self, number: int) -> str:
        try:
            return json.loads(self.lines[number])["key"] or f"record {number}"
        except ValueError:
            return f"record {number}"


class LinesWriter(Writer):
    def __init__(self, path: Path, fields: Mapping[str, Field]) -> None:
        self.new = NewFile(path, DataError)
        self.lines = [{name: (field.shape, field.dtype, field.classes) for name, field in fields.items()}]

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        for row in range(len(next(iter(rows.values())))):
            record = {name: values[row].tolist() for name, values in rows.items()}
            self.lines.append({**record, "key": keys[row] if keys else ""})

    def close(self, commit: bool) -> None:
        if commit:
            self.new.temporary.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines), "utf-8")
            self.new.commit()
        self.new.drop()


class Stream(Lines):
    """The same lines, but nobody knows how many they are before they are read."""

    endings = (".stream",)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        reader = StreamReader(path, fields)
        reader.count = None
        return reader


class StreamReader(LinesReader):
    def rows(self, start: int = 0) -> Iterator[Mapping[str, Any]]:
        for number in range(start, len(self.lines)):
            yield {name: np.asarray(self.record(number)[name], field.dtype) for name, field in self.fields.items()}


class Packets(Store):
    """Only read: each line is a record of one field, whose numbers a codec unpacks."""

    endings = (".packets",)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        check_file(path, "a file of packets")
        return PacketsReader(path, (fields or ("data",))[0])


class PacketsReader(Reader):
    def __init__(self, path: Path, name: str) -> None:
        self.lines = path.read_bytes().splitlines()
        self.count: int | None = len(self.lines)
        self.fields: Mapping[str, Field] = {name: Field(None, "uint8", codec="Digits")}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        for places in out.values():
            for row, number in enumerate(numbers.tolist()):
                places[row] = self.lines[number]


class Digits(Codec):
    """Decimal digits, as a picture of one row."""

    def describe(self, data: bytes) -> Mapping[str, Field]:
        return {"digits": Field(self.decode(data, {})["digits"].shape, "uint8")}

    def decode(self, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, np.ndarray]:
        if not data.isdigit():
            raise DataError(f"{data!r} has no digits")
        digits = np.frombuffer(data, np.uint8) - ord("0")
        return {"digits": np.resize(digits, shapes.get("digits", (1, 1, len(data))))}


OFFERED = [
    *[("store", one.__name__, one) for one in (Lines, Stream, Packets)],
    ("codec", "Digits", Digits),
]
