"""HDF5 as a store."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import DataError, Field
from nacre.testing import StoreTests
from nacre_data.hdf5_checks import open_hdf5
from nacre_data.stores import hdf5
from nacre_data.stores.hdf5 import HDF5


class TestHDF5(StoreTests):
    store = HDF5()
    step = 61

    def fields(self):
        return {"data": Field((2, 3), "float32"), "label": Field((), "int64", classes=("cat", "dog"))}


@pytest.mark.long
class TestHDF5CutAfterEachByte(TestHDF5):
    step = 1


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


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limits of files")
@pytest.mark.parametrize("rows", [20, 2000], ids=["when it is closed", "while it is written"])
def test_a_full_disk_is_told_and_nothing_crashes(rows: int, tmp_path: Path) -> None:
    """HDF5 keeps about 1 MB to itself, so that it notices late; then it tries again at the end of the process."""
    code = """if True:
        import resource, sys
        from pathlib import Path
        import numpy as np
        from nacre import DataError, Field
        from nacre_data.stores.hdf5 import HDF5
        try:
            with HDF5().create(Path(sys.argv[1]), {"x": Field((1000,), "float64")}) as writer:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
                for _ in range(int(sys.argv[2]) // 20):
                    writer.append({"x": np.ones((20, 1000))})
        except DataError as error:
            sys.exit(str(error))
    """
    path = tmp_path / "out.h5"
    command = [sys.executable, "-c", code, str(path), str(rows)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path}: cannot be written: File too large\n  free some space")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("chunks", [None, (4, 3)])
@pytest.mark.parametrize("sparse", [True, False])
def test_records_far_from_each_other(
    sparse: bool, chunks: tuple[int, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sparse:
        monkeypatch.setattr(hdf5, "SPARSE", 0)
        monkeypatch.setattr(hdf5, "CALL", 0)
    array = np.arange(300, dtype=np.int16).reshape(100, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=array, chunks=chunks)
    numbers = np.array([90, 3, 3, 57, 0, 99])
    out = np.zeros((6, 3), np.int16)
    with HDF5().open(tmp_path / "a.h5") as reader:
        reader.read(numbers, {"data": out})
        wide = np.zeros((6, 3), np.float64)
        reader.read(np.arange(50, 56), {"data": wide})
    assert (out == array[numbers]).all()
    assert (wide == array[50:56]).all()


NUMBERS = np.arange(1, 85, dtype=np.int16).reshape(7, 4, 3)


def _compact(file: h5py.File) -> None:
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_layout(h5py.h5d.COMPACT)
    made = h5py.h5d.create(file.id, b"data", h5py.h5t.NATIVE_INT16, h5py.h5s.create_simple((7, 4, 3)), plan)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, NUMBERS)


def _narrow(file: h5py.File) -> None:
    kind = h5py.h5t.NATIVE_INT16.copy()
    kind.set_precision(12)
    made = h5py.h5d.create(file.id, b"data", kind, h5py.h5s.create_simple((7, 4, 3)))
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, NUMBERS)


def _in_part(file: h5py.File) -> None:
    file.create_dataset("data", (7, 4, 3), np.int16, chunks=(2, 4, 3), fillvalue=9)[:3] = NUMBERS[:3]


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="this system cannot read past HDF5")
@pytest.mark.parametrize(
    ("make", "options", "past"),
    [
        (lambda file: file.create_dataset("data", data=NUMBERS), {}, True),
        (lambda file: file.create_dataset("data", data=NUMBERS, chunks=(2, 4, 3)), {}, True),
        (lambda file: file.create_dataset("data", data=NUMBERS, chunks=(2, 4, 2)), {}, False),
        (lambda file: file.create_dataset("data", data=NUMBERS, chunks=(2, 4, 3), compression="gzip"), {}, False),
        (lambda file: file.create_dataset("data", data=NUMBERS, chunks=(2, 4, 3), fletcher32=True), {}, False),
        (lambda file: file.create_dataset("data", data=NUMBERS.astype(">i2")), {}, False),
        (lambda file: file.create_dataset("data", data=NUMBERS), {"userblock_size": 512}, False),
        (lambda file: file.create_dataset("data", (7, 4, 3), np.int16, fillvalue=9), {}, False),
        (_in_part, {}, True),
        (_compact, {}, False),
        (_narrow, {}, False),
    ],
    ids=["plain", "chunks", "cut", "packed", "sums", "swapped", "user's", "unwritten", "in part", "compact", "narrow"],
)
def test_bytes_are_read_past_hdf5_where_they_lie_as_they_are(
    make: Callable[[h5py.File], object],
    options: dict[str, Any],
    past: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hdf5, "SPARSE", 0)
    monkeypatch.setattr(hdf5, "CALL", 0)
    calls, read = list[int](), os.preadv
    monkeypatch.setattr(os, "preadv", lambda *arguments: calls.append(1) or read(*arguments))
    with h5py.File(tmp_path / "a.h5", "w", **options) as file:
        make(file)
    with h5py.File(tmp_path / "a.h5") as file:
        wanted: Any = file["data"]
        wanted = wanted[()]
    with HDF5().open(tmp_path / "a.h5") as reader:
        for first in range(7):
            for last in range(first + 1, 8):
                out = np.empty((last - first, 4, 3), np.int16)
                reader.read(np.arange(first, last), {"data": out})
                assert (out == wanted[first:last]).all()
        numbers = np.array([6, 0, 3, 3, 1])
        out = np.empty((5, 4, 3), np.int16)
        reader.read(numbers, {"data": out})
    assert (out == wanted[numbers]).all()
    assert bool(calls) == past


def test_datasets_grow_by_whole_records(tmp_path: Path) -> None:
    fields = {"data": Field((3, 32, 32), "uint8"), "large": Field((100, 100), "float64"), "label": Field((), "int64")}
    with HDF5().create(tmp_path / "a.h5", fields) as writer:
        writer.append({name: np.zeros((2, *(field.shape or ())), field.dtype) for name, field in fields.items()})
    with h5py.File(tmp_path / "a.h5") as file:
        found: dict[str, object] = {name: file[name].chunks for name in fields}  # type: ignore[union-attr]
    assert found == {"data": (5, 3, 32, 32), "large": (1, 100, 100), "label": (256,)}


LETTERS = st.text("xyz", max_size=11)


@settings(max_examples=150)
@given(
    classes=st.lists(st.lists(LETTERS, max_size=8), min_size=1, max_size=3),
    version=st.sampled_from(["earliest", "latest"]),
)
def test_every_dataset_has_names_of_its_own(classes: list[list[str]], version: str) -> None:
    """Texts of any length, as h5py writes them: HDF5 may read the names of the next dataset together with these."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.h5"
        with h5py.File(path, "w", libver=version) as file:
            for number, names in enumerate(classes):
                dataset = file.create_dataset(f"field{number}", data=np.zeros(2))
                dataset.attrs.create("classes", names, dtype=h5py.string_dtype())
                dataset.attrs["others"] = ["x"]
        with open_hdf5(path) as checked:
            for number, names in enumerate(classes):
                dataset = checked.file[f"field{number}"]
                assert isinstance(dataset, h5py.Dataset)
                assert checked.texts(dataset, "classes") == tuple(names)


@pytest.mark.parametrize("odd", ["cl\udce9", "a\0b", "\0"])
def test_text_that_hdf5_cannot_hold_is_told(odd: str, tmp_path: Path) -> None:
    fields = {"label": Field((), "int64", classes=("ok", odd))}
    with pytest.raises(DataError, match=r"x\.h5: 'label' has the class .*\n  rename the class") as caught:
        HDF5().create(tmp_path / "x.h5", fields)
    assert repr(odd) in str(caught.value)
    with pytest.raises(DataError, match="cannot be the name of a dataset"):
        HDF5().create(tmp_path / "x.h5", {odd: Field((), "int64")})
    assert list(tmp_path.iterdir()) == []
