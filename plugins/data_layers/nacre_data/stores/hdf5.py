"""HDF5: datasets whose axis 0 counts the records."""

from __future__ import annotations

import io
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import h5py
import numpy as np

from nacre import DataError, Field, Reader, Store, Writer, blocks
from nacre.files import NewFile, OutputLock

from ..checks import check_counts, check_entries, checked_rows
from ..hdf5_checks import DEEPEST, CheckedFile, open_hdf5
from ..hdf5_rows import DatasetRows
from ..records import in_a_row
from .continued import check_continued
from .errors import NeedsShape
from .places import OTHERS

CLASSES, TOGETHER = "classes", 4000
"""The attribute of a dataset that names its classes; it has room for so many, so that "classes.1" has more."""
MARK = "written by"
"""The attribute of a file that says who wrote it."""
CHUNK, MOST = 1 << 14, 1 << 8
"""Bytes, and records, of the parts in which datasets grow: HDF5 reads a part as a whole, for each record of it."""
SPARSE, CALL = 4, 1 << 14
"""A span is read as a whole if it has at most so many times the bytes that are wanted, and so many more per record."""


class HDF5(Store):
    """Datasets of an HDF5 file, by name: contiguous, chunked, or compressed with gzip or lzf.

    A field "group/x" is the dataset x in a group; of a file with groups, all datasets are fields.
    An attribute "classes" of a dataset, a list of texts, names the classes that its numbers count. HDF5 has room for
    some 4,000 texts in it: more are in the attributes "classes.1", "classes.2", ...
    """

    endings = (".h5", ".hdf5")
    mark: ClassVar[bytes] = b"nacre"
    """What the attribute `MARK` of a file says."""
    lengths_differ: ClassVar[bool] = False
    """Whether a writer takes more rows of one field than of another."""

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        file = open_hdf5(path)
        try:
            return HDF5Reader(file, str(path), fields or file.names())
        except BaseException:
            file.close()
            raise

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        return HDF5Writer(self, path, fields, append=append)


class MarkedHDF5(HDF5):
    """HDF5 files that `HDF5Output` writes; their mark lets it replace them."""

    mark = b"nacre HDF5Output"
    lengths_differ = True

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
        counts = [len(dataset) for dataset in self.datasets.values()]
        check_counts(
            where, [*self.datasets], counts, "name the fields that are wanted: their datasets count the records"
        )
        self.rows_of = {
            name: DatasetRows(dataset, f"{where}: dataset '{name}'") for name, dataset in self.datasets.items()
        }
        self.count: int | None = len(next(iter(self.datasets.values())))
        self.fields: Mapping[str, Field] = {
            name: Field(dataset.shape[1:], dataset.dtype.newbyteorder("=").name, _classes(file, dataset))
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


def _classes(file: CheckedFile, dataset: h5py.Dataset) -> tuple[str, ...]:
    """Return the names of the classes that a dataset counts."""
    classes, part = file.texts(dataset, CLASSES), 1
    while more := file.texts(dataset, _part_name(part)):
        classes, part = classes + more, part + 1
    return classes


def _part_name(part: int) -> str:
    return f"{CLASSES}.{part}" if part else CLASSES


class HDF5Writer(Writer):
    """Datasets that grow; the file is beside its place until it is complete."""

    def __init__(self, store: HDF5, path: Path, fields: Mapping[str, Field], *, append: bool) -> None:
        check_names(path, fields)
        for name, field in fields.items():
            if field.shape is None or field.codec:
                message = f"{path}: '{name}' differs in shape from record to record, which a dataset cannot hold"
                raise NeedsShape(message, "give all records one shape, or use a folder")
            check_texts(path, name, field.classes)
        self.path = path
        self.fields = fields
        self.lengths_differ = store.lengths_differ
        self.file: h5py.File | None = None
        self.lock = OutputLock(path, DataError, OTHERS) if append else None
        try:
            with HDF5().open(path) if append and path.exists() else nullcontext() as before:
                if before is not None:
                    check_continued(path, before.fields, fields)
                self.new = NewFile(path, DataError)
                self._begin(store.mark, before)
        except BaseException:
            if self.lock:
                self.lock.release()
            raise

    def _begin(self, mark: bytes, before: Reader | None) -> None:
        self.target = _Target(self.new.temporary, "w+")
        self.file = h5py.File(self.target, "w")
        try:
            with self._writing():
                self.file.attrs[MARK] = np.bytes_(mark)
                self.datasets = {name: self._make(name, field) for name, field in self.fields.items()}
            if before is not None:
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
        for part, first in enumerate(range(0, len(field.classes), TOGETHER)):
            dataset.attrs[_part_name(part)] = list(field.classes[first : first + TOGETHER])
        return dataset

    def _copy(self, before: Reader) -> None:
        for _, rows in blocks(before):
            self.append(rows)

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        checked = checked_rows(self.path, self.fields, rows, lengths_differ=self.lengths_differ)
        with self._writing():
            for name, dataset in self.datasets.items():
                start = len(dataset)
                dataset.resize(start + len(checked[name]), axis=0)
                dataset[start:] = checked[name]

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
            if self.lock:
                self.lock.release()


def check_names(path: Path, names: Collection[str]) -> None:
    """Check that fields can have the names of datasets, in which "/" stands between those of groups.

    Raises:
        DataError: one cannot, or is both a dataset and a group.
    """
    groups: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        if not _is_text(name) or len(parts) > DEEPEST or not {"", "."}.isdisjoint(parts):
            raise DataError(f"{path}: the field {name[:40]!r} cannot be the name of a dataset", "rename the field")
        groups.update(dict.fromkeys(["/".join(parts[:end]) for end in range(1, len(parts))], name))
    if both := next((name for name in names if name in groups), None):
        message = f"{path}: the field '{both}' cannot be a dataset, because '{groups[both]}' is in a group of this name"
        raise DataError(message, "rename one of them")


def check_texts(path: Path, name: str, classes: Sequence[str]) -> None:
    """Raise DataError if the name of a class is no text of HDF5."""
    if (wrong := next((one for one in classes if not _is_text(one)), None)) is not None:
        message = f"{path}: '{name}' has the class {wrong[:80]!r}, but HDF5 holds no NUL, and only text in UTF-8"
        raise DataError(message, "rename the class, which in a folder of pictures is a sub-folder")


def _is_text(text: str) -> bool:
    """Return whether HDF5 can hold a text: the halves of characters in names that are not UTF-8 it cannot."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


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
