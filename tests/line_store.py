"""A store whose records can only be read once, one after the other: a whole number on each line."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nacre import DataError, Field, Reader, Store
from nacre_data.stores.pipe import Pipe


class Lines(Store):
    """Whole numbers, one on each line: `id`, and `x`, which has it twice."""

    endings = (".lines",)

    def open(self, path: Path, fields: Sequence[str] = ()) -> LineReader:
        return LineReader(path)


class LineReader(Reader):
    """The lines of a file, which are gone when they have been read, as those of a pipe."""

    count = None
    opened = 0

    def __init__(self, path: Path) -> None:
        LineReader.opened += 1
        self.fields = {"id": Field((), "int64"), "x": Field((2,), "float32")}
        self.path = path
        self.file = Pipe(path)
        self.begun = False

    def rows(self, start: int = 0) -> Iterator[Any]:
        assert not self.begun, "these records are gone"
        self.begun = True
        return self._rows(start)

    def _rows(self, start: int) -> Iterator[Any]:
        for number, line in enumerate(io.TextIOWrapper(io.BufferedReader(self.file), "ascii")):
            if number >= start:
                try:
                    value = int(line)
                except ValueError:
                    message = f"{self.path}: line {number + 1}: this is no whole number: {line.strip()}"
                    raise DataError(message) from None
                yield {"id": np.int64(value), "x": np.full(3 if value < 0 else 2, value, np.float32)}

    def key(self, number: int) -> str:
        return f"line {number + 1}"

    def interrupt(self) -> None:
        self.file.interrupt()

    def close(self) -> None:
        self.file.close()


def lines(folder: Path, count: int, first: int = 0) -> str:
    """Write a file of so many numbers, from `first` on; return its path."""
    path = folder / f"{first}-{count}.lines"
    path.write_text("".join(f"{number}\n" for number in range(first, first + count)), encoding="ascii")
    return str(path)
