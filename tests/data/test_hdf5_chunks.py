"""Chunks and texts in HDF5 files that HDF5 itself would believe: it crashes, goes in circles, or gives its memory."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mutant_formats import hdf5, hdf5_repaired
from mutants import replaced
from nacre import DataError, Net
from nacre_data import AsyncHDF5DataLayer, HDF5DataLayer, SubMean, hdf5_chunks
from nacre_data.hdf5_checks import readable
from nacre_data.hdf5_chunks import lzf_size
from nacre_data.stores.hdf5 import HDF5

NAMES = ("", "é", *(f"name {number}" for number in range(300)))


def chunked(path: Path, shape: tuple[int, ...] = (4, 1000), **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.ones(shape, np.uint8), chunks=(2, *shape[1:]), **options)
        file.create_dataset("label", data=np.zeros(shape[0], np.int64))
    return path


def stored(path: Path, data: bytes, mask: int = 0) -> Path:
    """Replace the second chunk of the data."""
    with h5py.File(path, "a") as file:
        data_set: Any = file["data"]
        data_set.id.write_direct_chunk((2, 0), data, mask)
    return path


def patched(path: Path, old: bytes, new: bytes) -> Path:
    data = path.read_bytes()
    assert data.count(old) >= 1
    assert len(old) == len(new)
    path.write_bytes(data.replace(old, new))
    return path


def read(path: Path) -> np.ndarray:
    with HDF5().open(path, ["data"]) as reader:
        return np.stack([row["data"] for row in reader.rows()])


# Chunks


@pytest.mark.parametrize("size", [0, 4, 1999, 2001, 1 << 20])
def test_a_chunk_that_unpacks_to_another_size_is_told(size: int, tmp_path: Path) -> None:
    """HDF5 would take what it lacks from its memory."""
    path = stored(chunked(tmp_path / "a.h5", compression="gzip"), zlib.compress(bytes(size)))
    told = (
        rf"a\.h5: dataset 'data': damaged: the chunk at \(2, 0\): it has {min(size, 2001):,} bytes, but should .* 2,000"
    )
    with pytest.raises(DataError, match=told):
        read(path)


def lzf(size: int) -> bytes:
    """Return so many bytes as LZF holds those that do not come again."""
    runs = [min(32, size - begin) for begin in range(0, size, 32)]
    return b"".join(bytes([run - 1]) + bytes(run) for run in runs)


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"fletcher32": True}])
@pytest.mark.parametrize("size", [1, 4, 1999, 2001, 5000])
def test_a_chunk_that_lzf_unpacks_to_another_size_is_told(size: int, options: dict[str, Any], tmp_path: Path) -> None:
    path = chunked(tmp_path / "a.h5", compression="lzf", **options)
    stored(path, lzf(size) + bytes(4 * bool(options.get("fletcher32"))))
    told = rf"a\.h5: dataset 'data': damaged: the chunk at \(2, 0\): it has {size:,} bytes, but should .* 2,000"
    with pytest.raises(DataError, match=told):
        read(path)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 5, 256]), st.integers(1, 4000))
def test_how_much_lzf_unpacks_is_known(seed: int, values: int, size: int) -> None:
    wanted = np.random.default_rng(seed).integers(0, values, size, np.uint8)
    with h5py.File(io.BytesIO(), "w") as file:
        data_set: Any = file.create_dataset("data", data=wanted, chunks=(size,), compression="lzf")
        mask, data = data_set.id.read_direct_chunk((0,))
    if not mask:  # else it does not pay, and the chunk is as it was
        assert lzf_size(data, -1) == size
        assert lzf_size(data[:-1], -1) in range(-1, size)


@pytest.mark.parametrize("layer", [HDF5DataLayer, AsyncHDF5DataLayer])
def test_sources_tell_it_too(layer: Any, tmp_path: Path) -> None:
    path = stored(chunked(tmp_path / "a.h5", compression="gzip"), zlib.compress(bytes(4)))
    options: dict[str, Any] = {"chunk_size": 4} if layer is AsyncHDF5DataLayer else {}
    with (
        Net("t", [layer(name="hdf5", source=path, batch_size=4, **options)], backend="numpy") as net,
        pytest.raises(DataError, match=r"the chunk at \(2, 0\)"),
    ):
        net.feed()


def test_a_mean_tells_it_too(tmp_path: Path) -> None:
    path = chunked(tmp_path / "a.h5", compression="gzip")
    stored(path, zlib.compress(bytes(4)))
    with h5py.File(path, "a") as file:
        file.move("data", "mean")
    with pytest.raises(DataError, match=r"the chunk at \(2, 0\)"):
        SubMean(mean_file=path).transform(np.ones((2, 4, 1000)), None, "train")


def test_a_label_by_which_records_are_drawn_tells_it_too(tmp_path: Path) -> None:
    path = chunked(tmp_path / "a.h5", compression="gzip")
    with h5py.File(path, "a") as file:
        del file["label"]
        label = file.create_dataset("label", data=np.zeros(4, np.int64), chunks=(4,), compression="gzip")
        label.id.write_direct_chunk((0,), zlib.compress(b"1"))
    layer = HDF5DataLayer(name="hdf5", source=path, batch_size=4, sampling="balanced")
    with pytest.raises(DataError, match=r"dataset 'label': damaged: the chunk at \(0,\)"):
        Net("t", [layer], backend="numpy")


@pytest.mark.parametrize("options", [{}, {"fletcher32": True}, {"compression": "gzip", "fletcher32": True}])
def test_a_chunk_of_another_size_in_the_file_is_told(options: dict[str, Any], tmp_path: Path) -> None:
    path = chunked(tmp_path / "a.h5", **options)
    with h5py.File(path) as file:
        data_set: Any = file["data"]
        size = data_set.id.get_chunk_info(1).size
    for wrong in (0, 3, 1 << 20):
        copy = tmp_path / "b.h5"
        copy.write_bytes(path.read_bytes())
        patched(copy, struct.pack("<IIQ", size, 0, 2), struct.pack("<IIQ", wrong, 0, 2))
        with pytest.raises(DataError, match=r"b\.h5: dataset 'data': damaged: the chunk at \(2, 0\)"):
            read(copy)


def test_a_chunk_elsewhere_is_told(tmp_path: Path) -> None:
    path = chunked(tmp_path / "a.h5")
    with h5py.File(path) as file:
        data_set: Any = file["data"]
        place = data_set.id.get_chunk_info(1).byte_offset
    patched(path, struct.pack("<QQ", 0, place), struct.pack("<QQ", 0, path.stat().st_size - 1999))
    with pytest.raises(DataError, match="behind the end of the file"):
        read(path)


def test_lzf_that_makes_less_room_than_a_chunk_needs_is_told(tmp_path: Path) -> None:
    path = chunked(tmp_path / "a.h5", compression="lzf")
    patched(path, struct.pack("<3I", 4, 261, 2000), struct.pack("<3I", 4, 261, 10))
    with pytest.raises(DataError, match=r"dataset 'data': its filter lzf unpacks \(10,\) bytes, but a chunk has 2,000"):
        read(path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "gzip"},
        {"compression": "lzf", "shuffle": True},
        {"compression": "gzip", "shuffle": True, "fletcher32": True},
        {"fletcher32": True},
    ],
)
def test_sound_chunks_are_read(options: dict[str, Any], tmp_path: Path) -> None:
    """With sides that are no multiples, and chunks that were never written."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data_set = file.create_dataset("data", (7, 5, 3), np.int16, chunks=(2, 2, 2), maxshape=(None, 5, 3), **options)
        data_set[:5] = np.arange(75).reshape(5, 5, 3)
        wanted = data_set[()]
    assert (read(tmp_path / "a.h5") == wanted).all()


def test_many_chunks_are_read_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of HDF5 take 5 KiB of memory for each of them."""
    wanted = np.arange(7 * 5).reshape(7, 5)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=wanted, chunks=(2, 1))
    for most in (1, 5, 9, 10, 1000):
        monkeypatch.setattr(hdf5_chunks, "AT_ONCE", most)
        with HDF5().open(tmp_path / "a.h5", ["data"]) as reader:
            for first in range(7):
                for last in range(first + 1, 8):
                    out = np.empty((last - first, 5), np.int64)
                    reader.read(np.arange(first, last), {"data": out})
                    assert (out == wanted[first:last]).all()


def test_more_chunks_than_the_file_can_hold_are_told(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", (6, 65535, 3), np.uint8, chunks=(2, 2, 3), compression="gzip")[0, 0] = 1
        file["data"].attrs["filler"] = b"x" * 8000
    with pytest.raises(DataError, match=r"dataset 'data': each record is in 32,768 chunks, for which the file, of "):
        read(tmp_path / "a.h5")


# Texts


def with_names(path: Path, **options: Any) -> Path:
    with h5py.File(path, "w", **options) as file:
        for name in ("label", "other"):
            data_set = file.create_dataset(name, data=[1, 2])
            data_set.attrs["classes"] = ["old"] * 3
            data_set.attrs["classes"] = NAMES
            for number in range(20):
                data_set.attrs[f"more {number}"] = "x" * number
    return path


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_names_of_classes_are_read(version: str, tmp_path: Path) -> None:
    """With many attributes the latest format stores them in another way."""
    with HDF5().open(with_names(tmp_path / "a.h5", libver=version)) as reader:
        assert [field.classes for field in reader.fields.values()] == [NAMES, NAMES]


def first_name(data: bytes) -> tuple[int, int, int]:
    """Return where "name 0" begins, where its heap begins, and its number there."""
    place = data.index(b"name 0")
    return place, data.rindex(b"GCOL", 0, place), struct.unpack_from("<H", data, place - 16)[0]


def test_a_heap_in_which_nothing_follows_is_told(tmp_path: Path) -> None:
    """HDF5 would stay at its object of no bytes for ever."""
    path = with_names(tmp_path / "a.h5")
    data = bytearray(path.read_bytes())
    place = first_name(data)[0]
    data[place - 16 : place] = bytes(16)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.h5: attribute 'classes' of /label: damaged: a text of"):
        HDF5().open(path)


@pytest.mark.parametrize("length", [1, 1 << 30])
def test_a_text_of_another_length_is_told(length: int, tmp_path: Path) -> None:
    """HDF5 would write it beyond its memory, or make room for all of it."""
    path = with_names(tmp_path / "a.h5")
    data = bytearray(path.read_bytes())
    _, heap, number = first_name(data)
    place = data.index(struct.pack("<IQI", 6, heap, number))
    data[place : place + 4] = struct.pack("<I", length)
    path.write_bytes(data)
    with pytest.raises(DataError, match=f"damaged: a text of {length:,} bytes is not in its heap"):
        HDF5().open(path)


def test_an_attribute_that_is_no_list_of_texts_is_told(tmp_path: Path) -> None:
    for value in (np.ones(3), h5py.Empty("S3"), np.array([(1, 2)], "i4,i4")):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("label", data=[1, 2]).attrs["classes"] = value
        with pytest.raises(DataError, match=r"a\.h5: attribute 'classes' of /label"):
            HDF5().open(tmp_path / "a.h5")


def test_two_datasets_of_one_name_are_told(tmp_path: Path) -> None:
    path = chunked(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        file.move("data", "labex")
    patched(path, b"labex", b"label")
    with pytest.raises(DataError, match="damaged: two of its names are the same: label, label"):
        HDF5().open(path)


newer_hdf5 = pytest.mark.skipif(
    h5py.version.hdf5_version_tuple < (2,), reason="older HDF5 lays files of its latest format out in another way"
)


def latest(path: Path, place: int, number: bytes) -> Path:
    """Write a file of the latest format, in which checksums are right, with other bytes at a place."""
    data = hdf5(libver="latest", compression="lzf")()["x.h5"]
    place += data.index(b"EAHD") if place > 8 else data.index(struct.pack("<III", 16, 0x10, 1))
    path.write_bytes(hdf5_repaired(replaced(data, place, number)))
    return path


@newer_hdf5
def test_letters_of_many_bytes_are_told(tmp_path: Path) -> None:
    """HDF5 would make room for as many of them as there are letters."""
    path = latest(tmp_path / "a.h5", 8, struct.pack("<I", 0x26000001))
    with pytest.raises(
        DataError, match=r"a\.h5: attribute 'classes' of /label: damaged: a text of 4,294,967,295 bytes"
    ):
        HDF5().open(path)


@newer_hdf5
def test_an_index_that_says_it_has_any_number_of_chunks_is_not_followed(tmp_path: Path) -> None:
    """To find one that is not there, HDF5 would go through all of them."""
    path = latest(tmp_path / "a.h5", 44, struct.pack("<Q", 1 << 60))
    with HDF5().open(path) as reader, pytest.raises(DataError, match=r"damaged: its index says it has 1,152,921,"):
        list(reader.rows())


def test_the_index_of_a_dataset_that_cannot_grow_is_not_followed_either(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file.create_dataset("data", data=np.ones((6, 4)), chunks=(2, 4))
    data = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "a.h5").write_bytes(hdf5_repaired(replaced(data, data.index(b"FAHD") + 8, struct.pack("<Q", 1 << 31))))
    with pytest.raises(DataError, match=r"a\.h5: dataset 'data': damaged: its index says it has 2,147,483,648 chunks"):
        read(tmp_path / "a.h5")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("most", [None, 1000])
def test_chunks_that_were_never_written_are_filled(libver: str, most: int | None, tmp_path: Path) -> None:
    """Of a dataset that can grow and of one that cannot, which have different indexes."""
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        data = file.create_dataset("data", (999, 4), np.uint8, chunks=(2, 4), maxshape=(most, 4), fillvalue=5)
        data[500:503] = np.arange(12).reshape(3, 4)
        data[998] = 7
    expected = np.full((999, 4), 5, np.uint8)
    expected[500:503], expected[998] = np.arange(12).reshape(3, 4), 7
    assert (read(tmp_path / "a.h5") == expected).all()


def test_whatever_h5py_raises_is_told() -> None:
    """Version 3.10 looks for the level of gzip in an empty tuple if a damaged file has none."""
    for error in (IndexError("tuple index out of range"), KeyError("name"), TypeError("no type"), RuntimeError("x")):
        with pytest.raises(DataError, match=r"^a\.h5: cannot be read as HDF5: "), readable("a.h5"):
            raise error
