"""Rows of one size in a file, read by their numbers."""

from __future__ import annotations

import threading
from io import RawIOBase
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

import numpy as np

from nacre import DataError
from nacre.files import Watched

from ..records import in_a_row

KEPT = 1 << 28
"""Bytes of files that stay in memory, for all readers together."""
CALL = 1 << 13
"""Bytes that are copied in the time that a call takes."""


class RawRows:
    """Rows of one type and shape, one after the other from `offset` on in a file; nothing is mapped into memory.

    A file that is cut while it is mapped would end the process. Instead, rows that have few bytes stay in memory, once
    reading has taken as long as reading all of them. `file` is what was unpacked from `path`, if it is packed. `close`
    closes the file.
    """

    keeping: ClassVar[WeakSet[RawRows]] = WeakSet()
    lock: ClassVar[threading.Lock] = threading.Lock()
    """Held while `keeping` is looked at and changed, which several threads do."""

    def __init__(
        self,
        path: Path,
        offset: int,
        count: int,
        shape: tuple[int, ...],
        dtype: np.dtype,
        file: RawIOBase | None = None,
    ) -> None:
        self.path = path
        self.offset = offset
        self.count = count
        self.shape = shape
        self.dtype = dtype
        self.size = prod(shape) * dtype.itemsize
        self.file = file or path.open("rb", buffering=0)
        self.watched = Watched(self.file.fileno(), str(path))
        self.kept: np.ndarray | None = None
        self.read_bytes = 0

    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write the rows of these numbers into `out`, whose type may be another."""
        direct = out.dtype == self.dtype and out.flags.c_contiguous
        rows = out if direct else np.empty((len(numbers), *self.shape), self.dtype)
        if rows.size and not self._read_kept(numbers, rows):
            self._fill(numbers, rows.view(np.uint8).reshape(len(numbers), self.size))
        if not direct:
            out[...] = rows

    def _read_kept(self, numbers: np.ndarray, rows: np.ndarray) -> bool:
        """Read rows from memory, if they are to be there."""
        if self.kept is None:
            if self.read_bytes < self.count * self.size or not self._take_room():
                return False
            kept = np.empty((self.count, *self.shape), self.dtype)
            self._fill(np.arange(self.count), kept.view(np.uint8).reshape(self.count, self.size))
            self.kept = kept
        with self.watched.reading():
            if in_a_row(numbers):
                rows[...] = self.kept[numbers[0] : numbers[-1] + 1]
            else:
                self.kept.take(numbers, axis=0, out=rows, mode="clip")
        return True

    def _take_room(self) -> bool:
        """Return whether there is room in memory for all rows; it is theirs until the file is closed."""
        with self.lock:
            self.keeping.add(self)
            if sum(one.count * one.size for one in self.keeping) <= KEPT:
                return True
            self.keeping.discard(self)
            return False

    def _fill(self, numbers: np.ndarray, rows: np.ndarray) -> None:
        """Read runs of consecutive rows in one call each."""
        starts = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        with self.watched.reading("it"):
            for first, last in pairwise(starts):
                self.file.seek(self.offset + int(numbers[first]) * self.size)
                run = memoryview(rows.data)[first:last].cast("B")
                while run:
                    if not (got := self.file.readinto(run)):
                        raise DataError(f"{self.path}: truncated: record {numbers[first]} or a later one is missing")
                    run = run[got:]
        self.read_bytes += rows.size + CALL * len(starts)

    def close(self) -> None:
        with self.lock:
            self.keeping.discard(self)
        self.kept = None
        self.file.close()
