"""Tables as text (.csv): one record per line, its numbers separated by commas."""

from __future__ import annotations

import io
import re
from array import array as number_array
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from nacre import DataError, OutputWriter, RecordReader
from nacre.files import atomic_write

NUMBER = r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)"
CELL = re.compile(rf"[ \t]*({NUMBER})[ \t]*(,|$)", re.IGNORECASE | re.ASCII)
"""A number as programs write it; Python's `float` would also accept 1_0 and digits of other scripts."""


class CsvReader(RecordReader):
    """Records from a table without a header (.csv), one per line; their shape comes from the net."""

    needs_shape = True

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray:
        numbers = number_array("d")  # a list would need several times as much memory
        count = width = 0
        try:
            with path.open(encoding="utf-8-sig") as lines:
                for number, line in enumerate(lines, start=1):
                    if not (line := line.strip(" \t\n")):
                        continue
                    where = f"{path}: record {count} (line {number})"
                    before = len(numbers)
                    numbers.extend(_cells(line, where))
                    width = width or len(numbers)
                    if len(numbers) - before != width:
                        raise DataError(f"{where} has {len(numbers) - before} numbers, but the first has {width}")
                    count += 1
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: it cannot be read: {error}") from error
        return np.array(numbers).reshape(count, width)


def _cells(line: str, where: str) -> Iterator[float]:
    """Yield the numbers of a line; raise DataError, which begins with `where`, if it holds anything else."""
    end = 0
    while cell := CELL.match(line, end):
        yield float(cell[1])
        end = cell.end()
        if not cell[2]:
            return
    raise DataError(f"{where}: {line[:40]!r} must be numbers separated by commas")


class CsvWriter(OutputWriter):
    """One blob as a table (.csv), one record per line."""

    several = False

    def write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        (array,) = arrays.values()
        text = io.BytesIO()
        np.savetxt(text, array.reshape(len(array), -1), delimiter=",", fmt="%.9g")
        atomic_write(path, text.getvalue(), DataError)
