"""Readers and writers of the files of `nacre predict`, which plugins offer by the ending of the file's name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import DataError, nearest
from ..fields.component import Component

if TYPE_CHECKING:
    import numpy as np


class RecordReader(Component, kind="record"):
    """Reads the records of a file, offered by ending: `{"record": {"parquet": "nacre_parquet:ParquetReader"}}`."""

    needs_shape: ClassVar[bool] = False
    """Whether files do not contain the shape of their records, so that it has to be known from elsewhere."""
    grows: ClassVar[bool] = False
    """Whether files may be appended to while they are read; any other change is an error."""

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
        """Return the records, axis 0 counting them.

        `blob` is their name in the net; `shape` is that of one record, None if it is not known. Records of another
        shape with the same number of elements are reshaped, in the order of memory.

        Raises:
            DataError: the file cannot be read; the message names it, the record and the reason.
        """
        raise NotImplementedError


class OutputWriter(Component, kind="output"):
    """Writes blobs to a file, offered by ending: `{"output": {"parquet": "nacre_parquet:ParquetWriter"}}`."""

    several: ClassVar[bool] = True
    """Whether a file can hold several blobs."""

    def write(self, path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Write arrays by the names of their blobs, axis 0 counting records; the file is written whole or not at all.

        Raises:
            DataError: the file cannot be written.
        """
        raise NotImplementedError


def reader_of(path: Path, pins: Mapping[str, str] | None = None) -> RecordReader:
    """Return the reader of a file, by its ending. Raises DataError naming the endings that are known."""
    return _offered("record", path, pins)


def writer_of(path: Path, pins: Mapping[str, str] | None = None) -> OutputWriter:
    """Return the writer of a file, by its ending. Raises DataError naming the endings that are known."""
    return _offered("output", path, pins)


def _offered(kind: str, path: Path, pins: Mapping[str, str] | None) -> Any:
    from ..discovery.registry import registry

    ending = path.suffix.lower().removeprefix(".")
    if not registry().offers(kind, ending):
        known = sorted({offer.name for offer in registry().offers(kind)})
        what = f"no plugin {'reads' if kind == 'record' else 'writes'} files that end in '.{ending}'"
        what = what if ending else "its name has no ending, so its format is not known"
        listed = ", ".join(f".{name}" for name in known)
        remedy = f"use one of these, or install a plugin that offers the {kind} '{ending or '...'}'"
        raise DataError(f"{path}: {what}{nearest(ending, known)}; known endings: {listed or 'none'}", remedy)
    return registry().open(kind, ending, pins)()
