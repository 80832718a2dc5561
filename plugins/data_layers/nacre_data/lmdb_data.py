"""LMDBData: records from LMDB databases."""

from __future__ import annotations

from typing import Any

from .reading import Processes
from .skipping import SkippingLayer
from .stores.lmdb import LMDB
from .stores.packed import CodecName


class LMDBDataLayer(SkippingLayer, is_source=True):
    """Feed the records of LMDB databases, such as those of Caffe and SINGA, in the order of their keys.

    y[n] = field[order[position + n]], where position grows by batch_size with every batch.

    This is the source Data with the store LMDB, which a process of its own reads. In phase `train` with
    `random_skip`, each rank begins at a record of its own, drawn from seed and rank, and goes on at the first
    record after the last one; so ranks may feed the same record in one pass. After SINGA's `LMDBData` and Caffe's
    `Data`. Raises DataError if a database cannot be read or does not match the others.

    Example:
        [[layer]]
        type = "LMDBData"
        source = "train.lmdb"  # a folder with data.mdb, or such a file
        tops = ["data", "label"]  # (8, 3, 8, 8), (8,)
        batch_size = 8
    """

    codec: CodecName = ""
    processes: Processes = 1

    def reading(self) -> dict[str, Any]:
        return {"store": LMDB(codec=self.codec)}
