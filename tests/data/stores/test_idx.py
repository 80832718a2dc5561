"""IDX, the format of MNIST, as a store."""

from __future__ import annotations

import errno
import gzip
import os
import struct
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from nacre import DataError, Field, open_records
from nacre.testing import StoreTests
from nacre_data import IDX

CODES = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}
IMAGES = bytes.fromhex("00000803 00000002 00000002 00000003 000102030405 fafbfcfdfeff")
LABELS = bytes.fromhex("00000801 00000002 0709")
PIXELS = np.array([[[[0, 1, 2], [3, 4, 5]]], [[[250, 251, 252], [253, 254, 255]]]], np.uint8)


class PackedIDX(IDX):
    """As IDX, for tests that take the first ending."""

    endings = ("-ubyte.gz",)


def write(path: Path, content: bytes, *, packed: bool = False) -> Path:
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def header(code: int, *shape: int) -> bytes:
    return struct.pack(f">2x2B{len(shape)}I", code, len(shape), *shape)


def problem(path: Path, fields: Sequence[str] = (), named: Path | None = None) -> str:
    with pytest.raises(DataError) as caught, open_records([path], fields, store=IDX()):
        pass
    assert str(named or path) in str(caught.value)
    return str(caught.value)


class TestIDX(StoreTests):
    store = IDX()

    def fields(self):
        return {"data": Field((1, 2, 3), "uint8")}


class TestPackedIDX(TestIDX):
    store = PackedIDX()


class TestLabels(StoreTests):
    store = IDX()

    def fields(self):
        return {"data": Field((), "uint8")}


class TestFloats(StoreTests):
    store = IDX()

    def fields(self):
        return {"data": Field((3, 2, 2), "float64")}


@pytest.mark.parametrize("packed", [False, True])
class TestImagesAndLabels(TestIDX):
    @pytest.fixture(autouse=True)
    def _packed(self, packed: bool) -> None:
        self.packed = packed

    def make(self, folder: Path):
        ending = ".gz" * self.packed
        write(folder / f"t-labels-idx1-ubyte{ending}", LABELS, packed=self.packed)
        images = write(folder / f"t-images-idx3-ubyte{ending}", IMAGES, packed=self.packed)
        return images, {"data": PIXELS, "label": np.array([7, 9])}


# The bytes


@pytest.mark.parametrize("dtype", CODES)
def test_every_type_is_read_and_written_as_it_is_defined(dtype: str, tmp_path: Path) -> None:
    values = np.array([[1, 2], [3, 100]], dtype)
    path = tmp_path / "some.idx"
    with IDX().create(path, {"x": Field((2,), dtype)}) as writer:
        writer.append({"x": values})
    assert path.read_bytes() == header(CODES[dtype], 2, 2) + values.astype(np.dtype(dtype).newbyteorder(">")).tobytes()
    with IDX().open(path, ["x"]) as reader:
        assert reader.fields == {"x": Field((2,), dtype)}
        assert [row["x"].tolist() for row in reader.rows()] == values.tolist()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_images_and_labels_are_written_as_two_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"t-images-idx3-ubyte{ending}"
    fields = {"data": Field((1, 2, 3), "uint8"), "label": Field((), "int64", classes=tuple("0123456789"))}
    with IDX().create(path, fields) as writer:
        writer.append({"data": PIXELS[:1], "label": np.array([7])})
        writer.append({"data": PIXELS[1:], "label": np.array([9])})
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        f"t-images-idx3-ubyte{ending}",
        f"t-labels-idx1-ubyte{ending}",
    ]
    unpack = gzip.decompress if ending else bytes
    assert unpack(path.read_bytes()) == IMAGES
    assert unpack((tmp_path / f"t-labels-idx1-ubyte{ending}").read_bytes()) == LABELS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    dtype=st.sampled_from(sorted(CODES)),
    shape=array_shapes(min_dims=1, max_dims=4, max_side=4),
    ending=st.sampled_from([".idx", ".idx.gz"]),
)
def test_what_is_written_is_read(data, dtype: str, shape: tuple[int, ...], ending: str, tmp_path: Path) -> None:
    values = data.draw(arrays(dtype, shape))
    path = tmp_path / f"some{ending}"
    with IDX().create(path, {"data": Field(shape[1:], dtype)}) as writer:
        writer.append({"data": values[:1]})
        writer.append({"data": values[1:]})
    with IDX().open(path) as reader:
        found = np.stack([row["data"] for row in reader.rows()])
    assert found.dtype == values.dtype
    assert found.reshape(shape).tobytes() == values.tobytes()
    assert found.shape == ((shape[0], 1, *shape[1:]) if len(shape) == 3 else shape)


def test_an_empty_set_stays_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.idx", header(8, 0, 28, 28))
    with IDX().open(path) as reader:
        assert (reader.count, reader.fields["data"].shape, list(reader.rows())) == (0, (1, 28, 28), [])


# Images and labels


def test_labels_are_found_packed_or_not(tmp_path: Path) -> None:
    images = write(tmp_path / "a.images.idx3-ubyte", IMAGES)
    images = images.rename(tmp_path / "a-images.idx3-ubyte")
    write(tmp_path / "a-labels.idx1-ubyte.gz", LABELS, packed=True)
    with IDX().open(images, ["picture", "digit"]) as reader:
        assert [int(row["digit"]) for row in reader.rows()] == [7, 9]
        assert set(reader.fields) == {"picture", "digit"}
    with IDX().open(images, ["label"]) as reader:
        assert [int(row["label"]) for row in reader.rows()] == [7, 9]
    with IDX().open(images, ["data"]) as reader:
        assert set(reader.fields) == {"data"}
    with IDX().open(tmp_path / "a-labels.idx1-ubyte.gz") as reader:
        assert reader.fields == {"data": Field((), "uint8")}


def test_missing_labels_are_an_error_if_they_are_wanted(tmp_path: Path) -> None:
    images = write(tmp_path / "t-images-idx3-ubyte", IMAGES)
    with IDX().open(images) as reader:
        assert set(reader.fields) == {"data"}
    told = problem(images, ["data", "label"])
    assert "'label'" in told and "t-labels-idx1-ubyte or t-labels-idx1-ubyte.gz" in told
    assert "put the file with the labels there" in told
    assert "only a file X-images-idx3-ubyte" in problem(write(tmp_path / "a.idx", IMAGES), ["data", "label"])
    assert "3 fields are wanted: a, b, c" in problem(images, ["a", "b", "c"])


def test_labels_that_do_not_fit_are_told(tmp_path: Path) -> None:
    images = write(tmp_path / "t-images-idx3-ubyte", IMAGES)
    labels = write(tmp_path / "t-labels-idx1-ubyte", header(8, 3) + b"abc")
    told = problem(images)
    assert told.startswith(f"{labels}: it has 3 labels, but {images} has 2 images")
    write(labels, header(8, 2, 2) + b"abcd")
    told = problem(images, named=labels)
    assert told == f"{labels}: a label must be one number, but its records have the shape (2,)"


def test_fields_that_have_no_room_are_told(tmp_path: Path) -> None:
    picture, label = Field((1, 2, 3), "uint8"), Field((), "int64")
    for name, fields, told in (
        ("a.idx", {"data": picture, "label": label}, "2 fields: data, label"),
        ("a-images-idx3-ubyte", {"data": picture, "more": picture}, "2 fields: data, more"),
        ("a.idx", {"data": Field((2,), "int64")}, "'data' has the type int64"),
        ("a.idx", {"data": Field(None, "uint8")}, "differs in shape"),
    ):
        with pytest.raises(DataError, match=told):
            IDX().create(tmp_path / name, fields)
    with pytest.raises(DataError, match="nothing can be appended"):
        IDX().create(tmp_path / "a.idx", {"data": picture}, append=True)
    assert list(tmp_path.iterdir()) == []


def test_a_label_that_is_no_byte_is_told_with_its_record(tmp_path: Path) -> None:
    fields = {"data": Field((1, 2, 3), "uint8"), "label": Field((), "int64")}
    path = tmp_path / "t-images-idx3-ubyte"
    for keys, key in ((["cat.png", "dog.png"], "dog.png"), ([], "record 1")):
        with (
            pytest.raises(DataError, match=f"{key}: 'label' is 256, but the file can hold 0 to 255"),
            IDX().create(path, fields) as writer,
        ):
            writer.append({"data": PIXELS, "label": np.array([255, 256])}, keys)
        assert list(tmp_path.iterdir()) == []


def test_labels_of_other_images_are_not_replaced(tmp_path: Path) -> None:
    labels = write(tmp_path / "t-labels-idx1-ubyte", LABELS)
    fields = {"data": Field((1, 2, 3), "uint8"), "label": Field((), "uint8")}
    with pytest.raises(DataError, match=r"it is there already, and would become the labels of t-images-idx3-ubyte"):
        IDX().create(tmp_path / "t-images-idx3-ubyte", fields)
    assert labels.read_bytes() == LABELS


# Bad files


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "this is not an IDX file: it begins with b''"),
        (b"\0\0\x0a\x01" + b"\0\0\0\1" + b"\0\0", "this is not an IDX file"),
        (b"\1\0\x08\x01" + b"\0\0\0\1" + b"\0", "this is not an IDX file"),
        (header(8), "a single value"),
        (header(8, *[1] * 33) + b"\0", "33 axes, but 32 are possible"),
        (header(8, 2, 3)[:-1], "truncated: its header has 11 of 12 bytes"),
        (header(8, 2, 3) + bytes(5), "truncated: it declares an array of shape (2, 3) and type uint8, 6 bytes"),
        (header(8, 2, 3) + bytes(7), "damaged: it declares an array of shape (2, 3) and type uint8, 6 bytes"),
        (header(8, 2, 0, 3), "records of shape (0, 3), which hold no number"),
        (header(8, 0, 2**32 - 1, 2**32 - 1, 2**32 - 1), "(0, 4294967295, 4294967295, 4294967295)"),
    ],
)
def test_bad_headers_are_told(content: bytes, told: str, packed: bool, tmp_path: Path) -> None:
    assert told in problem(write(tmp_path / "a.idx", content, packed=packed))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("first", [2**31, 2**32 - 1])
def test_more_than_is_there_is_not_allocated(first: int, packed: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "a.idx", header(14, first, 28, 28) + bytes(100), packed=packed)
    tracemalloc.start()
    told = problem(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"{first * 784 * 8:,} bytes, but has 100" in told
    assert peak < 8 << 20


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.idx.gz"
    with gzip.open(path, "wb") as file:
        file.write(header(8, 100 << 20))
        for _ in range(100):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    told = problem(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"it is packed too well: 68,157,440 bytes or more in {path.stat().st_size:,}" in told
    assert "unpack it with gunzip" in told
    assert peak < 8 << 20


def test_no_room_for_unpacking_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> BinaryIO:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = write(tmp_path / "a.idx.gz", IMAGES, packed=True)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert "cannot be unpacked into a temporary file: No space left on device" in problem(path)


def test_damage_in_a_packed_file_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.idx.gz", IMAGES, packed=True)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1  # of the checksum
    path.write_bytes(data)
    assert "damaged: CRC check failed" in problem(path)


def test_a_file_that_is_changed_meanwhile_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.idx", IMAGES)
    with IDX().open(path) as reader:
        path.write_bytes(IMAGES[:-1])
        with pytest.raises(DataError, match="the file was cut"):
            list(reader.rows())
