"""Data files that are changed while they are read: every reader tells, and uses nothing of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import nacre
from nacre import DataError, Layer, Net
from nacre.cli.inputs import read_inputs
from nacre.config import NetFile
from nacre.protocols.records import reader_of
from nacre_data import AsyncHDF5DataLayer, HDF5DataLayer, SubMean
from nacre_data.hdf5_data import HDF5Records

COUNT = 40

SOURCES = [
    pytest.param(HDF5DataLayer, {"cache_bytes": 0}, id="batch by batch"),
    pytest.param(HDF5DataLayer, {}, id="in memory"),
    pytest.param(AsyncHDF5DataLayer, {"chunk_size": 10}, id="ahead"),
]


def write(path: Path, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.ones((COUNT, 3, 8)), **options)
        file.create_dataset("label", data=np.arange(COUNT))
    return path


@pytest.mark.parametrize("options", [{}, {"chunks": (4, 3, 8)}, {"chunks": (4, 3, 8), "compression": "gzip"}])
@pytest.mark.parametrize(("source", "fields"), SOURCES)
def test_of_a_file_that_is_cut_nothing_is_used(
    source: type[Layer], fields: dict[str, Any], options: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    """HDF5 gives zeros for what is no longer there."""
    path = write(tmp_path / "a.h5", **options)
    size = path.stat().st_size
    read_part = HDF5Records._read_part
    parts: list[int] = []

    def cut(self: HDF5Records, *arguments: Any) -> None:
        parts.append(len(parts))
        if len(parts) == 3 or self.cached:
            self._open(0)
            os.truncate(path, size // 2)
        read_part(self, *arguments)

    monkeypatch.setattr(HDF5Records, "_read_part", cut)
    net = Net("t", [source(name="hdf5", source=path, batch_size=10, **fields)], backend="numpy")
    used: list[int] = []
    first, last = (0, COUNT - 1) if fields == {} else (20, 29)
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


@pytest.mark.parametrize(("source", "fields"), SOURCES)
def test_a_file_that_is_replaced_is_read_to_its_end(
    source: type[Layer], fields: dict[str, Any], tmp_path: Path
) -> None:
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
    read = h5py.Dataset.__getitem__

    def cut(dataset: h5py.Dataset, *arguments: Any) -> Any:
        os.truncate(path, path.stat().st_size - 8)
        return read(dataset, *arguments)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", cut)
    with pytest.raises(DataError, match=r"mean\.h5: .*cut while it was read"):
        SubMean(mean_file=path).transform(np.ones((2, 3, 8)), None, "train")


@pytest.mark.parametrize("ending", sorted({offer.name for offer in nacre.registry().offers("record")}))
def test_records_of_predict_whoever_reads_them(ending: str, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"x" * 100)

    def read(self: object, path: Path, *_: object) -> np.ndarray:
        os.truncate(path, 50)
        return np.zeros((1, 4))

    monkeypatch.setattr(type(reader_of(path)), "read", read)
    with pytest.raises(DataError, match="cut while it was read: 50 of 100 bytes are left"):
        read_inputs(NetFile(tmp_path / "net.toml", {}, ()), [path], "data", (4,))


def test_an_array_that_is_cut_behind_its_reader_is_whole(tmp_path: Path) -> None:
    """A map of the file would end the process."""
    path = tmp_path / "a.npy"
    np.save(path, np.ones((1000, 100)))
    array = reader_of(path).read(path, "data", None)
    os.truncate(path, 200)
    assert array.sum() == 100000
