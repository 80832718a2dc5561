"""HDF5 as a store."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from nacre import Field
from nacre.testing import StoreTests
from nacre_data.stores.hdf5 import HDF5


class TestHDF5(StoreTests):
    store = HDF5()

    def fields(self):
        return {"data": Field((2, 3), "float32"), "label": Field((), "int64", classes=("cat", "dog"))}


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
class TestChunks(StoreTests):
    store = HDF5()
    step = 61

    def fields(self):
        return {"data": Field((2,), "float32")}

    @pytest.fixture(autouse=True)
    def _compressed(self, compression):
        self.compression = compression

    def make(self, folder: Path):
        array = np.random.default_rng(0).standard_normal((40, 2))
        with h5py.File(folder / "records.h5", "w") as file:
            file.create_dataset("data", data=array, chunks=(7, 2), compression=self.compression)
        return folder / "records.h5", {"data": array}
