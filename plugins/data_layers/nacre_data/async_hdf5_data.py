"""AsyncHDF5Data: records from HDF5 files, read ahead by a thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from nacre import Paths, at_least, positive

from .data import StoreRecords, open_files
from .files import named
from .reading import ReadingLayer, SourceReader
from .records import ArrayRecords
from .source import Ahead, Passes, RecordSourceState
from .stores.hdf5 import HDF5


class AsyncHDF5DataLayer(ReadingLayer, is_source=True):
    """Feed the records of HDF5 files as HDF5Data does, but read them ahead, chunk by chunk, in a thread.

    y[n] = record[order[position + n]], where position grows by batch_size with every batch.

    A chunk is `chunk_size` consecutive records of a file; only one chunk is in memory at a time. With `shuffle`, each
    pass has a new random order of the files, of the chunks of each file, and of the records of each chunk: a function
    of the seed, the layer's name and the pass. For data that do not fit into memory, mainly in compressed files, where
    single records are slow to read. Transformers are applied when a batch is used. After Mocha.jl's
    `AsyncHDF5DataLayer`.

    Example:
        [[layer]]
        type = "AsyncHDF5Data"
        source = "train.h5"
        tops = ["data", "label"]  # (8, 3, 8, 8), (8,)
        batch_size = 8
        shuffle = true
    """

    source: Annotated[Paths, at_least(1), "HDF5 files, or .txt lists of them; relative to the net file"]
    chunk_size: Annotated[int, positive, "number of records that are read at a time"] = 1024
    ahead: Ahead = 3

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.split:
            yield "split is given, but chunks are read whole: write the parts with `nacre data split`, or use HDF5Data"
        if self.sampling:
            yield "sampling is given, but chunks are read whole: use HDF5Data"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        """Read shapes and types from the files; the thread starts with the first batch.

        Raises:
            DataError: a file cannot be read, does not match the others, or there are fewer records than in a batch.
        """
        reader = open_files(self, backend, store=HDF5())
        try:
            records = ChunkRecords(self.name, self.tops, reader, self.chunk_size)
            return RecordSourceState(self, backend, records, ChunkPasses(self, backend, records))
        except BaseException:
            reader.close()
            raise


class ChunkRecords(StoreRecords):
    """The records of a reader in chunks, one of which is in memory.

    `chunks` are the numbers of the first records of all chunks, and of the end; a chunk lies in one file.
    """

    def __init__(self, where: str, tops: Sequence[str], reader: SourceReader, chunk_size: int) -> None:
        super().__init__(where, tops, reader, cache_bytes=0)
        files = pairwise(reader.file_starts)
        self.chunks = np.array([*(start for file in files for start in range(*file, chunk_size)), self.count])
        self.held: ArrayRecords | None = None
        self.number = -1
        self.memory: list[np.ndarray] = []

    def read(self, records: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        chunks = np.searchsorted(self.chunks, records, "right") - 1
        for first, last in pairwise([0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(records)]):
            chunk = int(chunks[first])
            held = self._held(chunk)
            held.read(records[first:last] - self.chunks[chunk], [array[first:last] for array in arrays])

    def _held(self, chunk: int) -> ArrayRecords:
        """Return the records of a chunk; read it unless it is the one in memory."""
        if self.held is None or self.number != chunk:
            self.held = None
            self.memory = self.memory or self.empty(int(np.diff(self.chunks).max()))
            first, last = self.chunks[chunk : chunk + 2].tolist()
            places = [array[: last - first] for array in self.memory]
            with named(self.where):
                self.reader.read(np.arange(first, last), dict(zip(self.tops, places, strict=True)))
            self.held, self.number = ArrayRecords(self.where, self.tops, places), chunk
        return self.held

    def close(self) -> None:
        super().close()
        self.held, self.memory = None, []


class ChunkPasses(Passes):
    """Passes in a random order that keeps the records of a chunk together, and the chunks of a file."""

    def __init__(self, layer: Any, backend: Any, records: ChunkRecords) -> None:
        super().__init__(layer, backend, records.count)
        chunks = list(pairwise(records.chunks.tolist()))
        files = pairwise(records.reader.file_starts)
        self.files = [[chunk for chunk in chunks if start <= chunk[0] < end] for start, end in files]

    def arrange(self, order: np.ndarray, generator: np.random.Generator, /) -> None:
        begin = 0
        for file in generator.permutation(len(self.files)):
            for chunk in generator.permutation(len(self.files[file])):
                first, last = self.files[file][chunk]
                records = order[begin : begin + last - first]
                records[:] = np.arange(first, last)
                generator.shuffle(records)
                begin += last - first
