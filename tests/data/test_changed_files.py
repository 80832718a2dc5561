"""Data files that are changed while they are read: every reader tells, and uses nothing of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nacre import DataError, Field, Net
from nacre.net.files import FileRecords, batches
from nacre.net.records import store_of
from nacre_data import AsyncHDF5DataLayer, HDF5DataLayer, SubMean
from nacre_data.hdf5_rows import DatasetRows
from nacre_data.stores.hdf5 import HDF5Reader

COUNT = 40

SOURCES = {  # and the records that it reads one after the other
    "batch by batch": (HDF5DataLayer, {"cache_bytes": 0}, [(0, 9), (10, 39)]),
    "in memory": (HDF5DataLayer, {}, [(0, 39)]),
    "ahead": (AsyncHDF5DataLayer, {"chunk_size": 10}, [(0, 9), (10, 19), (20, 29), (30, 39)]),
}


def write(path: Path, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.ones((COUNT, 3, 8)), **options)
        file.create_dataset("label", data=np.arange(COUNT))
    return path


@pytest.mark.parametrize("options", [{}, {"chunks": (4, 3, 8)}, {"chunks": (4, 3, 8), "compression": "gzip"}])
@pytest.mark.parametrize("name", SOURCES)
def test_of_a_file_that_is_cut_nothing_is_used(
    name: str, options: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    """HDF5 gives zeros for what is no longer there."""
    source, fields, parts = SOURCES[name]
    path = write(tmp_path / "a.h5", **options)
    size = path.stat().st_size
    read = HDF5Reader.read
    reads: list[int] = []
    number = min(3, len(parts))
    first, last = parts[number - 1]

    def cut(self: HDF5Reader, *arguments: Any) -> None:
        reads.append(len(reads))
        if len(reads) == number:
            os.truncate(path, size // 2)
        read(self, *arguments)

    monkeypatch.setattr(HDF5Reader, "read", cut)
    net = Net("t", [source(name="hdf5", source=path, batch_size=10, **fields)], backend="numpy")
    used: list[int] = []
    told = (
        f"hdf5: .*a.h5: .*cut while one of the records {first} to {last} was read: [0-9,]+ of {size:,} bytes are left"
    )
    while len(used) < first:
        net.feed()
        used += net.blob("label").tolist()
    with pytest.raises(DataError, match=told):
        net.feed()
    assert used == [*range(first)]
    net.shutdown()


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_that_is_replaced_is_read_to_its_end(name: str, tmp_path: Path) -> None:
    source, fields, _ = SOURCES[name]
    path = write(tmp_path / "a.h5")
    net = Net("t", [source(name="hdf5", source=path, batch_size=10, **fields)], backend="numpy")
    net.feed()
    other = tmp_path / "b.h5"
    other.write_bytes(b"something else")
    other.replace(path)
    for _ in range(3):
        net.feed()
    assert net.blob("label").tolist() == [*range(30, 40)]
    net.shutdown()


def test_a_mean_that_is_changed_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mean.h5"
    with h5py.File(path, "w") as file:
        file["mean"] = np.ones((3, 8))
    read = DatasetRows.read

    def cut(rows: DatasetRows, *arguments: Any) -> None:
        os.truncate(path, path.stat().st_size - 8)
        read(rows, *arguments)

    monkeypatch.setattr(DatasetRows, "read", cut)
    with pytest.raises(DataError, match=r"mean\.h5: .*cut while it was read"):
        SubMean(mean_file=path).transform(np.ones((2, 3, 8)), None, "train")


@pytest.mark.parametrize("ending", [".npy", ".h5"])
def test_records_of_predict_that_are_cut(ending: str, tmp_path: Path) -> None:
    """A map of the file would end the process."""
    path = tmp_path / f"a{ending}"
    with store_of(path).create(path, {"data": Field((100,), "float64")}) as writer:
        writer.append({"data": np.ones((1000, 100))})
    with FileRecords(None, [path], "data") as records:
        found = batches({"data": records}, 10)
        assert next(found).records["data"].sum() == 1000
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(DataError, match="cut while"):
            list(found)
