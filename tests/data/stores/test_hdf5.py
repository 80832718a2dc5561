"""HDF5 as a store."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from nacre import Field
from nacre.testing import StoreTests
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


def test_datasets_grow_by_whole_records(tmp_path: Path) -> None:
    fields = {"data": Field((3, 32, 32), "uint8"), "large": Field((100, 100), "float64"), "label": Field((), "int64")}
    with HDF5().create(tmp_path / "a.h5", fields) as writer:
        writer.append({name: np.zeros((2, *(field.shape or ())), field.dtype) for name, field in fields.items()})
    with h5py.File(tmp_path / "a.h5") as file:
        found: dict[str, object] = {name: file[name].chunks for name in fields}  # type: ignore[union-attr]
    assert found == {"data": (5, 3, 32, 32), "large": (1, 100, 100), "label": (256,)}
