"""TarData: records from tar archives."""

from __future__ import annotations

from typing import Any

from .data import FileDataLayer
from .stores.tar import Tar


class TarDataLayer(FileDataLayer, is_source=True):
    """Feed the records of tar archives in WebDataset's layout, in the order of the files.

    y[n] = field[order[position + n]], where position grows by batch_size with every batch.

    This is the source Data with the store Tar. Raises DataError if an archive cannot be read or does not match the
    others.

    Example:
        [[layer]]
        type = "TarData"
        source = "train.tar"  # 1.jpg, 1.cls, 2.jpg, 2.cls, ...
        tops = ["data", "label"]  # (8, 3, 6, 6), (8,)
        shape = [3, 6, 6]  # to which the pictures are scaled
        batch_size = 8
        shuffle = true
    """

    def reading(self) -> dict[str, Any]:
        return {"store": Tar()}
