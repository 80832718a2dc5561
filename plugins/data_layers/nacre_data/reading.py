"""What sources of files have in common: threads and processes that read, and what becomes of damaged records."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
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
IN_A_ROW = 512
"""Records that are tried in the place of a damaged one: a disk that is gone is told soon."""
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

    A record that is left out is replaced by the one before it that can be read; at the start, by the first. `damaged`
    are the numbers of those found so far, and why each cannot be read. With `among`, which is sorted, only records of
    these numbers come in the place of others.

    Raises:
        DataError: records without numbers are to be left out.
    """

    def __init__(self, reader: Any, *, skips: bool) -> None:
        super().__init__(reader)
        self.skips = skips
        self.damaged: dict[int, str] = {}
        self.among: Sequence[int] | np.ndarray = range(self.count or 0)
        if skips and self.count is None:
            raise DataError(
                "on_error = 'skip' needs records with numbers, but these are read one after the other",
                "convert them to a format whose records are numbered, such as .h5, first",
            )

    def read(self, numbers: np.ndarray, out: Mapping[str, Any], draws: np.ndarray | None = None) -> None:
        used = np.array([*map(self._instead, numbers.tolist())], np.int64) if self.damaged else numbers
        drawn = [] if draws is None else [draws]
        try:
            self.reader.read(used, out, *drawn)
        except DataError:
            if not self.skips:
                raise
            for row, number in enumerate(used.tolist()):
                one = slice(row, row + 1)
                place = {name: values[one] for name, values in out.items()}
                self._read_one(number, place, [values[one] for values in drawn])

    def _read_one(self, number: int, place: Mapping[str, Any], drawn: Sequence[np.ndarray]) -> None:
        """Read a record, or the one that is used in its place, and note those that cannot be read."""
        while True:
            used = self._instead(number)
            try:
                self.reader.read(np.array([used]), place, *drawn)
            except DataError as error:
                self.damaged[used] = str(error.args[0])
            else:
                return

    def _instead(self, number: int) -> int:
        """Return the number of the record that is used for this one: itself, unless it is damaged.

        Raises:
            DataError: all are damaged, or too many in a row.
        """
        if number not in self.damaged:
            return number
        place = bisect_left(self.among, number)
        others = chain(self.among[max(0, place - IN_A_ROW) : place][::-1], self.among[place : place + IN_A_ROW])
        if (found := next((int(one) for one in others if one not in self.damaged), None)) is None:
            message = f"all of {min(len(self.among), IN_A_ROW):,} records in a row are damaged; {self.damaged[number]}"
            raise DataError(message, "copy or convert the data again")
        return found

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
