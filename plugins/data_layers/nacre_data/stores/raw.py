"""Rows of one size in a file, read by their numbers."""

from __future__ import annotations

from io import RawIOBase
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np

from nacre import DataError
from nacre.files import Watched


class RawRows:
    """Rows of one type and shape, one after the other from `offset` on in a file; nothing is mapped into memory.

    A file that is cut while it is mapped would end the process. `file` is what was unpacked from `path`, if it is
    packed. `close` closes the file.
    """

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

    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write the rows of these numbers into `out`, whose type may be another."""
        direct = out.dtype == self.dtype and out.flags.c_contiguous
        rows = out if direct else np.empty((len(numbers), *self.shape), self.dtype)
        if rows.size:
            self._fill(numbers, rows.view(np.uint8).reshape(len(numbers), self.size))
        if not direct:
            out[...] = rows

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

    def close(self) -> None:
        self.file.close()
