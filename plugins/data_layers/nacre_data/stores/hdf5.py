"""HDF5: datasets whose axis 0 counts the records."""

from __future__ import annotations

import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import h5py
import numpy as np

from nacre import DataError, Field, Reader, Store, Writer, blocks
from nacre.files import NewFile

from ..checks import check_counts, check_entries
from ..hdf5_checks import CheckedFile, open_hdf5
from ..hdf5_rows import DatasetRows
from ..records import in_a_row

CLASSES = "classes"
"""The attribute of a dataset that names its classes."""
MARK = "written by"
"""The attribute of a file that says who wrote it."""
CHUNK, MOST = 1 << 14, 1 << 8
"""Bytes, and records, of the parts in which datasets grow: HDF5 reads a part as a whole, for each record of it."""
SPARSE, CALL = 4, 1 << 14
"""A span is read as a whole if it has at most so many times the bytes that are wanted, and so many more per record."""


class HDF5(Store):
    """Datasets of an HDF5 file, by name: contiguous, chunked, or compressed with gzip or lzf.

    An attribute "classes" of a dataset, a list of texts, names the classes that its numbers count.
    """

    endings = (".h5", ".hdf5")
    mark: ClassVar[bytes] = b"nacre"
    """What the attribute `MARK` of a file says."""

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        file = open_hdf5(path)
        try:
            return HDF5Reader(file, str(path), fields or file.names())
        except BaseException:
            file.close()
            raise

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        return HDF5Writer(path, fields, append=append, mark=self.mark)


class MarkedHDF5(HDF5):
    """HDF5 files that `HDF5Output` writes; their mark lets it replace them."""

    mark = b"nacre HDF5Output"

    def wrote(self, file: BinaryIO) -> bool:
        """Return whether a file carries the mark."""
        try:
            with open_hdf5(file, where="it") as opened:
                return opened.attribute(MARK) == self.mark
        except DataError:
            return False


class HDF5Reader(Reader):
    """Records of one file."""

    def __init__(self, file: CheckedFile, where: str, names: Sequence[str]) -> None:
        self.file = file
        self.where = where
        self.datasets = {name: file.dataset(name) for name in names}
        if not self.datasets:
            raise DataError(f"{where}: it has no datasets")
        for name, dataset in self.datasets.items():
            check_entries(f"{where}: dataset '{name}'", dataset.shape, dataset.dtype)
        check_counts(where, names, [len(dataset) for dataset in self.datasets.values()])
        self.rows_of = {
            name: DatasetRows(dataset, f"{where}: dataset '{name}'") for name, dataset in self.datasets.items()
        }
        self.count: int | None = len(next(iter(self.datasets.values())))
        self.fields: Mapping[str, Field] = {
            name: Field(dataset.shape[1:], dataset.dtype.newbyteorder("=").name, file.texts(dataset, CLASSES))
            for name, dataset in self.datasets.items()
        }

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        if not len(numbers):
            return
        together = in_a_row(numbers)
        first, last = (int(numbers[0]), int(numbers[-1])) if together else (int(numbers.min()), int(numbers.max()))
        last += 1
        what = f"record {first}" if last - first == 1 else f"one of the records {first} to {last - 1}"
        for name, rows in out.items():
            with self.file.reading(f"{self.where}: dataset '{name}'", what):
                if together and rows.flags.c_contiguous:
                    self.rows_of[name].read(first, rows)
                else:
                    some, back = self._some(name, numbers, first, last)
                    rows[...] = some[back]

    def _some(self, name: str, numbers: np.ndarray, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return records among which are those from `first` to `last` that are wanted, and their places."""
        dataset, field = self.datasets[name], self.fields[name]
        size = np.dtype(field.dtype).itemsize * prod(field.shape or ())
        if (last - first) * size <= len(numbers) * (SPARSE * size + CALL):
            span = np.empty((last - first, *dataset.shape[1:]), field.dtype)
            self.rows_of[name].read(first, span)
            return span, numbers - first
        wanted, back = np.unique(numbers, return_inverse=True)
        some = np.empty((len(wanted), *dataset.shape[1:]), field.dtype)
        self.rows_of[name].read_each(wanted, some)
        return some, back

    def close(self) -> None:
        self.file.close()


class HDF5Writer(Writer):
    """Datasets that grow; the file is beside its place until it is complete."""

    def __init__(self, path: Path, fields: Mapping[str, Field], *, append: bool, mark: bytes) -> None:
        for name, field in fields.items():
            if field.shape is None or field.codec:
                message = f"{path}: '{name}' differs in shape from record to record, which a dataset cannot hold"
                raise DataError(message, "give all records one shape, or use a folder")
        before = HDF5().open(path, tuple(fields)) if append and path.exists() else None
        self.new = NewFile(path, DataError)
        self.target = _Target(self.new.temporary, "w+")
        self.file: h5py.File | None = h5py.File(self.target, "w")
        try:
            with self._writing():
                self.file.attrs[MARK] = np.bytes_(mark)
                self.datasets = {name: self._make(name, field) for name, field in fields.items()}
            if before is not None:
                with before:
                    self._copy(before)
        except BaseException:
            self.close(commit=False)
            raise

    @contextmanager
    def _writing(self) -> Generator[None]:
        with self.new.writing():
            try:
                yield
            finally:
                self.target.check()

    def _make(self, name: str, field: Field) -> h5py.Dataset:
        assert self.file is not None and field.shape is not None
        shape, most = (0, *field.shape), (None, *field.shape)
        size = np.dtype(field.dtype).itemsize * prod(field.shape)
        chunks = (min(max(1, CHUNK // max(1, size)), MOST), *(max(1, side) for side in field.shape))
        dataset = self.file.create_dataset(name, shape, field.dtype, maxshape=most, chunks=chunks)
        if field.classes:
            dataset.attrs[CLASSES] = list(field.classes)
        return dataset

    def _copy(self, before: Reader) -> None:
        for _, rows in blocks(before):
            self.append(rows)

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        with self._writing():
            for name, dataset in self.datasets.items():
                start = len(dataset)
                dataset.resize(start + len(rows[name]), axis=0)
                dataset[start:] = rows[name]

    def close(self, commit: bool) -> None:
        if self.file is None:
            return
        file, self.file = self.file, None
        try:
            file.close()
            if commit:
                with self._writing():
                    self.target.close()
                self.new.commit()
        finally:
            self.target.close()
            self.new.drop()


class _Target(io.FileIO):
    """The file that HDF5 writes; after an error it only seems to be written.

    HDF5 would try again when it closes the file, fail again, and crash when the process ends.
    """

    error: BaseException | None = None

    def check(self) -> None:
        """Raise the error."""
        if self.error is not None:
            raise self.error

    def write(self, data: Any) -> int:
        rest = memoryview(data)
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except BaseException as error:
            self.error = error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0
