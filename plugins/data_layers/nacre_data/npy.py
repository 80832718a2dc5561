"""NumPy's own files: .npy holds one array, .npz several."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from nacre import DataError, OutputWriter, RecordReader
from nacre.durable import atomic_write


class NpyReader(RecordReader):
    """Records from an array (.npy) whose axis 0 counts them."""

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray:
        try:
            with path.open("rb") as file:
                if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                    raise DataError(f"{path}: this is no array of NumPy's", "write it with numpy.save")
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
        except (ValueError, EOFError) as error:
            objects = "object" in str(error).lower()  # NumPy's advice is to run whatever code is in the file
            reason = "it holds Python objects, but only numbers are read" if objects else f"it is damaged: {error}"
            raise DataError(f"{path}: {reason}", "write it again with numpy.save") from error


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
