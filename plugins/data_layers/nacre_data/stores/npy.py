"""NumPy's files: .npy with one array, .npz with several; axis 0 counts the records."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import (
    MAGIC_PREFIX,
    read_array_header_1_0,
    read_array_header_2_0,
    read_magic,
    write_array,
    write_array_header_1_0,
)

from nacre import DataError, Field, Reader, Store, Writer
from nacre.files import NewFile, check_file, os_errors, unchanged

from ..checks import check_counts, check_entries, checked_rows
from ..files import Modest
from ..quiet import quiet
from ..records import in_a_row, take
from .errors import NeedsShape
from .raw import RawRows

HEADERS = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}
"""By the format's version. Version 3 only adds names of fields, and arrays with fields are not read."""
MOST_AXES = 32  # of a blob
REMEDY = "write it again with numpy.save"


class NPY(Store):
    """One array in a NumPy file (.npy), read row by row; its field is called "data" if no other name is wanted."""

    endings = (".npy",)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        if len(fields) > 1:
            message = f"{path}: it holds one array, but {len(fields)} fields are wanted: {', '.join(fields)}"
            raise DataError(message, "use a .npz or .h5 file")
        check_file(path, "a .npy file")
        with os_errors(path, "cannot be read", DataError), path.open("rb") as file:
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                raise DataError(f"{path}: this is not a NumPy array", "write it with numpy.save")
            file.seek(0)
            modest: Any = Modest(file)  # NumPy reads a header of any size
            shape, fortran_order, dtype = read_header(modest, str(path), path.stat().st_size)
            check_entries(f"{path}: the array", shape, dtype)
            if fortran_order:  # a record's numbers are not together
                with unchanged(path):
                    array = np.fromfile(file, dtype, prod(shape)).reshape(shape[::-1]).T
                return ArrayReader({(fields or ("data",))[0]: array})
            rows = RawRows(path, file.tell(), shape[0], shape[1:], dtype)
        return NPYReader((fields or ("data",))[0], rows)

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        if append:
            raise DataError(f"{path}: nothing can be appended to a .npy file", "use an .h5 file")
        if len(fields) != 1:
            message = f"{path}: it can hold one array, but there are {len(fields)} fields: {', '.join(fields)}"
            raise DataError(message, "use a .npz or .h5 file")
        return NPYWriter(path, *fields.items())


class NPZ(Store):
    """Several arrays in an archive of NumPy's (.npz), by name; each is read whole when it is first needed."""

    endings = (".npz",)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        check_file(path, "a .npz file")
        with os_errors(path, "cannot be read", DataError), unchanged(path):
            try:
                with zipfile.ZipFile(path) as archive:
                    members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
                    if len(members) < len(archive.infolist()):
                        raise DataError(
                            f"{path}: two of its arrays have the same name", "write it again with numpy.savez"
                        )
                    names = fields or tuple(members)
                    if missing := [name for name in names if name not in members]:
                        known = ", ".join(members)
                        raise DataError(f"{path}: it has no array '{missing[0]}'; it has: {known or 'none'}")
                    _check_size(path, [members[name] for name in names])
                    arrays = {name: _member(archive, members[name], f"{path}: array '{name}'") for name in names}
            except (DataError, OSError):
                raise
            except Exception as error:  # zipfile, and what unpacks for it, raise anything for damaged files
                raise DataError(f"{path}: damaged: {error}", "write it again with numpy.savez") from error
        if not arrays:
            raise DataError(f"{path}: it holds no array")
        check_counts(str(path), list(arrays), [len(array) for array in arrays.values()])
        return ArrayReader(arrays)

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        if append:
            raise DataError(f"{path}: nothing can be appended to a .npz file", "use an .h5 file")
        return NPZWriter(path, fields)


class ArrayReader(Reader):
    """Records in arrays in memory."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = arrays
        self.count: int | None = len(next(iter(arrays.values())))
        self.fields: Mapping[str, Field] = {
            name: Field(array.shape[1:], array.dtype.newbyteorder("=").name) for name, array in arrays.items()
        }

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        together = in_a_row(numbers)
        for name, rows in out.items():
            array = self.arrays[name]
            if together:
                rows[...] = array[numbers[0] : numbers[-1] + 1]
            elif array.dtype == rows.dtype and rows.flags.c_contiguous:
                take(array, numbers, rows)
            else:
                rows[...] = array[numbers]


class NPYReader(Reader):
    """Records of one array in a file."""

    def __init__(self, name: str, rows: RawRows) -> None:
        self.name = name
        self.rows_in_file = rows
        self.count: int | None = rows.count
        self.fields: Mapping[str, Field] = {name: Field(rows.shape, rows.dtype.newbyteorder("=").name)}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        if self.name in out:
            self.rows_in_file.read(numbers, out[self.name])

    def close(self) -> None:
        self.rows_in_file.close()


class NPYWriter(Writer):
    """One array, of which the header is written last: only then is the number of records known."""

    def __init__(self, path: Path, field: tuple[str, Field]) -> None:
        self.path = path
        self.fields = dict([field])
        self.name, (self.shape, self.dtype) = field[0], _fixed(path, *field)
        self.count = 0
        self.new = NewFile(path, DataError)
        self.file = self.new.temporary.open("wb")
        self.file.write(self._header())

    def _header(self) -> bytes:
        header = io.BytesIO()
        entries = {"shape": (self.count, *self.shape), "fortran_order": False, "descr": self.dtype.str}
        write_array_header_1_0(header, entries)
        return header.getvalue()  # it has room for a larger number of records

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        array = np.asarray(checked_rows(self.path, self.fields, rows)[self.name], self.dtype)
        with self.new.writing():
            self.file.write(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        self.count += len(array)

    def close(self, commit: bool) -> None:
        if self.file.closed:
            return
        try:
            with self.new.writing():
                if commit:
                    self.file.seek(0)
                    self.file.write(self._header())
                self.file.close()
            if commit:
                self.new.commit()
        finally:
            self.new.drop()


class NPZWriter(Writer):
    """Arrays that are kept in memory, and written as an archive at the end."""

    def __init__(self, path: Path, fields: Mapping[str, Field]) -> None:
        for name in fields:
            if "\0" in name:
                raise DataError(f"{path}: the field {name[:40]!r} cannot be the name of an array", "rename the field")
        self.path = path
        self.fields = fields
        self.kinds = {name: _fixed(path, name, field) for name, field in fields.items()}
        self.parts: dict[str, list[np.ndarray]] = {name: [] for name in fields}
        self.new: NewFile | None = NewFile(path, DataError)

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        checked = checked_rows(self.path, self.fields, rows)
        for name, parts in self.parts.items():
            parts.append(np.array(checked[name], self.kinds[name][1]))

    def close(self, commit: bool) -> None:
        if self.new is None:
            return
        new, self.new = self.new, None
        try:
            if commit:
                with new.writing():
                    self._write(new.temporary)
                new.commit()
        finally:
            new.drop()

    def _write(self, path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:  # np.savez has arguments, and no field could have their names
            for name, parts in self.parts.items():
                shape, dtype = self.kinds[name]
                array = np.concatenate([np.empty((0, *shape), dtype), *parts])
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    write_array(member, array, allow_pickle=False)


def read_header(file: BinaryIO, where: str, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether in Fortran's order, and type of the array in a file of `size` bytes.

    Raises:
        DataError: they cannot be read, are no numbers, or say more bytes than the file has.
    """
    try:
        with quiet():  # for headers written by Python 2, which are valid
            shape, fortran_order, dtype = HEADERS[read_magic(file)](file)
    except Exception as error:  # the header is Python code, on which NumPy's parser may fail in any way
        raise DataError(f"{where}: damaged: its header cannot be read", REMEDY) from error
    if dtype.hasobject or dtype.subdtype or dtype.names:  # for objects, NumPy would run any code in the file
        what = "Python objects" if dtype.hasobject else f"elements of type {dtype}"
        raise DataError(f"{where}: it holds {what}, but only numbers are read", "write numbers with numpy.save")
    shape = tuple(map(int, shape))  # the header may say True for 1
    if len(shape) > MOST_AXES:
        message = f"{where}: damaged: it declares an array of {len(shape)} axes, but {MOST_AXES} are possible"
        raise DataError(message, REMEDY)
    declared, stored = prod(shape) * dtype.itemsize, size - file.tell()
    beside_none = prod(number or 1 for number in shape) * dtype.itemsize  # too large even if there are no records
    if min(shape, default=0) < 0 or declared > stored or beside_none > sys.maxsize:
        message = f"{where}: damaged: it declares an array of shape {shape} and type {dtype}, {declared:,} bytes"
        raise DataError(f"{message}, but has {stored:,}", REMEDY)
    return shape, bool(fortran_order), dtype


def _check_size(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse arrays that are larger, together, than their archive justifies: they may share the same bytes of it."""
    declared, size = sum(member.file_size for member in members), path.stat().st_size
    if declared > max(64 << 20, 20 * size):
        names = ", ".join(repr(member.filename) for member in members[:3]) + (", ..." if len(members) > 3 else "")
        message = f"{path}: {names}: it declares {declared:,} bytes, but the file has {size:,}"
        raise DataError(message, "write it again with numpy.savez, or as .npy")


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> np.ndarray:
    """Read an array of an archive."""
    with archive.open(member) as file:
        content = io.BytesIO(file.read(member.file_size + 1))
    if content.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
        raise DataError(f"{where}: this is not a NumPy array", "write it again with numpy.savez")
    content.seek(0)
    shape, fortran_order, dtype = read_header(content, where, len(content.getbuffer()))
    check_entries(where, shape, dtype)
    array = np.frombuffer(content.getbuffer(), dtype, prod(shape), content.tell())
    return array.reshape(shape[::-1]).T if fortran_order else array.reshape(shape)


def _fixed(path: Path, name: str, field: Field) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if field.shape is None or field.codec:
        message = f"{path}: '{name}' differs in shape from record to record, which an array cannot hold"
        raise NeedsShape(message, "give all records one shape, or use a folder")
    return field.shape, np.dtype(field.dtype)
