"""NumpyData: records from NumPy's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nacre import Reader, Store

from .data import FileDataLayer
from .stores.npy import NPY, NPZ


class NumpyDataLayer(FileDataLayer, is_source=True):
    """Feed the records of NumPy's files: the array of a .npy file, or the arrays of a .npz file by their names.

    y[n] = array[order[position + n]], where position grows by batch_size with every batch.

    This is the source Data with the stores NPY and NPZ. Raises DataError if a file cannot be read or does not match the
    others.

    Example:
        [[layer]]
        type = "NumpyData"
        source = "train.npz"
        tops = ["data", "label"]  # (8, 3, 8, 8), (8,)
        batch_size = 8
        shuffle = true
    """

    def reading(self) -> dict[str, Any]:
        return {"store": Numpy()}


class Numpy(Store):
    """A .npz file by its name, or else a .npy file."""

    endings = (*NPY.endings, *NPZ.endings)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        return (NPZ() if NPZ.fits(path) else NPY()).open(path, fields)
