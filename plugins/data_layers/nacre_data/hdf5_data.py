"""HDF5Data: records from HDF5 files."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Paths, at_least

from .data import open_source
from .reading import ReadingLayer
from .source import CacheBytes, RecordSourceState
from .stores.hdf5 import HDF5


class HDF5DataLayer(ReadingLayer, is_source=True):
    """Feed the records of HDF5 files, as if they were one file: each top is a batch of the dataset of its name.

    y[n] = dataset[order[position + n]], where position grows by batch_size with every batch.

    Axis 0 of every dataset counts the records. A `.txt` file is a list of files, one per line, relative to it. Data of
    at most `cache_bytes` are read once, with the first batch; larger ones batch by batch. In phase `train` batches
    continue into the next pass over the records; in the others the last batch of a pass is filled up, and only its real
    rows count. Labels (one whole number per record) become int64 blobs, the others have the net's type. The attribute
    "classes" of their dataset, a list of texts, names what they count. Raises DataError if a file cannot be read or
    does not match the others. After Mocha.jl's `HDF5DataLayer`.

    Example:
        [[layer]]
        type = "HDF5Data"
        source = "train.h5"
        tops = ["data", "label"]  # (8, 3, 8, 8), (8,)
        batch_size = 8
        shuffle = true
    """

    source: Annotated[Paths, at_least(1), "HDF5 files, or .txt lists of them; relative to the net file"]
    cache_bytes: CacheBytes = 1 << 28

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        """Read shapes and types from the files; the data are not read yet.

        Raises:
            DataError: a file cannot be read, does not match the others, or there are fewer records than in a batch.
        """
        return open_source(self, backend, store=HDF5())
