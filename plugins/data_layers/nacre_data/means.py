"""Files with the mean of all records: HDF5 as `nacre data mean` writes it, SINGA's record, and Caffe's BlobProto."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np

from nacre import DataError
from nacre.files import check_file, unchanged

from .codecs.single_label_image_record import SingleLabelImageRecord
from .codecs.wire import BYTES, EIGHT, FOUR, VARINT, checked_shape, fields_of, floats, signed, varints

HDF5 = b"\x89HDF\r\n\x1a\n"
"""The first bytes of an HDF5 file."""
SIZES, DATA, SHAPE, DOUBLES = (1, 2, 3, 4), 5, 7, 8
"""Fields of a BlobProto (caffe.proto); the sizes are those of files before `shape` was added."""


def read_mean(path: str, record: tuple[int, ...] | None = None) -> np.ndarray:
    """Return the mean in a file, in float64, with the shape that it has there.

    A file that is not HDF5 is a `BlobProto` of Caffe's if "binaryproto" is in its name, else a record of SINGA's.

    Raises:
        DataError: it cannot be read, holds more numbers than a record of this shape, or some are not finite.
    """
    where = Path(path)
    check_file(where, "a file with a mean")
    with where.open("rb") as file:
        is_hdf5 = file.read(len(HDF5)) == HDF5
    what = f"{path}: dataset 'mean'" if is_hdf5 else path
    mean = _of_hdf5(path, record) if is_hdf5 else _of_message(where, record)
    if not np.isfinite(mean).all():
        raise DataError(f"{what} holds numbers that are not finite")
    return mean


def no_fit(path: str, shape: tuple[int, ...], record: tuple[int, ...]) -> DataError:
    """Return the error for a mean of another shape."""
    where = f"{path}: " if path else ""
    return DataError(f"{where}a mean of shape {shape} does not fit records of shape {record}")


def _of_hdf5(path: str, record: tuple[int, ...] | None) -> np.ndarray:
    from .checks import check_entries
    from .hdf5_checks import open_hdf5
    from .hdf5_rows import DatasetRows

    with open_hdf5(path) as file:
        dataset = file.dataset("mean")
        where = f"{path}: dataset 'mean'"
        check_entries(where, dataset.shape, dataset.dtype)
        if record is not None and prod(dataset.shape) > prod(record):  # before it is read
            raise no_fit(path, dataset.shape, record)
        with file.reading(where):
            mean = np.empty(dataset.shape)
            DatasetRows(dataset, where).read(0, mean)
    return mean


def _of_message(path: Path, record: tuple[int, ...] | None) -> np.ndarray:
    size = path.stat().st_size
    most = size if record is None else 9 * prod(record) + 4096  # a double and its tag for each number
    if size > most:
        message = f"{path}: it has {size:,} bytes, but the mean of records of shape {record} has {most:,} at most"
        raise DataError(message, "give a file with one mean: HDF5, a record of SINGA's, or a .binaryproto of Caffe's")
    with unchanged(path):
        data = path.read_bytes()
    try:
        if "binaryproto" in path.name:
            return _of_blob(data)
        return np.asarray(SingleLabelImageRecord().unpack(data)["data"], np.float64)
    except DataError as error:
        remedy = "a mean is an HDF5 file (nacre data mean), a record of SINGA's, or a file *.binaryproto of Caffe's"
        raise DataError(f"{path}: {error.args[0]}", remedy) from error


def _of_blob(data: bytes) -> np.ndarray:
    """Return the numbers of a BlobProto."""
    sizes: dict[int, int] = {}
    shape: list[int] = []
    numbers: list[bytes] = []
    doubles: list[bytes] = []
    for number, kind, value in fields_of(data):
        if number in SIZES and kind == VARINT:
            sizes[number] = signed(value)
        elif number == DATA and kind in (BYTES, FOUR):
            numbers.append(value)
        elif number == DOUBLES and kind in (BYTES, EIGHT):
            doubles.append(value)
        elif number == SHAPE and kind == BYTES:
            for _, inner, part in fields_of(value):
                shape += map(signed, varints(part) if inner == BYTES else [part])
        elif number in (*SIZES, DATA, DOUBLES, SHAPE):
            raise DataError(f"this is no BlobProto of Caffe's: its field {number} is of another kind")
    if any(len(part) % 8 for part in doubles):
        raise DataError("the message is damaged: its numbers of 8 bytes are cut")
    array = np.frombuffer(b"".join(doubles), "<f8") if doubles else floats(numbers).astype(np.float64)
    if not array.size:
        raise DataError("this BlobProto of Caffe's has no numbers")
    return array.reshape(checked_shape(shape or [sizes.get(number, 1) for number in SIZES], len(array)))
