"""NumPy's files as stores."""

import io
import os
import threading
import tracemalloc
import warnings
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from nacre import DataError, Field
from nacre.testing import StoreTests
from nacre_data import quiet
from nacre_data.stores import raw
from nacre_data.stores.npy import HEADERS, NPY, NPZ


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


def test_files_in_memory_are_counted_by_one_thread_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While they are counted, none is added."""
    held: list[bool] = []

    class Other:
        size = 0

        @property
        def count(self) -> int:
            held.append(raw.RawRows.lock.locked())
            return 0

    other = Other()
    monkeypatch.setattr(raw.RawRows, "keeping", WeakSet([other]))
    np.save(tmp_path / "a.npy", np.zeros((20, 3), np.uint8))
    with NPY().open(tmp_path / "a.npy") as opened:
        for _ in range(3):
            opened.read(np.arange(20), {"data": np.empty((20, 3), np.uint8)})
    assert held == [True]


def test_rows_that_cannot_be_kept_are_not_taken_for_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / "a.npy", np.empty((20, 3), np.uint8)
    np.save(path, np.ones((20, 3), np.uint8))
    with NPY().open(path) as reader:
        opened: Any = reader
        opened.read(np.arange(20), {"data": out})
        with monkeypatch.context() as broken:
            broken.setattr(raw.RawRows, "_fill", refuse)
            with pytest.raises(OSError, match="not now"):
                opened.read(np.arange(20), {"data": out})
        assert opened.rows_in_file.kept is None
        opened.read(np.arange(20), {"data": out})
    assert (out == 1).all()


def refuse(*_: Any) -> None:
    raise OSError("not now")


def test_a_header_is_read_without_warnings_by_one_thread_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which warnings are shown is a setting of the process, so that two threads would leave them switched off."""
    np.save(tmp_path / "a.npy", np.zeros(3))
    before, read, held = list(warnings.filters), HEADERS[1, 0], list[bool]()

    def locked() -> bool:
        """Return whether another thread would have to wait."""
        free: list[bool] = []

        def take() -> None:
            free.append(quiet.LOCK.acquire(blocking=False))
            if free[0]:
                quiet.LOCK.release()

        other = threading.Thread(target=take)
        other.start()
        other.join()
        return free == [False]

    def header(file: Any) -> Any:
        held.append(locked())
        warnings.warn("one that is not shown", stacklevel=1)
        return read(file)

    monkeypatch.setitem(HEADERS, (1, 0), header)
    NPY().open(tmp_path / "a.npy").close()
    assert held == [True]
    assert not locked()
    assert warnings.filters == before


# Damaged and hostile files


def test_a_header_that_says_it_is_long_takes_no_memory(tmp_path: Path) -> None:
    """Python makes room for so many bytes as are asked for."""
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + (1 << 30).to_bytes(4, "little") + bytes(100))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a\.npy: damaged: its header cannot be read"):
            NPY().open(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def archive(path: Path, members: Sequence[tuple[str, bytes]], how: int = zipfile.ZIP_STORED) -> Path:
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w", how) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_cannot_be_unpacked_is_told(how: int, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", [("data.npy", npy(np.random.default_rng(0).standard_normal(99)))], how)
    data = bytearray(path.read_bytes())
    for place in range(60, len(data) - 120, 7):
        damaged = data.copy()
        damaged[place : place + 7] = b"\xff\x00\xff\x00\xff\xff\xff"
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.npz: (damaged|cannot be read): "):
            NPZ().open(path)


def test_an_archive_whose_arrays_share_their_bytes_is_refused(tmp_path: Path) -> None:
    """As in a bomb of archives: each is not too large, but together they are."""
    zeros = npy(np.zeros((1, 40 << 20), np.uint8))
    path = archive(tmp_path / "a.npz", [(f"{name}.npy", zeros) for name in "ab"], zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match=r"a\.npz: 'a\.npy', 'b\.npy': it declares 83,886,336 bytes, but the file has"):
        NPZ().open(path)
    with NPZ().open(path, ["a"]) as reader:
        assert reader.count == 1


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    for names in (["a.npy", "a.npy"], ["a.npy", "a"]):
        path = archive(tmp_path / "a.npz", [(name, npy(np.zeros(3))) for name in names])
        with pytest.raises(DataError, match=r"a\.npz: two of its arrays have the same name"):
            NPZ().open(path)


def test_python_objects_are_not_read(tmp_path: Path) -> None:
    """They may run code."""

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "touched",)

    array = np.array([Evil()], object)
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    np.savez(tmp_path / "a.npz", array)
    for store, name in ((NPY(), "a.npy"), (NPZ(), "a.npz")):
        with pytest.raises(DataError, match="Python objects"):
            store.open(tmp_path / name)
    assert not (tmp_path / "touched").exists()
