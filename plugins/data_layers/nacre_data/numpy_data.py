"""NumpyData: records from NumPy's files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .data import FileDataLayer
from .stores.npy import NPY, NPZ

ENDINGS = (*NPY.endings, *NPZ.endings, ".txt")


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

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        for path in self.source:
            if not path.lower().endswith(ENDINGS):
                yield f"source={path}, but NumPy's files end in .npy or .npz, and lists of them in .txt"

    def reading(self) -> dict[str, Any]:
        return {"store": ""}
