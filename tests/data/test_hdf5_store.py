"""Snapshots as HDF5: what goes in comes out, what is damaged is seen, and a hostile file gets nowhere."""

import functools
import hashlib
import io
import json
import os
import random
import string
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nacre.errors import DataError, SnapshotError
from nacre.snapshots.snapshot import FORMS, Snapshot
from nacre_data.hdf5_checks import check_dataset, open_hdf5
from nacre_data.hdf5_store import HDF5Store

MANY = int(os.environ.get("NACRE_TRIALS", "1000"))
STORE = HDF5Store()
NO_PARTS = (".", "..", "history", "fitted")  # numbers in "history/" and "fitted/" must be real
PARTS = st.text(string.ascii_letters + " _-.%é層", min_size=1, max_size=8).filter(lambda part: part not in NO_PARTS)
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
NUMBERS = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes()
    | hnp.unsigned_integer_dtypes()
    | hnp.floating_dtypes()
    | hnp.complex_number_dtypes()
)
ARRAYS = hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
KEYS = st.text().filter(lambda key: key not in FORMS)  # hypothesis draws words of the code too: "freeze" must be a list
STATES = st.dictionaries(KEYS, JSON, max_size=4)


@functools.cache
def encoded() -> bytes:
    arrays = {"parameters/ip1/weight": np.arange(6.0).reshape(2, 3), "memory/train/order": np.arange(5)}
    return STORE.encode(Snapshot(500, arrays, {"seed": 1, "lr": {"base": 0.01}}))


def signed(content: bytes) -> bytes:
    """Make a file as somebody hostile would: the digest is right."""
    block = f"nacre snapshot\nformat 1\nsha256 {hashlib.sha256(content).hexdigest()}\nbytes {len(content)}\n"
    return block.encode().ljust(512, b"\0") + content


# Whole and damaged files


def check_what_comes_out(iteration: int, arrays: dict[str, Any], state: dict[str, Any]) -> None:
    folders = {name[:end] for name in arrays for end, letter in enumerate(name) if letter == "/"}
    arrays = {name: array for name, array in arrays.items() if name not in folders}
    data = STORE.encode(Snapshot(iteration, arrays, state))
    back = STORE.decode(data, "x.h5")
    assert back.iteration == iteration
    assert back.state == state
    assert list(back.arrays) == list(arrays)
    for name, array in arrays.items():
        assert back.arrays[name].dtype == array.dtype
        assert back.arrays[name].shape == array.shape
        assert back.arrays[name].tobytes() == array.tobytes()
        assert back.arrays[name].flags.writeable
    if h5py.version.hdf5_version_tuple >= (2, 0, 0):  # before, HDF5 writes the time into groups
        assert STORE.encode(back) == data


anything = given(st.integers(0, 10**18 - 1), st.dictionaries(NAMES, ARRAYS, max_size=5), STATES)
test_what_goes_in_comes_out = settings(max_examples=60)(anything(check_what_comes_out))
test_much_that_goes_in_comes_out = pytest.mark.long(settings(max_examples=MANY)(anything(check_what_comes_out)))


@pytest.mark.parametrize("kind", ["?", "u1", "i1", "u2", "u8", "i8", "f2", "f4", "f8", "c8", "c16", ">f4", ">u8"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3)])
def test_every_kind_of_number(kind: str, shape: tuple[int, ...]) -> None:
    bits = random.Random(0).randbytes(6 * np.dtype(kind).itemsize)
    array = np.frombuffer(bytes(b & 1 for b in bits) if kind == "?" else bits, kind).copy()  # NaNs and all
    array = np.resize(array, shape)
    back = STORE.decode(memoryview(STORE.encode(Snapshot(0, {"a": array}, {}))), "x.h5").arrays["a"]
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, shape, array.tobytes())


def test_any_layout_in_memory_gives_the_same_bytes() -> None:
    array = np.arange(24.0).reshape(4, 6)
    files = {STORE.encode(Snapshot(1, {"a": version}, {})) for version in (array, np.asfortranarray(array), array + 0)}
    assert len(files) == 1


def test_a_long_state() -> None:
    state = {"order": list(range(100_000)), "text": "é\0\ud800", "limit": float("inf")}  # an attribute ends at 64 KiB
    assert STORE.decode(STORE.encode(Snapshot(1, {}, state)), "x.h5").state == state


def test_other_programs_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "snapshot-000500.h5"
    path.write_bytes(encoded())
    assert encoded().startswith(b"nacre snapshot\nformat 1\nsha256 ")
    with h5py.File(path) as file:
        assert file.userblock_size == 512
        assert json.loads(file["snapshot"].asstr()[()])["iteration"] == 500
        np.testing.assert_array_equal(file["arrays/parameters/ip1/weight"][()], [[0, 1, 2], [3, 4, 5]])


def test_a_flipped_bit_is_seen_at_every_position() -> None:
    data = bytearray(encoded())
    for position in range(len(data)):
        for bit in (1, 128):
            data[position] ^= bit
            with pytest.raises(SnapshotError, match=r"^x\.h5: "):
                STORE.decode(data, "x.h5")
            data[position] ^= bit
    STORE.decode(data, "x.h5")


def test_the_library_sees_nothing_that_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h5py, "File", lambda *_, **__: pytest.fail("opened"))
    for position in (0, 100, 511, 512, len(encoded()) - 1):
        data = bytearray(encoded())
        data[position] ^= 16
        with pytest.raises(SnapshotError):
            STORE.decode(data, "x.h5")


def test_a_cut_is_seen_at_every_length() -> None:
    data = encoded()
    for length in range(0, len(data), 64):
        with pytest.raises(SnapshotError, match="truncated" if length else "empty"):
            STORE.decode(data[:length], "x.h5")
    with pytest.raises(SnapshotError, match="damaged"):
        STORE.decode(data + b"\0", "x.h5")


@pytest.mark.parametrize("trials", [50, pytest.param(MANY, marks=pytest.mark.long)])
def test_mutants_are_seen(trials: int) -> None:
    draw = random.Random(1)
    for _ in range(trials * 100):
        data = bytearray(encoded())
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(draw.choice((512, len(data))))] = draw.randrange(256)
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        if data != encoded():
            with pytest.raises(SnapshotError):
                STORE.decode(data, "x.h5")


@pytest.mark.parametrize(
    "header",
    [
        "[]", "{}", "[" * 100_000, "3", '{"iteration": 1, "arrays": ["a"], "state": {}}',
        '{"iteration": -1, "arrays": [], "state": {}}', '{"iteration": "1", "arrays": [], "state": {}}',
        '{"iteration": 1, "arrays": [3], "state": {}}', '{"iteration": 1, "arrays": [], "state": 3}',
        '{"iteration": 1, "arrays": ["../big", "x\\u0000"], "state": {}}',
        '{"iteration": 1, "arrays": ["big", "same"], "state": {}}',
    ],
)  # fmt: skip
def test_a_hostile_file_with_a_right_digest(header: str) -> None:
    memory = io.BytesIO()
    with h5py.File(memory, "w", userblock_size=512) as file:
        file.create_dataset("snapshot", data=header.encode(), dtype=h5py.string_dtype("utf-8", len(header)))
        file["arrays/big"] = np.zeros(2**16)
        file["arrays/same"] = file["arrays/big"]
    with pytest.raises(SnapshotError, match=r"^x\.h5: "):
        STORE.decode(signed(memory.getvalue()[512:]), "x.h5")
    for content in (b"", b"hello", header.encode()):
        with pytest.raises(SnapshotError, match=r"^x\.h5: "):
            STORE.decode(signed(content), "x.h5")


def test_a_packed_bomb_with_a_right_digest() -> None:
    memory = io.BytesIO()
    header = b'{"iteration": 1, "arrays": ["a"], "state": {}}'
    with h5py.File(memory, "w", userblock_size=512) as file:
        file["snapshot"] = np.bytes_(header)
        file.create_dataset("arrays/a", data=np.zeros(10**6), compression="gzip", compression_opts=9)
    with pytest.raises(SnapshotError, match="larger than the file"):
        STORE.decode(signed(memory.getvalue()[512:]), "x.h5")


def test_chunks_are_refused_with_a_right_digest_too() -> None:
    """This one unpacks to nothing: HDF5 would take what it lacks from its memory."""
    memory = io.BytesIO()
    with h5py.File(memory, "w", userblock_size=512) as file:
        file["snapshot"] = np.bytes_(b'{"iteration": 1, "arrays": ["a"], "state": {}}')
        array = file.create_dataset("arrays/a", (100,), "f4", chunks=(100,), compression="gzip")
        array.id.write_direct_chunk((0,), zlib.compress(b""))
    with pytest.raises(SnapshotError, match=r"x\.h5: its arrays are in chunks, in which nacre writes none"):
        STORE.decode(signed(memory.getvalue()[512:]), "x.h5")


# HDF5 files of others


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with everything that must be refused, and what may be read."""
    (tmp_path / "secret").write_bytes(b"password")
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["data"] = np.arange(8)
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["plain"] = np.arange(8)
        file["group/nested"] = np.arange(8)
        file.create_dataset("gzip", data=np.zeros(2**20, "u1"), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("lzf", data=np.zeros(2**20, "u1"), compression="lzf")
        file.create_dataset("external", shape=8, dtype="u1", external=[(str(tmp_path / "secret"), 0, 8)])
        file["link"] = h5py.ExternalLink("other.h5", "/data")
        file["soft"] = h5py.SoftLink("/plain")
        file["softly"] = h5py.SoftLink("/link")
        file["away"] = h5py.ExternalLink("other.h5", "/")
        file.create_dataset("bomb", shape=(2**40,), dtype="f4", chunks=(1024,))
        file.create_dataset("overflow", shape=(2**40, 2**40), dtype="f4", chunks=(1, 1024))
        file.create_dataset("chunk", shape=(1,), dtype="f4", maxshape=(None,), chunks=(2**29,), compression="gzip")
        file.create_dataset("scaled", data=np.arange(8), scaleoffset=0)
        file["text"] = ["words"]
        file["null"] = h5py.Empty("f4")
        layout = h5py.VirtualLayout(shape=(8,), dtype="i8")
        layout[:] = h5py.VirtualSource("other.h5", "data", shape=(8,))
        file.create_virtual_dataset("virtual", layout)
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((1024,))
        plan.set_deflate(9)
        plan.set_deflate(9)
        space = h5py.h5s.create_simple((2**20,))
        h5py.h5d.create(file.id, b"twice", h5py.h5t.NATIVE_DOUBLE, space, plan)
    return path


@pytest.mark.parametrize("name", ["plain", "/plain", "group/nested", "gzip", "lzf"])
def test_plain_datasets_are_read(path: Path, name: str) -> None:
    with open_hdf5(path, max_bytes=0) as file:
        assert file.dataset(name)[()].sum() in (0, 28)


REFUSED = {
    "external": "in another file",
    "virtual": "virtual",
    "link": "'link' .*link",
    "soft": "'soft' .*link",
    "softly": "'softly' .*link",
    "away/data": "'away' .*link",
    "bomb": "4,398,046,511,104 bytes",
    "overflow": "declares 4,835,703,278,458,516,698,824,704 bytes",
    "chunk": "declares 2,147,483,648 bytes",
    "twice": "compressed 2 times",
    "scaled": "needs HDF5 filter 6",
    "text": " object",
    "null": "no shape",
    "group": "a group",
    "": "a file",
    "plain/more": "'/plain' .*group",
    "plane": r"'/' \(did you mean 'plain'\?\)",
    "pl\0ain": "",
    "\udcff": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(path: Path, name: str) -> None:
    (path.parent / "secret").unlink()  # a file that is looked for would give another message
    (path.parent / "other.h5").unlink()
    with open_hdf5(path) as file, pytest.raises(DataError, match=rf"data\.h5: dataset .*: .*{REFUSED[name]}"):
        file.dataset(name)


@pytest.mark.parametrize("name", ["external", "virtual", "bomb", "overflow", "chunk", "twice", "scaled", "text"])
def test_a_dataset_that_was_opened_elsewhere(path: Path, name: str) -> None:
    with h5py.File(path) as file, pytest.raises(DataError, match=rf"^mine: .*{REFUSED[name]}"):
        check_dataset(file[name], "mine")


def test_what_is_meant_can_be_allowed(path: Path) -> None:
    with open_hdf5(path, max_bytes=2**42) as file:
        assert file.dataset("bomb")[5] == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this file is empty"),
        (b"hello" * 1000, "not an HDF5 file"),
        (encoded()[:1500], "truncated"),
        (encoded()[:600], "truncated|cannot be read as HDF5"),
        (encoded()[:512] + b"\x89HDF\r\n\x1a\n" + bytes(2000), "cannot be read as HDF5"),
    ],
    ids=["empty", "text", "cut", "cut early", "no HDF5 behind its first bytes"],  # the bytes hold the time of writing
)
def test_what_is_no_hdf5(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.h5").write_bytes(data)
    with pytest.raises(DataError, match=rf"x\.h5: .*({message})"):
        open_hdf5(tmp_path / "x.h5")


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.h5: no such file"):
        open_hdf5(tmp_path / "none.h5")
    with pytest.raises(DataError, match="not a file"):
        open_hdf5(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: not a file"):
        open_hdf5(tmp_path / "pipe")
