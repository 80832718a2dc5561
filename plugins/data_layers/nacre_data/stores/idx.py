"""IDX: the format of MNIST, one array in a file; its axis 0 counts the records."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from io import RawIOBase
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from nacre import DataError, Field, Reader, Store, Writer
from nacre.files import NewFile, check_file, os_errors, unchanged

from ..checks import check_entries, checked_rows
from ..files import inside
from .errors import NeedsShape
from .names import DATA, LABEL, data_and_label
from .raw import RawRows

TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
"""NumPy's types by the third byte of a file, as https://yann.lecun.com/exdb/mnist defines them."""
CODES = {np.dtype(kind).newbyteorder("="): code for code, kind in TYPES.items()}
GZIP = b"\x1f\x8b"
UNPACKED = 20  # bytes that are unpacked for each byte of a packed file
SMALL = 64 << 20  # bytes that are always unpacked
LEVEL = 6  # of packing: 9 takes up to ten times as long, for some percent
PIECE = 1 << 20  # bytes that are unpacked at a time
LARGEST = 255  # label that is written as a byte
MOST_AXES = 32  # of a blob
PICTURES = 3  # axes of an array of pictures with one channel, and of such a record
IMAGES = re.compile(r"images([-.])idx3(-ubyte(?:\.gz)?)$")
REMEDY = "get or write it again"


class IDX(Store):
    """MNIST's format (-ubyte, .idx), also packed with gzip (-ubyte.gz, .idx.gz): one array of numbers.

    An array with three axes holds pictures: images (n, 28, 28) become records (1, 28, 28). The labels of
    `train-images-idx3-ubyte` are `train-labels-idx1-ubyte` beside it, the field "label". It has no names of classes.
    """

    endings = ("-ubyte", "-ubyte.gz", ".idx", ".idx.gz")

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        check_file(path, "an IDX file")
        places = _places(path, data_and_label(path, fields), optional=not fields)
        with ExitStack() as stack:
            parts: dict[str, RawRows] = {}
            for name, place in places.items():
                parts[name] = _opened(place)
                stack.callback(parts[name].close)
            _check_labels(places, parts)
            stack.pop_all()
            return IDXReader(parts)

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        if append:
            raise DataError(f"{path}: nothing can be appended to an IDX file", "use an .h5 file")
        return IDXWriter(path, fields)


class IDXReader(Reader):
    """Records of one file, or of two with images and labels."""

    def __init__(self, parts: Mapping[str, RawRows]) -> None:
        self.parts = parts
        self.count: int | None = next(iter(parts.values())).count
        self.fields: Mapping[str, Field] = {
            name: Field(part.shape, part.dtype.newbyteorder("=").name) for name, part in parts.items()
        }

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        for name, rows in out.items():
            self.parts[name].read(numbers, rows)

    def close(self) -> None:
        for part in self.parts.values():
            part.close()


def _places(path: Path, wanted: Mapping[str, str], *, optional: bool) -> dict[str, Path]:
    """Return the file of each field; labels that are `optional` and not there are left out."""
    places = {wanted[DATA]: path} if DATA in wanted else {}
    if LABEL not in wanted:
        return places
    name = wanted[LABEL]
    if not IMAGES.search(path.name):
        if optional or not places:
            return places or {name: path}  # labels alone
        message = f"{path}: there is no field '{name}', because only a file X-images-idx3-ubyte has labels beside it"
        raise DataError(message, "rename it, or name one field only")
    labels = labels_beside(path)
    packed = labels.suffix == ".gz"
    other = labels.with_name(labels.name.removesuffix(".gz") if packed else f"{labels.name}.gz")
    found = next((one for one in (labels, other) if one.exists()), None)
    if found:
        places[name] = inside(found, path.parent)
    elif not optional:
        message = f"{path}: there is no field '{name}', because its labels are missing: {labels} or {other.name}"
        raise DataError(message, "put the file with the labels there, or name one field only")
    return places


def labels_beside(path: Path) -> Path:
    """Return the file with the labels of a file with images: X-labels-idx1-ubyte of X-images-idx3-ubyte."""
    return path.with_name(IMAGES.sub(r"labels\1idx1\2", path.name))


def _check_labels(places: Mapping[str, Path], parts: Mapping[str, RawRows]) -> None:
    if len(parts) < 2:
        return
    (images, labels), (some, others) = places.values(), parts.values()
    if others.shape:
        raise DataError(f"{labels}: a label must be one number, but its records have the shape {others.shape}")
    if some.count != others.count:
        raise DataError(f"{labels}: it has {others.count:,} labels, but {images} has {some.count:,} images", REMEDY)


def _opened(path: Path) -> RawRows:
    check_file(path, "an IDX file")
    with os_errors(path, "cannot be read", DataError), ExitStack() as stack:
        with path.open("rb") as start:
            packed = start.read(len(GZIP)) == GZIP
        file: RawIOBase = stack.enter_context(_unpacked(path) if packed else path.open("rb", buffering=0))
        shape, dtype = _header(file, path)
        rows = RawRows(path, file.tell(), shape[0], _record(shape), dtype, file)
        stack.pop_all()
        return rows


def _unpacked(path: Path) -> RawIOBase:
    """Return a temporary file with what is packed in a file, so that its records can be read in any order."""
    size = path.stat().st_size
    with os_errors(path, "cannot be unpacked into a temporary file", DataError), ExitStack() as stack:
        target = stack.enter_context(tempfile.TemporaryFile())
        with unchanged(path), gzip.open(path) as packed:
            try:
                while piece := packed.read(PIECE):
                    if target.write(piece) and target.tell() > max(SMALL, UNPACKED * size):
                        message = f"{path}: it is packed too well: {target.tell():,} bytes or more in {size:,}"
                        raise DataError(message, "if you trust it, unpack it with gunzip")
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DataError(f"{path}: damaged: {error}", REMEDY) from error
        target.flush()
        stack.pop_all()
        return target.detach()


def _header(file: RawIOBase, path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the shape and type of the array, and check that it fills the rest of the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    magic = file.read(4) or b""
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPES:
        raise DataError(f"{path}: this is not an IDX file: it begins with {magic!r}", REMEDY)
    dtype, axes = np.dtype(TYPES[magic[2]]), magic[3]
    if axes > MOST_AXES:
        raise DataError(f"{path}: damaged: it declares {axes} axes, but {MOST_AXES} are possible", REMEDY)
    sizes = file.read(4 * axes) or b""
    if len(sizes) < 4 * axes:
        raise DataError(f"{path}: truncated: its header has {4 + len(sizes)} of {4 + 4 * axes} bytes", REMEDY)
    shape = struct.unpack(f">{axes}I", sizes)
    check_entries(f"{path}: the array", shape, dtype)
    declared, stored = prod(shape) * dtype.itemsize, size - file.tell()
    if declared != stored or prod(shape[1:]) * dtype.itemsize > sys.maxsize:  # too large even if there are no records
        problem = "truncated" if declared > stored else "damaged"
        message = f"{path}: {problem}: it declares an array of shape {shape} and type {dtype.name}, {declared:,} bytes"
        raise DataError(f"{message}, but has {stored:,}", REMEDY)
    return shape, dtype


def _record(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a record; a picture has one channel."""
    return (1, *shape[1:]) if len(shape) == PICTURES else shape[1:]


class IDXWriter(Writer):
    """One array, or images and their labels in a second file; each has its name when it is complete."""

    def __init__(self, path: Path, fields: Mapping[str, Field]) -> None:
        self.path = path
        self.fields = fields
        self.files: dict[str, _NewArray] = {}
        try:
            for name, place in self._places(path, fields).items():
                self.files[name] = _NewArray(place, name, fields[name])
        except BaseException:
            self.close(commit=False)
            raise

    def _places(self, path: Path, fields: Mapping[str, Field]) -> dict[str, Path]:
        if len(fields) == 1:
            return dict.fromkeys(fields, path)
        names = sorted(fields, key=lambda name: fields[name].shape != ())  # the labels first
        if len(fields) != 2 or fields[names[0]].shape != () or not IMAGES.search(path.name):
            message = f"{path}: an IDX file holds one array, but there are {len(fields)} fields: {', '.join(fields)}"
            raise DataError(message, "choose one, or name the file X-images-idx3-ubyte for images and labels")
        labels = labels_beside(path)
        if labels.exists() and not path.exists():
            message = f"{labels}: it is there already, and would become the labels of {path.name}"
            raise DataError(message, "remove it, or use another name")
        return {names[0]: labels, names[1]: path}

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        checked = checked_rows(self.path, self.fields, rows)
        for name, file in self.files.items():
            file.append(checked[name], keys)

    def close(self, commit: bool) -> None:
        files, self.files = self.files, {}
        with ExitStack() as stack:
            for file in files.values():
                stack.callback(file.drop)
            for file in files.values() if commit else ():  # the images last
                file.complete()


class _NewArray:
    """An array on the way to its file. The header is written last: only then is the number of records known."""

    def __init__(self, path: Path, name: str, field: Field) -> None:
        self.path = path
        self.name = name
        self.shape, self.dtype = _kept(path, name, field)
        self.narrowed = self.dtype != np.dtype(field.dtype)
        self.count = 0
        self.packed = path.name.lower().endswith(".gz")
        self.new = NewFile(path, DataError)
        self.file = tempfile.TemporaryFile() if self.packed else self.new.temporary.open("wb")  # noqa: SIM115 (see drop)
        self.file.write(self._header())

    def _header(self) -> bytes:
        shape = (self.count, *self.shape)
        return struct.pack(f">2x2B{len(shape)}I", CODES[self.dtype], len(shape), *shape)

    def append(self, rows: np.ndarray, keys: Sequence[str]) -> None:
        if self.narrowed:
            for row in np.flatnonzero((rows < 0) | (rows > LARGEST))[:1].tolist():
                key = keys[row] if keys else f"record {self.count + row}"
                message = f"{self.path}: {key}: '{self.name}' is {rows[row]}, but the file can hold 0 to {LARGEST}"
                raise DataError(message, "use another format, such as .npy")
        with self.new.writing():
            self.file.write(rows.astype(self.dtype.newbyteorder(">")).tobytes())
        self.count += len(rows)

    def complete(self) -> None:
        """Write the header, pack the file if its name says so, and give it its name."""
        with self.new.writing():
            self.file.seek(0)
            self.file.write(self._header())
            if self.packed:
                self.file.seek(0)
                with self.new.temporary.open("wb") as file, gzip.GzipFile("", "wb", LEVEL, file, 0) as packed:
                    shutil.copyfileobj(self.file, packed)
            self.file.close()
        self.new.commit()

    def drop(self) -> None:
        """Leave nothing behind but a complete file."""
        try:
            with self.new.writing():
                self.file.close()
        finally:
            self.new.drop()


def _kept(path: Path, name: str, field: Field) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of a field's records in the file; labels of a type that it cannot have become uint8."""
    if field.shape is None or field.codec:
        message = f"{path}: '{name}' differs in shape from record to record, which an array cannot hold"
        raise NeedsShape(message, "give all records one shape, or use a folder")
    dtype = np.dtype(field.dtype)
    if dtype not in CODES and field.shape == () and dtype.kind in "biu":
        dtype = np.dtype(np.uint8)
    if dtype not in CODES:
        known = ", ".join(kind.name for kind in CODES)
        raise DataError(f"{path}: '{name}' has the type {dtype}, but an IDX file can hold {known}", "use .npy or .h5")
    picture = len(field.shape) == PICTURES and field.shape[0] == 1
    return field.shape[1:] if picture else field.shape, dtype
