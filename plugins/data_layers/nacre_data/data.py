"""Data: records from files of any format that a store reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nacre import (
    DataError,
    Field,
    Maybe,
    Paths,
    Shape,
    Store,
    at_least,
    default,
    local_file,
    non_negative,
    open_records,
    positive,
)

from .files import listed, may_be_list, named
from .reading import ReadingLayer, SourceReader, read_with
from .records import ArrayRecords, Records, column_of, entries_of, in_a_row
from .sequential import SequentialState
from .source import CacheBytes, RecordSourceState
from .stores.names import LABEL
from .stores.pictures import Pictures

AT_ONCE = 1 << 20
"""Bytes of records that are read at once: a call of HDF5 takes as long as reading tens of thousands."""


class FileDataLayer(ReadingLayer, is_source=True):
    """The fields of a source over files; a subclass says in `reading` which store reads them."""

    source: Annotated[Paths, at_least(1), "files or folders, or .txt lists of them; relative to the net file"]
    shape: Annotated[Shape, positive, "shape of a record of the first top, if records differ, as pictures do"] = (
        default(())
    )
    cache_bytes: CacheBytes = 1 << 28

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        """Open the files; only shapes and types are read yet.

        Raises:
            DataError: a file cannot be read, does not match the others, or there are fewer records than in a batch.
        """
        shapes = {self.tops[0]: self.shape} if self.shape else {}
        return open_source(self, backend, **self.reading(), shapes=shapes)


class DataLayer(FileDataLayer, is_source=True):
    """Feed the records of files in any format that a store reads: each top is a batch of the field of its name.

    y[n] = field[order[position + n]], where position grows by batch_size with every batch.

    The store is found by the names of the files, or named by `store`. Several files are joined; they must have the same
    fields. A `.txt` file is a list of files, one on each line, relative to it. Records of at most `cache_bytes` are
    read once, with the first batch; larger ones batch by batch. Records of a format without numbers, such as those of a
    pipe, are read one after the other, anew in each pass; there `shuffle` mixes `window` records at a time. Labels (one
    whole number per record) become int64 blobs, the others have the net's type. Raises DataError if a file cannot be
    read or does not match the others.

    Example:
        [[layer]]
        type = "Data"
        source = "train.h5"
        tops = ["data", "label"]  # (8, 3, 8, 8), (8,)
        batch_size = 8
        shuffle = true
    """

    store: Annotated[Maybe[Store], "format of the files; by default that of their names"] = default(None)
    window: Annotated[int, non_negative, "records that are mixed at a time, if they are read one after the other"] = 0

    def reading(self) -> dict[str, Any]:
        return {"store": self.store or ""}

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.window and not self.shuffle:
            yield f"window={self.window} is given without shuffle = true, so nothing is mixed"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        state = super().setup(backend, inputs, diffs)
        if self.window and not isinstance(state, SequentialState):
            state.shutdown()
            raise DataError(
                f"{self.name}: window={self.window}, but shuffle mixes all records of these files",
                "leave window out: it is for records that are read one after the other",
            )
        return state


def open_source(
    layer: Any, backend: Any, *, store: Any = "", codec: Any = "", shapes: Mapping[str, tuple[int, ...]] | None = None
) -> RecordSourceState:
    """Return the state of a `ReadingLayer` with `source`; the other arguments are those of `open_records`.

    Raises:
        DataError: a file cannot be read, does not match the others, or there are fewer records than in a batch.
    """
    opened = partial(open_files, layer, backend, store=store, codec=codec, shapes=shapes)
    reader = opened()
    try:
        if reader.count is None:
            return SequentialState(layer, backend, reader, opened)
        if not reader.count:
            raise DataError(f"{layer.name}: there are no records in {', '.join(map(str, layer.source))}")
        limits = layer.cache_bytes, 0 if layer.processes else AT_ONCE
        return RecordSourceState(layer, backend, StoreRecords(layer.name, layer.tops, reader, *limits))
    except BaseException:
        reader.close()
        raise


def open_files(
    layer: Any, backend: Any, *, store: Any = "", codec: Any = "", shapes: Mapping[str, tuple[int, ...]] | None = None
) -> SourceReader:
    """Return the records of a `ReadingLayer` with `source`, as `open_source` reads them."""
    with named(layer.name):
        paths = [file for given in layer.source for file in files_of(given)]
        fields = (*layer.tops, *layer.columns(backend.phase))
        options = {"paths": paths, "fields": fields, "store": store, "codec": codec, "shapes": shapes or {}}
        return read_with(layer, "records", open_records, options)


def files_of(given: str | Path) -> list[Path]:
    """Return the files that a source names: those on a `.txt` list, but a list of pictures has a store of its own."""
    path = local_file(given)
    return listed(given) if may_be_list(path) and not Pictures.fits(path) else [path]


def _columns_of(top: str, field: Field) -> Sequence[str]:
    """Return the names of a top's columns, which other tables must have again.

    A single column is one of them if the top has its name: what is the label may be called otherwise elsewhere.
    """
    return field.columns if field.shape or (field.columns == (top,) and top != LABEL) else ()


class StoreRecords(Records):
    """The records of a reader: all kept in memory if they have up to `cache_bytes`, else read when they are needed.

    Batches that follow each other are read `at_once` bytes at a time; with 0, each by itself.
    """

    def __init__(
        self, where: str, tops: Sequence[str], reader: SourceReader, cache_bytes: int, at_once: int = AT_ONCE
    ) -> None:
        self.where = where
        self.tops = tops
        self.reader = reader
        self.shapes, self.dtypes = entries_of(where, tops, reader)
        self.classes = {top: reader.fields[top].classes for top in tops if reader.fields[top].classes}
        self.column_names = {top: names for top in tops if (names := _columns_of(top, reader.fields[top]))}
        self.count = reader.count or 0
        if not self.count:
            raise DataError(f"{where}: there are no records in the data")
        size = sum(prod(shape) * kind.itemsize for shape, kind in zip(self.shapes, self.dtypes, strict=True))
        self.cached = self.count * size <= cache_bytes
        self.at_once = at_once // size
        self.whole: ArrayRecords | None = None
        self.window: ArrayRecords | None = None
        self.held = range(0)  # the numbers of the records in the window, if they follow each other
        self.next = -1  # the number that would follow those read last

    def read(self, records: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        if self.cached:
            self.whole = self.whole or self._read_all()
            self.whole.read(records, arrays)
            return
        if self.window is None or self.window.count < len(records):
            whole_batches = len(records) * max(1, self.at_once // len(records))
            self.window = ArrayRecords(self.where, self.tops, self.empty(whole_batches))
        first, last = int(records[0]), int(records[-1])
        following = self.at_once > 0 and in_a_row(records)
        if not (following and first in self.held and last in self.held):
            ahead = following and first == self.next
            records = np.arange(first, min(first + self.window.count, self.count)) if ahead else records
            self.held = range(0)
            with named(self.where):
                self.reader.read(records, self._places([array[: len(records)] for array in self.window.arrays]))
            self.held = range(first, first + len(records)) if following else range(0)
        start = first - self.held.start if following else 0
        self.next = last + 1
        self.window.read(np.arange(start, start + len(arrays[0])), arrays)

    def read_top(self, top: int, records: np.ndarray, array: np.ndarray) -> None:
        if self.whole is not None:
            super().read_top(top, records, array)
            return
        found = np.empty(array.shape, self.dtypes[top])  # the other tops are not read: they may be large
        with named(self.where):
            self.reader.read(records, {self.tops[top]: found})
        array[...] = found

    def in_memory(self, top: int) -> np.ndarray | None:
        if not self.cached:
            return None
        self.whole = self.whole or self._read_all()
        return self.whole.in_memory(top)

    def replace_by(self, numbers: np.ndarray) -> None:
        self.reader.among = np.sort(numbers)

    def column(self, name: str) -> np.ndarray:
        return column_of(self.reader, self.where, name)

    def _read_all(self) -> ArrayRecords:
        arrays = self.empty(self.count)
        with named(self.where):
            self.reader.read(np.arange(self.count), self._places(arrays))
        self.reader.pause()
        return ArrayRecords(self.where, self.tops, arrays)

    def empty(self, count: int) -> list[np.ndarray]:
        """Return arrays for so many records: 0 where a reader writes nothing, not what was in this memory before."""
        return [np.zeros((count, *shape), kind) for shape, kind in zip(self.shapes, self.dtypes, strict=True)]

    def _places(self, arrays: Sequence[np.ndarray]) -> Mapping[str, np.ndarray]:
        return dict(zip(self.tops, arrays, strict=True))

    def key(self, number: int) -> str:
        return self.reader.key(number)

    def left_out(self, records: np.ndarray) -> list[str]:
        return self.reader.left_out(records)

    def interrupt(self) -> None:
        self.reader.interrupt()

    def close(self) -> None:
        self.whole = self.window = None
        self.reader.close()
