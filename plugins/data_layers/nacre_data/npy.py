"""NumPy's files: .npy with one array, .npz with several."""

from __future__ import annotations

import io
import os
import sys
import warnings
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array_header_1_0, read_array_header_2_0, read_magic, write_array

from nacre import DataError, OutputWriter, RecordReader
from nacre.files import atomic_write

HEADERS = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}
"""By the format's version. Version 3 only adds names of fields, and arrays with fields are not read."""

MOST_AXES = 32  # of a blob


class NpyReader(RecordReader):
    """Records from an array (.npy) whose axis 0 counts them."""

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray:
        try:
            with path.open("rb") as file:
                if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                    raise DataError(f"{path}: this is not a NumPy array", "write it with numpy.save")
                file.seek(0)
                return _read(file, str(path))
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read(file: BinaryIO, where: str) -> np.ndarray:
    """Read an array after its header has been checked: nothing larger than the file is allocated.

    The file is not mapped into memory: if it were cut, the process would end.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # for headers written by Python 2, which are valid
            shape, fortran_order, dtype = HEADERS[read_magic(file)](file)
    except Exception as error:  # the header is Python code, on which NumPy's parser may fail in any way
        raise DataError(f"{where}: damaged: its header cannot be read", "write it again with numpy.save") from error
    if dtype.hasobject or dtype.subdtype or dtype.names:  # for objects, NumPy would run any code in the file
        what = "Python objects" if dtype.hasobject else f"elements of type {dtype}"
        raise DataError(f"{where}: it holds {what}, but only numbers are read", "write numbers with numpy.save")
    shape = tuple(map(int, shape))  # the header may say True for 1
    if len(shape) > MOST_AXES:
        message = (
            f"{where}: damaged: it declares an array of {len(shape)} axes, but a blob may have {MOST_AXES} at most"
        )
        raise DataError(message, "write it again with numpy.save")
    size, stored = prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - file.tell()
    beside_none = prod(number or 1 for number in shape) * dtype.itemsize  # too large even if there are no records
    if min(shape, default=0) < 0 or size > stored or beside_none > sys.maxsize:
        message = f"{where}: damaged: it declares an array of shape {shape} and type {dtype}, {size:,} bytes"
        raise DataError(f"{message}, but has {stored:,}", "write it again with numpy.save")
    flat = np.fromfile(file, dtype, prod(shape)) if size else np.empty(shape, dtype)
    return flat.reshape(shape[::-1]).T if fortran_order else flat.reshape(shape)


class NpyWriter(OutputWriter):
    """One blob as an array (.npy)."""

    several = False

    def write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        (array,) = arrays.values()
        data = io.BytesIO()
        np.save(data, array)
        atomic_write(path, data.getvalue(), DataError)


class NpzWriter(OutputWriter):
    """Blobs as the arrays of an archive (.npz), by name."""

    def write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:  # np.savez has arguments, and no blob could have their names
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    write_array(member, np.asarray(array), allow_pickle=False)
        atomic_write(path, data.getvalue(), DataError)
