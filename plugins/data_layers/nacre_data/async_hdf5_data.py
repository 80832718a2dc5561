"""AsyncHDF5Data: records from HDF5 files, read ahead by a thread."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import Annotated, Any

import numpy as np

from nacre import Paths, at_least, positive

from .hdf5_data import HDF5Records
from .records import ArrayRecords, Records
from .source import Passes, RecordSourceLayer, RecordSourceState

AHEAD = 3  # batches: one that is used, one that is ready, one that is being read


class AsyncHDF5DataLayer(RecordSourceLayer, is_source=True):
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

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.split:
            yield "split is given, but chunks are read whole: write the parts with `nacre data split`, or use HDF5Data"
        if self.sampling:
            yield "sampling is given, but chunks are read whole: use HDF5Data"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> AsyncState:
        """Read shapes and types from the files; the thread starts with the first batch.

        Raises:
            DataError: a file cannot be read, does not match the others, or there are fewer records than in a batch.
        """
        records = ChunkRecords(self.name, self.tops, self.source, self.chunk_size)
        return AsyncState(self, backend, records, ChunkPasses(self, backend, records))


class ChunkRecords(HDF5Records):
    """The records of HDF5 files, in chunks, one of which is in memory.

    `chunks` are the numbers of the first records of all chunks, and of the end; a chunk lies in one file.
    """

    def __init__(self, where: str, tops: Sequence[str], source: Sequence[str], chunk_size: int) -> None:
        super().__init__(where, tops, source, cache_bytes=0)
        files = pairwise(self.starts)
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
            self.memory = self.memory or self._empty(int(np.diff(self.chunks).max()))
            first, last = self.chunks[chunk : chunk + 2].tolist()
            file = int(np.searchsorted(self.starts, first, "right")) - 1
            used = slice(0, last - first)
            self._read_part(file, np.arange(first, last) - self.starts[file], self.memory, used)
            self.held, self.number = ArrayRecords(self.where, self.tops, [array[used] for array in self.memory]), chunk
        return self.held

    def close(self) -> None:
        super().close()
        self.held, self.memory = None, []


class ChunkPasses(Passes):
    """Passes in a random order that keeps the records of a chunk together, and the chunks of a file."""

    def __init__(self, layer: Any, backend: Any, records: ChunkRecords) -> None:
        super().__init__(layer, backend, records.count)
        chunks = list(pairwise(records.chunks.tolist()))
        files = pairwise(records.starts)
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


@dataclass
class Batch:
    """A batch that was read ahead, with the position and the pass after it."""

    records: np.ndarray
    arrays: list[np.ndarray]
    rows: int = 0
    position: int = 0
    epoch: int = 0


def read_batch(passes: Passes, records: Records, batch: Batch) -> None:
    """Fill a batch with the next records."""
    batch.rows = passes.choose(batch.records)
    batch.position, batch.epoch = passes.position, passes.epoch
    records.read(batch.records, batch.arrays)


class ReadAhead:
    """A thread that fills batches before they are needed, in the order in which they become free.

    It ends with `stop`, with an error, which `take` then raises, or when there is no reference to this object. In that
    case nothing waits for its end: the last reference may go in the thread itself, or under a lock of HDF5.
    """

    def __init__(self, fill: Callable[[Batch], None], batches: Sequence[Batch]) -> None:
        self.free: SimpleQueue[Batch | None] = SimpleQueue()
        self.full: SimpleQueue[Batch | BaseException] = SimpleQueue()
        for batch in batches:
            self.free.put(batch)
        stopped = threading.Event()
        self.thread = threading.Thread(
            target=_fill, args=(fill, self.free, self.full, stopped), name="nacre reads ahead", daemon=True
        )
        self._end = weakref.finalize(self, _end, stopped, self.free)
        self._end.atexit = False
        _running.add(self)
        self.thread.start()

    def stop(self) -> None:
        """End the thread, and wait until it has."""
        self._end()
        self.thread.join()

    def take(self) -> Batch:
        """Wait for the next batch."""
        batch = self.full.get()
        if isinstance(batch, BaseException):
            raise batch
        return batch


def _fill(
    fill: Callable[[Batch], None],
    free: SimpleQueue[Batch | None],
    full: SimpleQueue[Batch | BaseException],
    stopped: threading.Event,
) -> None:
    """Run in the thread; it has no reference to the `ReadAhead`, which would then never be freed."""
    try:
        while (batch := free.get()) is not None and not stopped.is_set():
            fill(batch)
            full.put(batch)
    except BaseException as error:
        full.put(error)


def _end(stopped: threading.Event, free: SimpleQueue[Batch | None]) -> None:
    stopped.set()
    free.put(None)


_running: weakref.WeakSet[ReadAhead] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop all threads at exit: one might be using HDF5 when that is shut down."""
    for ahead in list(_running):
        ahead.stop()


class AsyncState(RecordSourceState, host_only=True):
    """`AsyncHDF5DataLayer` on any backend: `passes` and `records` belong to the thread while it runs.

    `position` and `epoch` are those after the batch that was used last, so that a snapshot does not contain the batches
    that are only read ahead.
    """

    def __init__(self, layer: Any, backend: Any, records: Records, passes: Passes) -> None:
        super().__init__(layer, backend, records, passes)
        self.position = passes.position
        self.ahead: ReadAhead | None = None

    def ready(self) -> None:
        self._stop()
        self.batches = [
            Batch(np.empty(self.layer.batch_size, np.intp), [np.empty_like(blob) for blob in self.blobs])
            for _ in range(AHEAD)
        ]

    def forward(self, inputs: list[Any]) -> None:
        if self.ahead is None:
            self.ahead = ReadAhead(partial(read_batch, self.passes, self.records), self.batches)
        try:
            batch = self.ahead.take()
        except BaseException:
            self._stop()  # so that the next call begins at the same position
            raise
        for blob, array in zip(self.blobs, batch.arrays, strict=True):
            np.copyto(blob, array)
        self.rows, self.position, self.epoch = batch.rows, batch.position, batch.epoch
        self.ahead.free.put(batch)
        self.transform()

    def _stop(self) -> None:
        """End the thread, and drop what it has read."""
        if self.ahead is not None:
            self.ahead.stop()
            self.ahead = None
            self.passes.position, self.passes.epoch = self.position, self.epoch

    def rewind(self) -> None:
        if self.position:  # else the batches that are read begin the pass
            self._stop()
            super().rewind()
            self.position = self.passes.position

    def memory(self) -> dict[str, int]:
        return {**super().memory(), "position": self.position}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self._stop()
        super().remember(memory)
        self.position = self.passes.position

    def shutdown(self) -> None:
        self._stop()
        super().shutdown()
