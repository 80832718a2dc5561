"""Files from somebody hostile: each is refused with a sentence, and nothing outside of them is opened."""

from __future__ import annotations

import ctypes
import gzip
import io
import os
import pickle
import struct
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from mutant_formats import npy, packed_tuples
from nacre import DataError, open_records, store_of
from nacre_data.codecs.datum import Datum
from nacre_data.codecs.wire import field

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells who opens which file")
MIB = 1 << 20
OPEN, ACCESS = 0x20, 0x1  # of inotify
Attack = Callable[[Path, Path], Path]
"""Writes a file into a folder that leads to, or stands for, files in another one; returns what is opened."""


class Secrets:
    """Files that nobody may open: records of several formats, which could be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        np.save(folder / "secret.npy", np.ones((4, 2)))
        with h5py.File(folder / "secret.h5", "w") as file:
            file["data"] = np.ones((4, 2))
        for name in ("data_batch_1.bin", "labels"):
            (folder / name).write_bytes(bytes(3073))
        (folder / "names").write_text("".join(f"class {number}\n" for number in range(10)))
        (folder / "idx").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes(2))
        (folder / "shard.dat").write_bytes(packed_tuples([(b"a", datum())]))
        (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        self.library = ctypes.CDLL(None, use_errno=True)
        self.events = self.library.inotify_init1(os.O_NONBLOCK)

    def watch(self) -> None:
        for path in (self.folder, *self.folder.iterdir()):
            assert self.library.inotify_add_watch(self.events, os.fsencode(path), OPEN | ACCESS) > 0

    def opened(self) -> bool:
        """Return whether one was opened since it is watched, also by a library."""
        try:
            return bool(os.read(self.events, 1 << 16))
        except BlockingIOError:
            return False


@pytest.fixture
def secrets(tmp_path: Path) -> Iterator[Secrets]:
    made = Secrets(tmp_path / "secrets")
    yield made
    os.close(made.events)


def datum(**parts: int) -> bytes:
    """Return a Datum; its sizes may be others than those of its data."""
    sizes = {"channels": 1, "height": 2, "width": 2, **parts}
    return b"".join(field(number, sizes[name]) for number, name in enumerate(sizes, 1)) + field(4, bytes(4))


# Attacks

LINK = "is a soft or external link"
ATTACKS: dict[str, tuple[Attack, str]] = {}


def attack(told: str) -> Callable[[Attack], Attack]:
    def add(function: Attack) -> Attack:
        ATTACKS[function.__name__.replace("_", " ")] = function, told
        return function

    return add


def hdf5(path: Path, make: Callable[[h5py.File], Any]) -> Path:
    with h5py.File(path, "w") as file:
        file["label"] = np.arange(4)
        make(file)
    return path


@attack("its numbers are in another file")
def external_numbers(folder: Path, secrets: Path) -> Path:
    outside = [(os.fspath(secrets / "secret.h5"), 0, 64)]
    return hdf5(folder / "a.h5", lambda file: file.create_dataset("data", (4, 2), "f8", external=outside))


@attack("it is a virtual dataset")
def a_virtual_dataset(folder: Path, secrets: Path) -> Path:
    layout = h5py.VirtualLayout((4, 2), "f8")
    layout[:] = h5py.VirtualSource(secrets / "secret.h5", "data", (4, 2))
    return hdf5(folder / "a.h5", lambda file: file.create_virtual_dataset("data", layout))


def linked(link: Callable[[Path], Any]) -> Attack:
    def make(folder: Path, secrets: Path) -> Path:
        def add(file: h5py.File) -> None:
            file["data"] = link(secrets)

        return hdf5(folder / "a.h5", add)

    return make


ATTACKS["an external link"] = linked(lambda secrets: h5py.ExternalLink(secrets / "secret.h5", "data")), LINK
ATTACKS["a soft link"] = linked(lambda _: h5py.SoftLink("/label")), LINK


@attack(LINK)
def a_soft_link_through_an_external_one(folder: Path, secrets: Path) -> Path:
    def add(file: h5py.File) -> None:
        file["outside"] = h5py.ExternalLink(secrets / "secret.h5", "/")
        file["data"] = h5py.SoftLink("/outside/data")

    return hdf5(folder / "a.h5", add)


@attack("declares 4,398,046,511,104 bytes")
def four_terabytes_of_nothing(folder: Path, secrets: Path) -> Path:
    return hdf5(folder / "a.h5", lambda file: file.create_dataset("data", (4, 1 << 40), "u1", chunks=(1, 1 << 20)))


@attack("declares")
def more_than_64_bits_of_numbers(folder: Path, secrets: Path) -> Path:
    return hdf5(folder / "a.h5", lambda file: file.create_dataset("data", (4, 1 << 61), "u1", chunks=(1, 1 << 10)))


@attack("but only plain numbers are read")
def references_in_a_dataset(folder: Path, secrets: Path) -> Path:
    return hdf5(folder / "a.h5", lambda file: file.create_dataset("data", (4,), h5py.ref_dtype))


@attack("but only plain numbers are read")
def texts_of_any_length_in_a_dataset(folder: Path, secrets: Path) -> Path:
    return hdf5(folder / "a.h5", lambda file: file.create_dataset("data", (4,), h5py.string_dtype()))


@attack("must be a list of texts")
def references_as_names_of_classes(folder: Path, secrets: Path) -> Path:
    def add(file: h5py.File) -> None:
        file["data"] = np.arange(4)
        file["data"].attrs.create("classes", [file["label"].ref], dtype=h5py.ref_dtype)

    return hdf5(folder / "a.h5", add)


@attack("needs HDF5 filter")
def an_unknown_filter(folder: Path, secrets: Path) -> Path:
    return hdf5(folder / "a.h5", lambda file: file.create_dataset("data", (4,), "i4", chunks=(4,), scaleoffset=0))


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("exit",)


@attack("Python objects")
def pickled_objects(folder: Path, secrets: Path) -> Path:
    np.save(folder / "a.npy", np.array([Evil()], object), allow_pickle=True)
    return folder / "a.npy"


@attack("Python objects")
def pickled_objects_in_an_archive(folder: Path, secrets: Path) -> Path:
    np.savez(folder / "a.npz", data=np.array([Evil()], object))
    return folder / "a.npz"


@attack("this is not a NumPy array")
def a_pickle(folder: Path, secrets: Path) -> Path:
    (folder / "a.npy").write_bytes(pickle.dumps(Evil()))
    return folder / "a.npy"


def header(folder: Path, text: str) -> Path:
    begin = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1)
    (folder / "a.npy").write_bytes(begin + text.encode() + b"\n" + bytes(64))
    return folder / "a.npy"


HEADERS = {
    "code in a header": ("{'descr': __import__('os').system('exit'), 'fortran_order': False, 'shape': (4,)}", "header"),
    "a negative axis": ("{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -4)}", "declares an array of shape"),
    "axes of more than 64 bits": (
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': (4, {1 << 62})}}",
        "declares an array of shape",
    ),
    "terabytes": ("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}", "declares an array of shape"),
    "a deep header": ("(" * 9000, "header cannot be read"),
}
for name, (text, told) in HEADERS.items():
    ATTACKS[name] = (lambda folder, _, text=text: header(folder, text)), told


@attack("it declares 4,294,967,294 bytes")
def a_bomb_of_an_archive(folder: Path, secrets: Path) -> Path:
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", npy(np.zeros((1, 1 << 16), np.uint8)))
    data = (folder / "a.npz").read_bytes()
    sizes = struct.pack("<I", (1 << 16) + 128)
    assert data.count(sizes) == 2
    (folder / "a.npz").write_bytes(data.replace(sizes, struct.pack("<I", (1 << 32) - 2)))
    return folder / "a.npz"


@attack("packed too well")
def a_bomb_of_gzip(folder: Path, secrets: Path) -> Path:
    zeros = gzip.compress(bytes(32 * MIB))
    (folder / "a.idx.gz").write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 128 * MIB)) + zeros * 4)
    return folder / "a.idx.gz"


@attack("declares an array of shape")
def an_idx_of_terabytes(folder: Path, secrets: Path) -> Path:
    (folder / "a.idx").write_bytes(struct.pack(">4B3I", 0, 0, 14, 3, 1 << 31, 1 << 31, 1 << 31))
    return folder / "a.idx"


@attack("a link out of the folder")
def labels_elsewhere(folder: Path, secrets: Path) -> Path:
    (folder / "x-images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 2, 1, 1) + bytes(2))
    (folder / "x-labels-idx1-ubyte").symlink_to(secrets / "idx")
    return folder / "x-images-idx3-ubyte"


@attack("a link out of the folder")
def names_of_classes_elsewhere(folder: Path, secrets: Path) -> Path:
    (folder / "data_batch_1.bin").write_bytes(bytes(3073))
    (folder / "batches.meta.txt").symlink_to(secrets / "names")
    return folder / "data_batch_1.bin"


@attack("a link out of the folder")
def batches_elsewhere(folder: Path, secrets: Path) -> Path:
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").symlink_to(secrets / "data_batch_1.bin")
    return folder


@attack("a link out of the folder")
def a_shard_elsewhere(folder: Path, secrets: Path) -> Path:
    (folder / "shard.dat").symlink_to(secrets / "shard.dat")
    return folder


@attack("a link out of the folder")
def a_database_elsewhere(folder: Path, secrets: Path) -> Path:
    (folder / "data.mdb").symlink_to(secrets / "../secrets/secret.h5")
    return folder


@attack("a link out of the folder")
def a_picture_elsewhere(folder: Path, secrets: Path) -> Path:
    (folder / "a.png").symlink_to(f"../{secrets.name}/picture.png")
    return folder


@attack("a link to a folder")
def a_class_elsewhere(folder: Path, secrets: Path) -> Path:
    (folder / "dog").mkdir()
    (folder / "dog/a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "cat").symlink_to(secrets)
    return folder


@attack("not a file")
def a_list_that_names_a_device(folder: Path, secrets: Path) -> Path:
    (folder / "a.png").symlink_to("/dev/zero")
    (folder / "list.txt").write_text("a.png\n")
    return folder / "list.txt"


@attack("not a file")
def a_list_that_names_a_pipe(folder: Path, secrets: Path) -> Path:
    os.mkfifo(folder / "a.png")
    (folder / "list.txt").write_text("a.png\n")
    return folder / "list.txt"


@attack("not a file")
def a_pipe(folder: Path, secrets: Path) -> Path:
    os.mkfifo(folder / "a.h5")
    return folder / "a.h5"


@attack("not a picture that can be read")
def a_program_for_ghostscript(folder: Path, secrets: Path) -> Path:
    (folder / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n")
    return folder / "a.png"


@attack("more than 67,108,864 pixels")
def a_picture_of_gigabytes(folder: Path, secrets: Path) -> Path:
    (folder / "a.bmp").write_bytes(
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 60, 0, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)
    )
    return folder / "a.bmp"


def archived(kind: bytes) -> Attack:
    def make(folder: Path, secrets: Path) -> Path:
        with tarfile.open(folder / "a.tar", "w") as archive:
            member = tarfile.TarInfo("a.npy")
            member.type, member.linkname = kind, os.fspath(secrets / "secret.npy")
            archive.addfile(member)
        return folder / "a.tar"

    return make


ATTACKS["a link in an archive"] = archived(tarfile.SYMTYPE), "is a link or a special file"
ATTACKS["a hard link in an archive"] = archived(tarfile.LNKTYPE), "is a link or a special file"


def shard(value: bytes) -> Attack:
    def make(folder: Path, secrets: Path) -> Path:
        (folder / "a.kvfile").write_bytes(packed_tuples([(b"a", value)]))
        return folder / "a.kvfile"

    return make


DATUMS = {
    "a datum of terabytes": datum(channels=1 << 20, height=1 << 20, width=1 << 22),
    "a datum of more than 64 bits": datum(channels=1 << 62, height=4, width=1),
    "a datum with negative sides": datum(channels=-1, height=-2, width=2),
}
for name, value in DATUMS.items():
    with pytest.raises(DataError):
        Datum().unpack(value)
    ATTACKS[name] = shard(value), "in none of the formats"


def lines(name: str, text: str) -> Attack:
    def make(folder: Path, secrets: Path) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return make


ATTACKS |= {
    "a field twice": (lines("a.jsonl", '{"x": 1, "x": 2}\n'), "line 1 has the field 'x' twice"),
    "deep lists": (lines("a.jsonl", '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}\n"), "line 1"),
    "lists that grow": (lines("a.jsonl", '{"x": ' + "[" * 40 + "1" + "]" * 40 + "}\n"), "line 1"),
    "a number of many digits": (lines("a.jsonl", '{"x": ' + "9" * 1_000_000 + "}\n"), "line 1"),
    "a huge cell": (lines("a.csv", "a,b\n" + '1,"' + "x" * (17 * MIB) + "\n"), "more than 16 MiB|line 2"),
    "a column twice": (lines("a.csv", "data,data\n1,2\n"), "are called"),
    "many columns": (lines("a.csv", ",".join("1" * 200_000) + "\n"), "but a table may have"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_refused_and_nothing_outside_is_opened(name: str, tmp_path: Path, secrets: Secrets) -> None:
    make, told = ATTACKS[name]
    folder = tmp_path / "folder"
    folder.mkdir()
    path = make(folder, secrets.folder)
    secrets.watch()
    tracemalloc.start()
    try:
        with (
            pytest.raises(DataError, match=told) as caught,
            open_records([path], ["data"] if told == LINK else (), store=store_of(path)) as reader,
        ):
            [*reader.rows()]
        assert tracemalloc.get_traced_memory()[1] < 128 * MIB
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(os.fspath(folder))
    assert not secrets.opened()


@pytest.mark.parametrize("name", [name for name, (_, told) in ATTACKS.items() if told == LINK])
def test_links_that_nobody_wants_are_not_followed(name: str, tmp_path: Path, secrets: Secrets) -> None:
    path = ATTACKS[name][0](tmp_path, secrets.folder)
    secrets.watch()
    with open_records([path]) as reader:
        assert [*reader.fields] == ["label"]
    assert not secrets.opened()


def test_an_opened_file_is_noticed(secrets: Secrets) -> None:
    secrets.watch()
    assert not secrets.opened()
    with h5py.File(secrets.folder / "secret.h5"):
        pass
    assert secrets.opened()
    with io.FileIO(secrets.folder / "names"):
        pass
    assert secrets.opened()


@pytest.mark.parametrize("name", ["shard.dat", "data.mdb"])
def test_nothing_is_appended_elsewhere(name: str, tmp_path: Path) -> None:
    from nacre import Field
    from nacre_data.stores.lmdb import LMDB
    from nacre_data.stores.shard import Shard

    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).symlink_to(tmp_path / "new")
    store = LMDB() if name == "data.mdb" else Shard()
    with pytest.raises(DataError, match="a link out of the folder"):
        store.create(tmp_path / "folder", {"x": Field((), "int64")}, append=True)
    assert not (tmp_path / "new").exists()
