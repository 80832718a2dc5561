"""NumPy's own files: .npy holds one array, .npz several."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nacre import DataError, OutputWriter, RecordReader
from nacre.durable import atomic_write


class NpyReader(RecordReader):
    """Records from an array (.npy) whose axis 0 counts them."""

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray:
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise DataError(f"{path}: this is no array of NumPy's: {error}") from error


class NpyWriter(OutputWriter):
    """One blob as an array (.npy)."""

    several = False

    def write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        (array,) = arrays.values()
        data = io.BytesIO()
        np.save(data, array)
        atomic_write(path, data.getvalue(), DataError)


class NpzWriter(OutputWriter):
    """Blobs as the arrays of an archive (.npz), by name."""

    def write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        data = io.BytesIO()
        np.savez(data, allow_pickle=False, **arrays)
        atomic_write(path, data.getvalue(), DataError)
