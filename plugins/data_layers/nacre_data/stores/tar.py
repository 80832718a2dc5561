"""Tar: archives in WebDataset's layout, where the files of a record follow each other: 7.jpg, 7.cls."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import write_array

from nacre import DataError, Field, Reader, Store, Writer
from nacre.files import NewFile, Watched, check_file, os_errors

from ..checks import NUMBERS, checked_rows
from ..codecs.packed import PICTURE
from ..files import Modest
from .entries import Entries
from .npy import read_header

PICTURES = ("bmp", "gif", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp")
WHOLES = ("class", "cls", "cls2", "count", "id", "index", "inx")
"""Endings of files with one whole number as text."""
ARRAY, NUMBER = "npy", "cls"
PLAIN = {PICTURE: "data", ARRAY: "data", NUMBER: "label"}
"""Names of fields whose files have nothing between the key and the ending."""
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
ABOUT = "__nacre__/fields.json"
"""The file with what others do not say, such as classes; WebDataset leaves such names away."""
ABOUT_BYTES = 1 << 24
DIGITS = 64  # of a number
SIGNATURES = {
    b"\xff\xd8\xff": "jpg",
    b"\x89PNG": "png",
    b"GIF8": "gif",
    b"II*\0": "tif",
    b"MM\0*": "tif",
    b"RIFF": "webp",
}
FIELD_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\Z")
REMEDY = "write it again, or restore it"
TAR_ERRORS = (tarfile.TarError, EOFError, OverflowError, RecursionError, UnicodeError, ValueError)


class Tar(Store):
    """Records in a tar archive in WebDataset's layout: files whose names are equal up to the first dot stand together.

    What stands behind that dot is a field: pictures, `.npy` arrays, whole numbers as text (`.cls`). "7.jpg" and "7.npy"
    are the field "data", so that a record has only one of them, "7.cls" is "label", and "7.mask.png" is "mask". Files
    with other endings are bytes. Ignored are names that begin with a dot, or without an ending, and folders like
    `__this__`. Compressed archives are refused.
    """

    endings = (".tar",)

    @classmethod
    def fits(cls, path: Path) -> bool:
        """Return whether it is an archive by its name; for a compressed one, opening tells what to do."""
        return path.name.lower().endswith((*cls.endings, *COMPRESSED))

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        check_file(path, "a tar archive")
        _check_name(path)
        with os_errors(path, "cannot be read", DataError):
            return TarReader(path, fields)

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        _check_name(path)
        if append:
            raise DataError(
                f"{path}: nothing can be appended to a tar archive", "write another one: several are joined"
            )
        return TarWriter(path, fields)


def _check_name(path: Path) -> None:
    if path.name.lower().endswith(COMPRESSED):
        message = (
            f"{path}: a compressed archive can only be unpacked from its beginning, not read by the number of a record"
        )
        raise DataError(message, "unpack it, such as with gunzip: pictures in it are compressed anyway")


class Column:
    """The files of one field: their kind, and where each is."""

    def __init__(self, prefix: str, kind: str) -> None:
        self.prefix = prefix
        self.kind = kind
        self.name = prefix or PLAIN.get(kind, kind)
        self.files = Entries()


class TarReader(Reader):
    """Records of one archive."""

    def __init__(self, path: Path, wanted: Sequence[str]) -> None:
        self.path = path
        self.file = path.open("rb")
        try:
            self.watched = Watched(self.file.fileno(), str(path))
            self.about: Mapping[str, Any] = {}
            self.columns: dict[tuple[str, str], Column] = {}
            self.count: int | None = 0
            with self.watched.reading("its index"):
                self._index()
            if not self.count:
                raise DataError(f"{path}: it has no records")
            self.chosen = self._chosen(wanted)
            self.fields: Mapping[str, Field] = {name: self._field(column) for name, column in self.chosen.items()}
            self.named = next(iter(self.columns.values())).files.have_names()
        except BaseException:
            self.close()
            raise

    # Opening

    def _index(self) -> None:
        key, group = "", dict[tuple[str, str], tuple[int, int]]()
        for name, start, size in _members(self.path, self.file):
            if name == ABOUT:
                self._read_about(start, size)
                continue
            found = _parts(name)
            if found is None:
                continue
            if found[0] != key:
                self._add(key, group)
                key, group = found[0], {}
            if found[1:] in group:
                raise self._two_files(key, Column(*found[1:]).name)
            group[found[1:]] = start, size
        self._add(key, group)

    def _two_files(self, key: str, field: str) -> DataError:
        message = f"{self.path}: record '{key}' has two files for one field, '{field}'"
        return DataError(message, "name the fields between the key and the ending, such as 7.mask.png")

    def _read_about(self, start: int, size: int) -> None:
        try:
            self.about = json.loads(self._read(start, min(size, ABOUT_BYTES)))
            classes = [one.get("classes", []) for one in self.about.values()]
            if not all(isinstance(name, str) for names in classes for name in names):
                raise ValueError
        except (AttributeError, RecursionError, TypeError, ValueError) as error:
            raise DataError(f"{self.path}: '{ABOUT}' is damaged", REMEDY) from error

    def _add(self, key: str, group: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        """Add a record; the fields are those of the first."""
        if not group:
            return
        if not self.count:
            self.columns = {one: Column(*one) for one in sorted(group, key=_rank)}
            names = [column.name for column in self.columns.values()]
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                raise self._two_files(key, twice[0])
        for place, (one, column) in enumerate(self.columns.items()):
            if one not in group:
                raise DataError(
                    f"{self.path}: record '{key}' has no file for '{column.name}', which the first record has"
                )
            column.files.add(b"" if place else key.encode("utf-8", "surrogateescape"), *group[one])
        assert self.count is not None
        self.count += 1

    def _chosen(self, wanted: Sequence[str]) -> dict[str, Column]:
        """Return the columns by the names of their fields; without names of their own they are named in their order."""
        columns = {column.name: column for column in self.columns.values()}
        if wanted and not columns.keys() & set(wanted) and not any(column.prefix for column in columns.values()):
            columns = dict(zip(wanted, columns.values(), strict=False))
        if missing := [name for name in wanted if name not in columns]:
            raise DataError(f"{self.path}: its records have no field '{missing[0]}'; they have: {', '.join(columns)}")
        return {name: columns[name] for name in wanted or columns}

    def _field(self, column: Column) -> Field:
        about = self.about.get(column.name, {})
        if column.kind == PICTURE:
            return Field(None, "uint8", codec=PICTURE)
        if column.kind == NUMBER:
            return Field((), "int64", tuple(about.get("classes", ())))
        if column.kind != ARRAY:
            return Field(None, "uint8")
        with self.naming(0, str(self.path)):
            first = _array(self._bytes(column, 0))
        if about.get("varies"):
            return Field(None, first.dtype.name)
        sizes = np.frombuffer(column.files.sizes, np.int64)
        if (smallest := int(sizes.argmin())) and sizes[smallest] < prod(first.shape) * first.itemsize:
            message = f"'{column.name}' has {sizes[smallest]:,} bytes, but the numbers of the first {first.nbytes:,}"
            raise DataError(f"{self.path}: {self.key(smallest)}: {message}")
        return Field(first.shape, first.dtype.name, () if first.shape else tuple(about.get("classes", ())))

    # Reading

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        with self.watched.reading(f"record {numbers[0]}" if len(numbers) else ""):
            for row, number in enumerate(numbers.tolist()):
                with self.naming(number, str(self.path)):
                    for name, places in out.items():
                        places[row] = self._value(name, number)

    def _value(self, name: str, number: int) -> Any:
        column, field = self.chosen[name], self.fields[name]
        data = self._bytes(column, number)
        if column.kind == PICTURE:
            return data
        if column.kind == NUMBER:
            return _whole(data, name)
        if column.kind != ARRAY:
            return np.frombuffer(data, np.uint8)
        array = _array(data)
        if array.dtype.name != field.dtype or field.shape not in (None, array.shape):
            message = f"'{name}' has the shape {array.shape} and type {array.dtype}"
            raise DataError(f"{message}, but the first record has {field.shape} and {field.dtype}")
        return array

    def _bytes(self, column: Column, number: int) -> bytes:
        return self._read(column.files.starts[number], column.files.sizes[number])

    def _read(self, start: int, size: int) -> bytes:
        self.file.seek(start)
        return self.file.read(size)

    def key(self, number: int) -> str:
        first = next(iter(self.columns.values()))
        return first.files.key(number).decode("utf-8", "backslashreplace")

    def close(self) -> None:
        self.file.close()


def _members(path: Path, file: BinaryIO) -> Iterator[tuple[str, int, int]]:
    """Yield name, place and size of each file in an archive; nothing is unpacked, and no link is followed."""
    size = os.fstat(file.fileno()).st_size
    try:
        modest: Any = Modest(file)  # tarfile reads headers of any size
        with tarfile.open(fileobj=modest, mode="r:") as opened:
            archive: Any = opened  # type checkers do not know its list of members
            before = -1
            while (member := archive.next()) is not None:
                archive.members.clear()  # else all of them stay in memory
                if member.size < 0 or archive.offset <= before:
                    raise DataError(f"{path}: damaged: '{member.name}' declares {member.size:,} bytes", REMEDY)
                before = archive.offset
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    message = f"{path}: '{member.name}' is a link or a special file, but only plain files are read"
                    raise DataError(message, "write the archive from copies of the files")
                if member.offset_data + member.size > size:
                    raise DataError(f"{path}: truncated: '{member.name}' has {member.size:,} bytes", REMEDY)
                yield member.name, member.offset_data, member.size
            file.seek(archive.offset)
            if (end := file.read(tarfile.BLOCKSIZE)) != bytes(tarfile.BLOCKSIZE):
                what = "damaged" if len(end) == tarfile.BLOCKSIZE else "truncated"
                message = (
                    f"{path}: this tar archive is {what} at byte {archive.offset:,}, where a file or its end is due"
                )
                raise DataError(message, REMEDY)
    except TAR_ERRORS as error:
        raise DataError(f"{path}: this is no tar archive, or it is damaged: {error}", REMEDY) from error


def _parts(name: str) -> tuple[str, str, str] | None:
    """Return the key of a file's record, the name before its ending, and its kind; None if it belongs to no record."""
    name = name.removeprefix("./")
    folder, slash, base = name.rpartition("/")
    stem, _, rest = base.partition(".")
    prefix, _, ending = rest.rpartition(".")
    if not stem or not ending or re.search(r"(^|/)(\.|__[^/]*__(/|$))", name):
        return None
    ending = ending.lower()
    kind = PICTURE if ending in PICTURES else NUMBER if ending in WHOLES else ending
    return f"{folder}{slash}{stem}", prefix, kind


def _rank(column: tuple[str, str]) -> int:
    """Return the place of a field among those of a record: data first, then numbers, then other files."""
    kind = column[1]
    return [PICTURE, ARRAY, NUMBER].index(kind) if kind in PLAIN else len(PLAIN)


def _whole(data: bytes, name: str) -> int:
    text = data[: DIGITS + 1].strip()
    if len(data) > DIGITS or not re.fullmatch(rb"[+-]?[0-9]+", text) or not -(1 << 63) <= int(text) < 1 << 63:
        raise DataError(f"'{name}' is {text[:20]!r}, but it must be a whole number of 64 bits")
    return int(text)


def _array(data: bytes) -> np.ndarray:
    head = (
        12 + int.from_bytes(data[8:12], "little") if data[6:7] == b"\2" else 10 + int.from_bytes(data[8:10], "little")
    )
    shape, fortran_order, dtype, start = _header(data[:head], len(data))
    array = np.frombuffer(data, dtype, prod(shape), start)
    array = array.reshape(shape[::-1]).T if fortran_order else array.reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


@lru_cache(256)
def _header(head: bytes, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order, type and begin of an array of so many bytes; records have equal headers."""
    content = io.BytesIO(head)
    shape, fortran_order, dtype = read_header(content, "its array", size)
    if dtype.kind not in NUMBERS or 0 in shape:
        raise DataError(f"its array of shape {shape} and type {dtype} holds no numbers")
    return shape, fortran_order, dtype, content.tell()


class TarWriter(Writer):
    """An archive beside its place, which gets its name when it is complete.

    Keys are numbers of eight digits, followed by the record's name if it has one: "00000007_cat_7_jpg".
    """

    def __init__(self, path: Path, fields: Mapping[str, Field]) -> None:
        for name, field in fields.items():
            if not FIELD_NAME.match(name):
                raise DataError(f"{path}: the field {name!r} cannot be part of a file's name", "rename the field")
            if field.codec not in ("", PICTURE):
                raise DataError(f"{path}: '{name}' is encoded as {field.codec}, which an archive has no ending for")
        self.path = path
        self.fields = fields
        self.count = 0
        self.new = NewFile(path, DataError)
        self.archive: Any = tarfile.open(self.new.temporary, "w")  # noqa: SIM115  close() does
        about = {
            name: {"classes": field.classes, "varies": field.shape is None}
            for name, field in fields.items()
            if field.classes or (field.shape is None and not field.codec)
        }
        if about:
            self._write(ABOUT, json.dumps(about).encode())

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        checked = checked_rows(self.path, self.fields, rows)
        for row in range(len(next(iter(checked.values())))):
            name = re.sub(r"[^A-Za-z0-9_-]", "_", keys[row])[:80] if keys else ""
            key = f"{self.count:08d}_{name}" if name else f"{self.count:08d}"
            for field_name, field in self.fields.items():
                kind, data = self._encoded(field_name, field, checked[field_name][row])
                plain = PLAIN.get(PICTURE if field.codec else kind) == field_name
                self._write(f"{key}.{kind}" if plain else f"{key}.{field_name}.{kind}", data)
            self.count += 1

    def _encoded(self, name: str, field: Field, value: Any) -> tuple[str, bytes]:
        """Return the ending and the bytes of a file."""
        if field.codec:
            for begin, ending in SIGNATURES.items():
                if value.startswith(begin):
                    return ending, value
            message = f"{self.path}: record {self.count}: '{name}' is a picture in a format that is not known"
            raise DataError(message, "write pictures as JPEG, PNG, GIF, TIFF or WebP")
        array = np.asarray(value, field.dtype)
        if field.shape == () and array.dtype == np.int64:
            return NUMBER, str(int(array)).encode()
        if not array.size:
            message = f"{self.path}: record {self.count}: '{name}' has the shape {array.shape}, which holds no number"
            raise DataError(message, "leave the record out, or use a .lmdb or .shard file")
        content = io.BytesIO()
        write_array(content, array, allow_pickle=False)
        return ARRAY, content.getvalue()

    def _write(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        with self.new.writing():
            self.archive.addfile(member, io.BytesIO(data))
        self.archive.members.clear()

    def close(self, commit: bool) -> None:
        if self.archive.closed:
            return
        try:
            with self.new.writing():
                self.archive.close()
            if commit:
                self.new.commit()
        finally:
            self.new.drop()
