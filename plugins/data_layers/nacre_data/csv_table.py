"""Tables as text (.csv): one record a line, its numbers divided by commas."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nacre import DataError, OutputWriter, RecordReader
from nacre.durable import atomic_write


class CsvReader(RecordReader):
    """Records from a table without a head (.csv), one a line; the net tells their shape."""

    needs_shape = True

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: it cannot be read: {error}") from error
        rows: list[list[float]] = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}: record {len(rows)} (line {number})"
            try:
                rows.append([float(cell) for cell in line.split(",")])
            except ValueError:
                raise DataError(f"{where}: not all of {line[:40]!r} are numbers, divided by commas") from None
            if len(rows[-1]) != len(rows[0]):
                raise DataError(f"{where} has {len(rows[-1])} numbers, but the first has {len(rows[0])}")
        return np.array(rows)


class CsvWriter(OutputWriter):
    """One blob as a table (.csv), one record a line."""

    several = False

    def write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        (array,) = arrays.values()
        text = io.BytesIO()
        np.savetxt(text, array.reshape(len(array), -1), delimiter=",", fmt="%.9g")
        atomic_write(path, text.getvalue(), DataError)
