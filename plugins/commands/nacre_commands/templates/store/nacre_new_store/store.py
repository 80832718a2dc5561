"""NewName: files of records, each of them so many numbers of four bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacre import DataError, Field, Reader, Store, Writer
from nacre.files import NewFile, check_file, os_errors

HEAD = struct.Struct("<8sqq")  # MAGIC, the number of records, and the numbers in each
MAGIC = b"NewName".ljust(8)[:8]


class NewName(Store):
    """Numbers of four bytes (.newname), behind a head that says how many records there are, and how long."""

    endings = (".newname",)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        """Open a file, which holds one field; it has the name that is wanted."""
        check_file(path, "a .newname file")
        if len(fields) > 1:
            raise DataError(f"{path}: there is no field '{fields[1]}': a .newname file holds one field")
        return NewNameReader(path, *fields or ("data",))

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        """Begin a file for records of one field."""
        if append or len(fields) > 1:
            raise DataError(f"{path}: a .newname file holds one field, and is not continued", "write another one")
        return NewNameWriter(path, *fields.items())


class NewNameReader(Reader):
    """The records of a file, all in memory."""

    def __init__(self, path: Path, name: str) -> None:
        with os_errors(path, "cannot be read", DataError):
            data = path.read_bytes()
        magic, count, size = HEAD.unpack(data[: HEAD.size].ljust(HEAD.size, b"\0"))
        if magic != MAGIC or count < 0 or size <= 0 or len(data) != HEAD.size + 4 * count * size:
            raise DataError(f"{path}: this is not a whole .newname file", "write it again, or restore it")
        self.numbers = np.frombuffer(data, "<f4", offset=HEAD.size).reshape(count, size)
        self.count: int | None = count
        self.fields: Mapping[str, Field] = {name: Field((size,), "float32")}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        """Write the records of these numbers into the arrays."""
        for array in out.values():
            array[...] = self.numbers[numbers]


class NewNameWriter(Writer):
    """A file that gets its name when it is complete."""

    def __init__(self, path: Path, field: tuple[str, Field]) -> None:
        self.path, (self.name, kind) = path, field
        if kind.shape is None or len(kind.shape) != 1 or np.dtype(kind.dtype).kind != "f":
            raise DataError(f"{path}: a .newname file holds rows of floating-point numbers, not {kind}")
        self.size, self.count = kind.shape[0], 0
        self.new = NewFile(path, DataError)  # beside its place until it is complete
        self.file = self.new.temporary.open("wb")
        self.file.write(HEAD.pack(MAGIC, 0, self.size))

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        """Write records."""
        array = np.ascontiguousarray(rows[self.name], "<f4")
        with os_errors(self.path, "cannot be written", DataError):
            self.file.write(array.tobytes())
        self.count += len(array)

    def close(self, commit: bool) -> None:
        """Write the head, and give the file its name; without `commit` leave nothing behind."""
        with os_errors(self.path, "cannot be written", DataError):
            if commit and not self.file.closed:
                self.file.seek(0)
                self.file.write(HEAD.pack(MAGIC, self.count, self.size))
            self.file.close()
        if commit:
            self.new.commit()
        self.new.drop()
