"""What sources of files have in common: threads and processes that read, and what becomes of damaged records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from nacre import ConfigError, DataError, Reader, ReaderWrapper, every, one_of, positive, same_numbers

from .processes import ProcessReader
from .source import RecordSourceLayer

Threads = Annotated[
    int, positive, same_numbers, "threads that decode records, such as pictures; those of all processes together"
]
MOST = 256  # processes
Processes = Annotated[
    int,
    every(lambda number: 0 <= number <= MOST, f"from 0 to {MOST}"),
    same_numbers,
    "processes that read and decode records; 0: this one does it",
]
OnError = Annotated[
    str, one_of("raise", "skip"), 'what a record does that cannot be read: end the work, or be left out ("skip")'
]


class ReadingLayer(RecordSourceLayer, is_source=True):
    """The fields of a source that reads files."""

    threads: Threads = 1
    processes: Processes = 0
    on_error: OnError = "raise"


class SourceReader(ReaderWrapper):
    """What a source reads: files that are opened here or in other processes, perhaps without their damaged records.

    A record that is left out is replaced by the one before it in the same `read`, of a batch or a chunk; at its start,
    by the first that can be read. `damaged` are the numbers of those found so far, and why each cannot be read.

    Raises:
        DataError: records without numbers are to be left out.
    """

    def __init__(self, reader: Any, *, skips: bool) -> None:
        super().__init__(reader)
        self.skips = skips
        self.damaged: dict[int, str] = {}
        if skips and self.count is None:
            raise DataError(
                "on_error = 'skip' needs records with numbers, but these are read one after the other",
                "convert them to a format whose records are numbered, such as .h5, first",
            )

    def read(self, numbers: np.ndarray, out: Mapping[str, Any], draws: np.ndarray | None = None) -> None:
        rows = self._rows(numbers) if self.damaged else slice(None)
        drawn = [] if draws is None else [draws[rows]]
        try:
            self.reader.read(numbers[rows], out, *drawn)
        except DataError:
            if not self.skips:
                raise
            self._read_each(numbers, out, drawn)

    def _read_each(self, numbers: np.ndarray, out: Mapping[str, Any], drawn: Sequence[np.ndarray]) -> None:
        """Read records one by one, and note those that cannot be read."""
        for row, number in enumerate(numbers.tolist()):
            if number in self.damaged:
                continue
            one = slice(row, row + 1)
            place = {name: values[one] for name, values in out.items()}
            try:
                self.reader.read(numbers[one], place, *[values[one] for values in drawn])
            except DataError as error:
                self.damaged[number] = str(error.args[0])
        rows = self._rows(numbers)
        for values in out.values():
            values[...] = values[rows]

    def _rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return for each of these records which of them is used: itself, or for a damaged one the one before it.

        Raises:
            DataError: all are damaged.
        """
        bad = np.array([number in self.damaged for number in numbers.tolist()], bool)
        if not bad.any():
            return np.arange(len(numbers))
        if bad.all():
            message = f"all {len(numbers)} records of a batch are damaged; {self.damaged[int(numbers[0])]}"
            raise DataError(message, "copy or convert the data again")
        before = np.maximum.accumulate(np.where(bad, -1, np.arange(len(numbers))))
        return np.where(before < 0, np.argmin(bad), before)

    def instead(self, numbers: np.ndarray) -> np.ndarray:
        """Return the numbers of the records that `read` uses for these."""
        return numbers[self._rows(numbers)] if self.damaged else numbers

    def left_out(self, numbers: np.ndarray) -> list[str]:
        """Return for each of these records that is damaged why it cannot be read."""
        return [self.damaged[number] for number in numbers.tolist() if number in self.damaged] if self.damaged else []

    def rows(self, start: int = 0) -> Iterator[Mapping[str, Any]]:
        return self.reader.rows(start)


def read_with(layer: Any, opener: str, opened: Callable[..., Reader], options: Mapping[str, Any]) -> SourceReader:
    """Open files as the fields of a `ReadingLayer` say: here by `opened(**options)`, or in processes.

    `opener` is the name of `opened` in `reader.OPENERS`.

    Raises:
        DataError: a file cannot be read.
        ConfigError: the store cannot be used in other processes.
    """
    skips = layer.on_error == "skip"
    if layer.processes:
        each = {**options, "threads": max(1, layer.threads // layer.processes)}
        try:
            reader: Reader = ProcessReader(opener, each, layer.processes, narrow=not skips)
        except ConfigError as error:
            message = f"{layer.name}: processes={layer.processes}, but {error.args[0]}"
            raise ConfigError(message, error.remedy) from error
    else:
        reader = opened(**options, threads=layer.threads)
    try:
        return SourceReader(reader, skips=skips)
    except BaseException:
        reader.close()
        raise
