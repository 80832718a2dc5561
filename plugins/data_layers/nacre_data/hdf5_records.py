"""HDF5 files for `predict`: a reader of records, and a writer of blobs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np

from nacre import DataError, OutputWriter, RecordReader
from nacre.files import atomic_write

from .hdf5_checks import open_hdf5


class HDF5Reader(RecordReader):
    """Records from the dataset of the blob's name in an HDF5 file (.h5), with the same checks as HDF5Data."""

    def read(self, path: Path, blob: str, shape: tuple[int, ...] | None) -> np.ndarray:
        with open_hdf5(path) as file:
            dataset = file.dataset(blob)
            with file.reading(f"{path}: dataset {blob!r}"):
                return dataset[()]


class HDF5Writer(OutputWriter):
    """Blobs as the datasets of an HDF5 file (.h5), by name."""

    def write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        data = io.BytesIO()
        with h5py.File(data, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
        atomic_write(path, data.getvalue(), DataError)
