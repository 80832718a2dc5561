"""Records whose bytes codecs turn into numbers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import Codec, DataError, Field, Reader, Store, default, open_records, store_of, store_to_write
from nacre.net.records import PACKED
from nacre.protocols.data_store import empty_rows


@pytest.mark.parametrize("given", [str, Path, lambda path: [str(path)], lambda path: (path,)])
def test_a_path_or_several(tmp_path: Path, given: Any) -> None:
    np.savez(tmp_path / "a.npz", data=np.arange(6).reshape(3, 2), label=np.arange(3))
    for fields in ("label", ["label"]):
        with open_records(given(tmp_path / "a.npz"), fields) as reader:
            assert [*reader.fields] == ["label"] and reader.count == 3


class Digits(Codec):
    """Two digits as text."""

    def describe(self, data: bytes) -> Mapping[str, Field]:
        return {"data": Field((2,), "uint8")}

    def decode(self, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, np.ndarray]:
        if not data.isdigit():
            raise DataError(f"{data!r} is no number")
        return {"data": np.array([*map(int, data.decode())], np.uint8)}


class Texts(Store):
    """Texts of two digits; the label is the number of the record."""

    count: int = 100
    bad: int = -1
    codec: str = "Digits"
    reads: Any = default(())

    def open(self, path: Path, fields: Any = ()) -> Reader:
        return TextsReader(self)


class TextsReader(Reader):
    def __init__(self, store: Texts) -> None:
        self.store = store
        self.count: int | None = store.count
        data = Field(None, "uint8", codec=store.codec) if store.codec else Field((2,), "uint8")
        self.fields = {"data": data, "label": Field((), "int64")}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        if self.store.reads != ():
            self.store.reads.append(([*out], len(numbers)))
        if "data" in out:
            out["data"][:] = [b"??" if number == self.store.bad else b"%02d" % number for number in numbers]
        if "label" in out:
            out["label"][:] = numbers


def read(reader: Reader, numbers: list[int], *names: str) -> dict[str, np.ndarray]:
    out = {name: np.zeros((len(numbers), *(reader.fields[name].shape or ())), np.int64) for name in names}
    reader.read(np.array(numbers), out)
    return out


@pytest.mark.parametrize("threads", [1, 3])
def test_bytes_are_decoded(threads: int) -> None:
    options: Any = {"store": Texts(), "codec": Digits(), "shapes": {"data": (2,)}, "threads": threads}
    with open_records([Path("a")], **options) as reader, open_records([Path("a"), Path("b")], **options) as joined:
        numbers = [*range(99, -1, -1), 0, 42]
        rows = read(reader, numbers, "data", "label")
        assert rows["data"].tolist() == [[*divmod(number, 10)] for number in numbers]
        assert rows["label"].tolist() == numbers
        assert joined.count == 200
        assert read(joined, [199, 7, 105], "data")["data"].tolist() == [[9, 9], [0, 7], [0, 5]]


def test_few_bytes_are_in_memory_at_a_time_and_only_what_is_wanted_is_read() -> None:
    reads: list[tuple[list[str], int]] = []
    store = Texts(reads=reads)
    with open_records([Path("a")], store=store, codec=Digits(), shapes={"data": (2,)}) as reader:
        reads.clear()
        read(reader, [*range(2 * PACKED + 1)], "data")
        assert reads == [(["data"], PACKED), (["data"], PACKED), (["data"], 1)]
        reads.clear()
        read(reader, [*range(2 * PACKED + 1)], "label")
        assert reads == [(["label"], 2 * PACKED + 1)]


def test_a_record_that_cannot_be_decoded_is_named() -> None:
    options: Any = {"store": Texts(bad=70), "codec": Digits(), "shapes": {"data": (2,)}}
    with open_records([Path("a")], **options) as reader, pytest.raises(DataError) as caught:
        read(reader, [1, 70], "data")
    assert caught.value.args[0] == "a: record 70: b'??' is no number"
    with open_records([Path("a"), Path("b")], **options) as reader, pytest.raises(DataError) as caught:
        read(reader, [1, 170], "data")
    assert caught.value.args[0] == "b: record 70: b'??' is no number"


class Late(Digits):
    """Records are decoded only after one has failed."""

    def __init__(self) -> None:
        super().__init__()
        vars(self).update(failed=threading.Event(), done=[])

    def decode(self, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, np.ndarray]:
        if data == b"??":
            vars(self)["failed"].set()
        else:
            assert vars(self)["failed"].wait(60)
            vars(self)["done"].append(data)
        return super().decode(data, shapes)


def test_after_an_error_no_thread_decodes_any_more() -> None:
    codec = Late()
    options: Any = {"store": Texts(bad=1), "codec": codec, "shapes": {"data": (2,)}, "threads": 3}
    vars(codec)["failed"].set()  # for the first record, which tells what the fields are
    with open_records([Path("a")], **options) as reader:
        vars(codec)["failed"].clear()
        with pytest.raises(DataError, match="record 1:"):
            read(reader, [*range(1, 20)], "data")
    assert len(vars(codec)["done"]) == 18


def test_bytes_may_stay_as_they_are() -> None:
    with open_records([Path("a"), Path("b")], store=Texts(), codec=None) as reader:
        out: dict[str, Any] = {"data": [b""] * 2}
        reader.read(np.array([3, 104]), out)
        assert out["data"] == [b"03", b"04"]


class Either(Store):
    """Numbers, or bytes if the path says so."""

    def open(self, path: Path, fields: Any = ()) -> Reader:
        return TextsReader(Texts(codec="Digits" if path.name == "bytes" else ""))


@pytest.mark.parametrize(("first", "second"), [("bytes", "numbers"), ("numbers", "bytes")])
def test_files_must_be_stored_alike(first: str, second: str) -> None:
    with pytest.raises(DataError, match=f"^{second}: 'data' is stored as .*, but in {first} as "):
        open_records([Path(first), Path(second)], store=Either(), codec=Digits())


def test_what_no_store_reads(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.heic").touch()
    errors = {
        "photo": r"photo: no such file or folder\n  did you mean .*photos\?",
        "photos/*.heic": r"photos/\*\.heic: no such file or folder\n",
        "photos": r"photos: there is nothing in this folder .* has: .*pictures that end in \.bmp, .* \(Pictures\)",
        "photos/a.heic": r"no store is installed for files that end in '\.heic'",
    }
    for name, error in errors.items():
        with pytest.raises(DataError, match=error):
            store_of(tmp_path / name)
    for name, error in {"new": "new: its name has no ending", "new.xyz": r"files that end in '\.xyz'"}.items():
        with pytest.raises(DataError, match=error):
            store_to_write(tmp_path / name)


def test_no_file_has_so_long_a_name() -> None:
    with pytest.raises(DataError, match=r"'once upon a time .*'\.\.\.: no file has so long a name"):
        store_of("once upon a time " * 30)


def test_what_a_reader_does_not_write_is_0() -> None:
    """And not what was in its memory before, which a loss would take for wrong labels."""
    used = [np.full(4, -7) for _ in range(100)]
    del used
    assert empty_rows({"label": Field((), "int64")}, 4)["label"].tolist() == [0, 0, 0, 0]
