"""Files of records: what is written is read back, and what is no such file is told."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import nacre
from nacre import DataError
from nacre.records import reader_of, writer_of

ARRAY = np.random.default_rng(0).normal(size=(5, 2, 3))


def endings(kind: str) -> list[str]:
    return sorted({offer.name for offer in nacre.registry().offers(kind)})


@pytest.mark.parametrize("ending", [name for name in endings("output") if name in endings("record")])
def test_what_is_written_is_read_back(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"blobs.{ending.upper()}"
    writer_of(path).write(path, {"prob": ARRAY})
    read = reader_of(path).read(path, "prob", (2, 3))
    assert np.allclose(read.reshape(ARRAY.shape), ARRAY, rtol=1e-8)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", endings("output"))
def test_a_file_that_says_several_holds_several(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"blobs.{ending}"
    writer = writer_of(path)
    if writer.several:
        writer.write(path, {"prob": ARRAY, "ip1": ARRAY[0]})
        opened = np.load(path) if ending == "npz" else h5py.File(path)
        with opened as file:
            assert sorted(file) == ["ip1", "prob"]
            assert np.array_equal(file["ip1"], ARRAY[0])
    else:
        with pytest.raises(ValueError, match="too many values"):
            writer.write(path, {"prob": ARRAY, "ip1": ARRAY[0]})


@pytest.mark.parametrize("ending", endings("record"))
def test_bad_bytes_are_told(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"bad.{ending}"
    path.write_bytes(b"\x89 nothing of this kind \xff")
    if reader_of(path).__class__.__name__ == "PictureReader":
        pytest.importorskip("PIL")
    with pytest.raises(DataError, match=f"bad.{ending}"):
        reader_of(path).read(path, "data", (1, 2, 3))


def test_a_dataset_that_leads_out_of_its_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "linked.h5"
    with h5py.File(path, "w") as file:
        file["data"] = h5py.ExternalLink("/etc/other.h5", "data")
    with pytest.raises(DataError, match="a link by name, which may lead out of the file"):
        reader_of(path).read(path, "data", None)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    for ending in endings("output"):
        path = tmp_path / "no" / f"x.{ending}"
        with pytest.raises(DataError, match="cannot be written"):
            writer_of(path).write(path, {"prob": ARRAY})
    assert list(tmp_path.iterdir()) == []


def test_two_readers_of_one_ending_clash_until_a_pin_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nacre.registry, "_registry", nacre.registry.Registry())  # type: ignore[attr-defined]

    class Other(nacre.RecordReader):
        pass

    nacre.registry().register(Other, "csv", distribution="acme")
    with pytest.raises(nacre.RegistryError, match="record 'csv' is offered by acme and nacre"):
        reader_of(tmp_path / "x.csv")
    assert isinstance(reader_of(tmp_path / "x.csv", {"record:csv": "acme"}), Other)
