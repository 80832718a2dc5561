"""NumPy's files as stores."""

from pathlib import Path

import numpy as np

from nacre import Field
from nacre.testing import StoreTests
from nacre_data.stores.npy import NPY, NPZ


class TestNPY(StoreTests):
    store = NPY()

    def fields(self):
        return {"data": Field((2, 3), "float32")}


class TestBytesInNPY(TestNPY):
    def fields(self):
        return {"data": Field((), "uint8")}


class TestFortransOrder(TestNPY):
    def make(self, folder: Path):
        array = np.asfortranarray(np.random.default_rng(0).standard_normal((5, 2, 3)))
        np.save(folder / "records.npy", array)
        return folder / "records.npy", {"data": array}


class TestBigEndian(TestNPY):
    def make(self, folder: Path):
        array = np.arange(12, dtype=">f8").reshape(4, 3)
        np.save(folder / "records.npy", array)
        return folder / "records.npy", {"data": array.astype(float)}


class TestNPZ(StoreTests):
    store = NPZ()

    def fields(self):
        return {"data": Field((2, 3), "float64"), "label": Field((), "int64"), "args": Field((1,), "bool")}
