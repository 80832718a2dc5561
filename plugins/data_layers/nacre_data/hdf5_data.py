"""HDF5Data: records from HDF5 files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nacre import DataError, Paths, at_least, class_numbers

from .checks import check_counts, check_entries
from .data import open_source
from .files import listed, named
from .reading import ReadingLayer
from .records import ArrayRecords, Records, check_one_number, in_a_row
from .source import CacheBytes, RecordSourceState
from .stores.hdf5 import HDF5
from .tables import Labels

CLASSES = "classes"
"""The attribute of a dataset that names its classes."""
OPEN_FILES = 64  # at a time: a process may have only some hundreds


class HDF5DataLayer(ReadingLayer, is_source=True):
    """Feed the records of HDF5 files, as if they were one file: each top is a batch of the dataset of its name.

    y[n] = dataset[order[position + n]], where position grows by batch_size with every batch.

    Axis 0 of every dataset counts the records. A `.txt` file is a list of files, one per line, relative to it. Data of
    at most `cache_bytes` are read once, with the first batch; larger ones batch by batch. In phase `train` batches
    continue into the next pass over the records; in the others the last batch of a pass is filled up, and only its real
    rows count. Labels (one whole number per record) become int64 blobs, the others have the net's type. The attribute
    "classes" of their dataset, a list of texts, names what they count. Raises DataError if a file cannot be read or
    does not match the others. After Mocha.jl's `HDF5DataLayer`.

    Example:
        [[layer]]
        type = "HDF5Data"
        source = "train.h5"
        tops = ["data", "label"]  # (8, 3, 8, 8), (8,)
        batch_size = 8
        shuffle = true
    """

    source: Annotated[Paths, at_least(1), "HDF5 files, or .txt lists of them; relative to the net file"]
    cache_bytes: CacheBytes = 1 << 28

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        """Read shapes and types from the files; the data are not read yet.

        Raises:
            DataError: a file cannot be read, does not match the others, or there are fewer records than in a batch.
        """
        if self.processes or self.on_error == "skip":
            return open_source(self, backend, store=HDF5())
        return RecordSourceState(self, backend, HDF5Records(self.name, self.tops, self.source, self.cache_bytes))


class HDF5Records(Records):
    """The records of HDF5 files, one file after the other; a file is opened for its first batch."""

    def __init__(self, where: str, tops: Sequence[str], source: Sequence[str], cache_bytes: int) -> None:
        self.where = where
        self.tops = tops
        self.opened: dict[int, tuple[Any, list[Any], list[Any]]] = {}
        self.window: ArrayRecords | None = None
        self.whole: ArrayRecords | None = None
        self.numbers: list[dict[str, Labels]] = []
        with named(self.where):
            self.files = [file for given in source for file in listed(given)]
            self.counts = [self._look_into(file) for file in self.files]
        self.starts = list(accumulate(self.counts, initial=0))
        self.count = self.starts[-1]
        if not self.count:
            raise DataError(f"{where}: there are no records in {', '.join(map(str, self.files))}")
        size = sum(prod(shape) * kind.itemsize for shape, kind in zip(self.shapes, self.dtypes, strict=True))
        self.cached = self.count * size <= cache_bytes

    def _look_into(self, path: Path) -> int:
        """Return how many records a file has; all files must match the first one."""
        from .hdf5_checks import open_hdf5

        with open_hdf5(path) as file:
            datasets = [file.dataset(top) for top in self.tops]
            for top, dataset in zip(self.tops, datasets, strict=True):
                check_entries(f"{path}: dataset '{top}'", dataset.shape, dataset.dtype)
            check_counts(str(path), self.tops, [len(dataset) for dataset in datasets])
            if not self.shapes:
                self.shapes = [dataset.shape[1:] for dataset in datasets]
                self.dtypes = [dataset.dtype for dataset in datasets]
            self._check_alike(path, datasets)
            self.numbers.append(self._number(path, {top: file.texts(file.dataset(top), CLASSES) for top in self.tops}))
            return len(datasets[0])

    def _number(self, path: Path, names: Mapping[str, Sequence[str]]) -> dict[str, Labels]:
        """Return how to number the classes of a file, as the first file numbers them."""
        known = {top: list(some) for top, some in names.items() if some}
        if not self.numbers:
            self.classes = known
        for top in self.tops:
            if bool(self.classes.get(top)) != bool(known.get(top)):
                has = f"has {'' if top in known else 'no '}names of classes, unlike {self.files[0]}"
                raise DataError(f"{path}: dataset '{top}' {has}", "give all files the attribute 'classes', or none")
        return {
            top: Labels(numbers=class_numbers(str(path), top, some, self.classes[top]), known=len(self.classes[top]))
            for top, some in known.items()
            if some != self.classes[top]
        }

    def _check_alike(self, path: Path, datasets: Sequence[Any]) -> None:
        for top, dataset, shape, kind in zip(self.tops, datasets, self.shapes, self.dtypes, strict=True):
            if dataset.shape[1:] != shape or dataset.dtype != kind:
                raise DataError(
                    f"{path}: dataset '{top}' has records of shape {dataset.shape[1:]} and type {dataset.dtype}, "
                    f"but in {self.files[0]} they are of shape {shape} and type {kind}"
                )

    def read(self, records: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        if self.cached:
            self.whole = self.whole or self._read_all()
            self.whole.read(records, arrays)
            return
        if in_a_row(records):
            numbers, inverse = records, np.arange(len(records))
        else:  # HDF5 needs increasing numbers; a batch that is filled up, or begins a new pass, has a record twice
            numbers, inverse = np.unique(records, return_inverse=True)
        if self.window is None or len(self.window.arrays[0]) < len(numbers):
            self.window = ArrayRecords(self.where, self.tops, self._empty(len(records)))
        for file, (first, last) in enumerate(pairwise(np.searchsorted(numbers, self.starts).tolist())):
            if first < last:
                self._read_part(file, numbers[first:last] - self.starts[file], self.window.arrays, slice(first, last))
        self.window.read(inverse, arrays)

    def _read_all(self) -> ArrayRecords:
        arrays = self._empty(self.count)
        for file, (first, last) in enumerate(pairwise(self.starts)):
            if first < last:
                self._read_part(file, np.arange(last - first), arrays, slice(first, last))
        self.close()
        return ArrayRecords(self.where, self.tops, arrays)

    def _empty(self, count: int) -> list[np.ndarray]:
        return [np.empty((count, *shape), kind) for shape, kind in zip(self.shapes, self.dtypes, strict=True)]

    def _read_part(self, file: int, records: np.ndarray, arrays: Sequence[np.ndarray], into: slice) -> None:
        """Read records of one file, with increasing numbers, into a slice of one array for each top."""
        first, last = int(records[0]), int(records[-1]) + 1
        together = last - first == len(records)
        with named(self.where):
            checked, datasets, rows = self._open(file)
            what = f"record {first}" if len(records) == 1 else f"one of the records {first} to {last - 1}"
            for top, dataset, its_rows, array in zip(self.tops, datasets, rows, arrays, strict=True):
                with checked.reading(f"{self.files[file]}: dataset '{top}'", what):
                    if together:  # much faster
                        its_rows.read(first, array[into])
                    elif dataset.chunks is None:
                        dataset.read_direct(array, records, into)
                    else:  # for parts, a list of numbers takes several times as long
                        for place, record in enumerate(records.tolist(), into.start):
                            its_rows.read(record, array[place : place + 1])
                if top in self.numbers[file]:
                    self.numbers[file][top].transform(array[into])

    def column(self, name: str) -> np.ndarray:
        from .hdf5_checks import DatasetRows, open_hdf5

        columns: list[np.ndarray] = []
        with named(self.where):
            for path, count, numbers in zip(self.files, self.counts, self.numbers, strict=True):
                with open_hdf5(path) as file:
                    dataset = file.dataset(name)
                    check_one_number(str(path), name, dataset.shape[1:])
                    check_counts(str(path), [self.tops[0], name], [count, len(dataset)])
                    columns.append(np.empty(dataset.shape, dataset.dtype))
                    where = f"{path}: dataset '{name}'"
                    with file.reading(where, "one of its records"):
                        DatasetRows(dataset, where).read(0, columns[-1])
                if name in numbers:
                    numbers[name].transform(columns[-1])
        return np.concatenate([column.reshape(-1) for column in columns])

    def _open(self, number: int) -> tuple[Any, list[Any], list[Any]]:
        """Return a file, its datasets, and their rows; open it if needed, and close another if too many are open."""
        from .hdf5_checks import DatasetRows, open_hdf5

        if number not in self.opened:
            if len(self.opened) == OPEN_FILES:
                self.opened.pop(next(iter(self.opened)))[0].close()
            path = self.files[number]
            file = open_hdf5(path)
            try:
                datasets = [file.dataset(top) for top in self.tops]
                self._check_alike(path, datasets)
                if any(len(dataset) != self.counts[number] for dataset in datasets):
                    raise DataError(
                        f"{path}: it no longer has the {self.counts[number]} records that it had when the net was made"
                    )
                rows = [
                    DatasetRows(dataset, f"{path}: dataset '{top}'")
                    for top, dataset in zip(self.tops, datasets, strict=True)
                ]
            except DataError:
                file.close()
                raise
            self.opened[number] = file, datasets, rows
        return self.opened[number]

    def close(self) -> None:
        self.whole = None
        while self.opened:
            self.opened.popitem()[1][0].close()
