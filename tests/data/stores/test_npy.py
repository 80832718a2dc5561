"""NumPy's files as stores."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from nacre import DataError, Field
from nacre.testing import StoreTests
from nacre_data.stores import raw
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


@pytest.mark.parametrize("kind", ["uint8", ">i4", "<f8"])
def test_rows_that_are_read_again_and_again_stay_in_memory(kind: str, tmp_path: Path) -> None:
    path, array = tmp_path / "a.npy", np.arange(60).reshape(20, 3).astype(kind)
    np.save(path, array)
    generator = np.random.default_rng(0)
    with NPY().open(path) as opened:
        reader: Any = opened
        out = np.empty((8, 3), reader.fields["data"].dtype)
        for _ in range(5):
            for numbers in (generator.integers(0, 20, 8), np.arange(5, 13)):
                reader.read(numbers, {"data": out})
                assert (out == array[numbers]).all()
        rows = reader.rows_in_file
        assert rows.kept is not None
        os.truncate(path, 150)
        with pytest.raises(DataError, match="cut while it was read"):
            reader.read(np.arange(8), {"data": out})
    assert rows.kept is None


def test_only_so_many_bytes_of_all_files_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "KEPT", 100)
    monkeypatch.setattr(raw.RawRows, "keeping", WeakSet())
    paths = [tmp_path / f"{number}.npy" for number in range(2)]
    with ExitStack() as stack:
        readers: list[Any] = []
        for path in paths:
            np.save(path, np.zeros((20, 3), np.uint8))
            readers.append(stack.enter_context(NPY().open(path)))
        for reader in readers:
            for _ in range(3):
                reader.read(np.arange(20), {"data": np.empty((20, 3), np.uint8)})
        assert [reader.rows_in_file.kept is None for reader in readers] == [False, True]
