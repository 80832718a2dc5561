"""Records that can only be read one after the other, such as those of a pipe: batches, passes and a random order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np

from nacre import DataError, count_in

from .files import named
from .reading import SourceReader
from .records import ArrayRecords, Records, check_shape, entries_of
from .source import Passes, RecordSourceState, check_batch

Record = tuple[int, Mapping[str, Any]]
"""A record's number in the order of the reader, and its fields."""

clock: Callable[[], float] = perf_counter


class SequentialState(RecordSourceState, host_only=True):
    """A source over the records of a reader without numbers, on any backend.

    A pass ends where the reader does, and the next opens it again. Each rank reads all records, and keeps its own. With
    `shuffle` each record is drawn from the next `window` ones: a function of seed, layer name and epoch. A resumed
    training reads again from the start of the pass.

    Args:
        reader: the open reader.
        open_again: opens it for the next pass.

    Raises:
        DataError: the layer asks for what needs numbered records.
    """

    passes: StreamPasses

    def __init__(self, layer: Any, backend: Any, reader: SourceReader, open_again: Callable[[], SourceReader]) -> None:
        _refuse(layer)
        stream = Stream(layer.name, layer.tops, reader, open_again)
        super().__init__(layer, backend, stream, StreamPasses(layer, backend, stream))

    def memory(self) -> dict[str, int]:
        return {"position": self.position, "epoch": self.epoch}

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        """Continue after the batch after which `memory` was made; return how long it took to read up to there.

        Raises:
            DataError: the data have fewer records now.
        """
        if not memory:
            return None
        self.position, self.epoch = count_in(memory, "position"), count_in(memory, "epoch")
        self._stop()
        begin = clock()
        self.passes.seek()
        took = f"{clock() - begin:.1f} s"
        return f"{self.layer.name}: read {self.position:,} records again, in {took}" if self.position else None


def _refuse(layer: Any) -> None:
    """Raise DataError for what needs numbered records."""
    one_by_one = "but these are read one after the other, and their number is not known"
    convert = "convert them to a format whose records are numbered, such as .h5, first"
    if layer.shuffle and not layer.window:
        raise DataError(
            f"{layer.name}: shuffle needs records in any order, {one_by_one}",
            "give window, such as window = 10000: a random order within so many records, which are kept in memory; "
            f"or {convert}",
        )
    for field in ("split", "sampling"):
        if getattr(layer, field):
            raise DataError(f"{layer.name}: {field} needs to know all records before the first, {one_by_one}", convert)


class Stream(Records):
    """The records of a reader without numbers, of which those in `held` are the batch."""

    def __init__(
        self, where: str, tops: Sequence[str], reader: SourceReader, open_again: Callable[[], SourceReader]
    ) -> None:
        self.where = where
        self.tops = tops
        self.shapes, self.dtypes = entries_of(where, tops, reader)
        self.classes = {top: reader.fields[top].classes for top in tops if reader.fields[top].classes}
        self.reader = reader
        self.open_again = open_again
        self.begun = False
        self.interrupted = False
        self.held: Sequence[Record] = ()
        self.batch: ArrayRecords | None = None

    def rows(self, start: int = 0) -> Iterator[Record]:
        """Return the records of a new pass, from number `start` on."""
        if self.begun:
            self.reader.close()
            self.reader = self.open_again()
            if self.interrupted:  # while it was opened
                raise DataError(f"{self.where}: it was closed while it was read")
            if entries_of(self.where, self.tops, self.reader) != (self.shapes, self.dtypes):
                raise DataError(f"{self.where}: the records have other shapes or types than in the pass before")
            if any(tuple(self.reader.fields[top].classes) != names for top, names in self.classes.items()):
                raise DataError(f"{self.where}: the records have other classes than in the pass before")
        self.begun = True
        return map(self._checked, enumerate(self.reader.rows(start), start))

    def _checked(self, numbered: Record) -> Record:
        number, record = numbered
        for top, shape in zip(self.tops, self.shapes, strict=True):
            check_shape(self.reader, number, top, np.shape(record[top]), shape)
        return numbered

    def read(self, records: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        if self.batch is None:
            kinds = zip(self.shapes, self.dtypes, strict=True)
            places = [np.empty((len(records), *shape), kind) for shape, kind in kinds]
            self.batch = ArrayRecords(self.where, self.tops, places)
        for top, array in zip(self.tops, self.batch.arrays, strict=True):
            for row, (_, record) in enumerate(self.held):
                array[row] = record[top]
        self.batch.read(np.arange(len(records)), arrays)

    def interrupt(self) -> None:
        self.interrupted = True
        self.reader.interrupt()

    def close(self) -> None:
        self.held = ()
        self.reader.close()


class StreamPasses(Passes):
    """Passes over a `Stream`, which is read as far as one record after `position`, to know where the pass ends."""

    def __init__(self, layer: Any, backend: Any, stream: Stream) -> None:
        super().__init__(layer, backend, None)
        self.enough = lambda count: check_batch(layer, backend, count)
        self.window: int = layer.window
        self.stream = stream
        self.records: Iterator[Record] = iter(())
        self.upcoming: Record | None = None
        self.reached: tuple[int, int] | None = 0, 0
        """The epoch and the position to which the stream was read; None after an error."""

    def choose(self, batch: np.ndarray) -> int:
        self.seek()
        self.reached = None
        size, held = len(batch), []
        for row in range(self.whole):
            record = self.upcoming or self._begin()
            if self.first <= row < self.first + size:
                self.epochs[len(held) :] = self.epoch
                held.append(record)
            self.position += 1
            self._advance()
            if self.upcoming is None:
                self.stream.reader.close()  # whoever writes into a pipe waits until it is opened again
                self.enough(self.position)
                self.epoch, self.position = self.epoch + 1, 0
                if not self.trains:
                    break
        self.stream.held = [*held, *[record] * (size - len(held))]
        batch[:] = [number for number, _ in self.stream.held]
        self.reached = self.epoch, self.position
        return len(held)

    def seek(self) -> None:
        """Read the stream from its start as far as `position`, if it is not there."""
        if self.reached == (self.epoch, self.position):
            return
        self.upcoming = None
        if self.position:
            self._begin(self.position)
        self.reached = self.epoch, self.position

    def _begin(self, skipped: int = 0) -> Record:
        """Begin a pass again, and return its first record after those that are skipped."""
        if self.window:
            mixed = _mixed(self.stream.rows(), self.window, self.random.generator())
            self.records = islice(mixed, skipped, None)
        else:
            self.records = self.stream.rows(skipped)
        self._advance()
        if self.upcoming is None:
            where = self.stream.where
            if skipped:
                message = f"{where}: {skipped:,} records of this pass were used, but now there are no more than that"
                raise DataError(message, "continue with the same data")
            raise DataError(f"{where}: there are no records in the data")
        return self.upcoming

    def _advance(self) -> None:
        with named(self.stream.where):
            self.upcoming = next(self.records, None)


def _mixed(records: Iterator[Record], window: int, generator: np.random.Generator) -> Generator[Record]:
    """Yield records in a random order, each from the `window` ones that come next."""
    held = list(islice(records, window))
    for record in records:
        place = int(generator.integers(window))
        yield held[place]
        held[place] = record
    for place in generator.permutation(len(held)):
        yield held[place]
