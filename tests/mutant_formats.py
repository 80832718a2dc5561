"""Every format of records: a small valid file of it, and what is known of its bytes."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from mutants import ODD_NAMES, Known, Place, changed_message, message_places, replaced
from nacre import Field, Store, make_component
from nacre_data.checksum import crc32c
from nacre_data.codecs.record import MAGIC
from nacre_data.stores.tf_record import masked

FIELDS = {"data": Field((2, 3), "float32"), "label": Field((), "int64", classes=("cat", "dog"))}
IMAGES = {"data": Field((1, 4, 4), "uint8"), "label": Field((), "int64")}


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        store: its name and options.
        make: returns its files, by their names in a folder.
        known: what is known of the file that is changed.
        header: a pattern of messages that say that its first bytes are refused.
        path: what is opened.
        changed: the file that is changed; by default that which is opened.
        classes: whether the format itself counts the classes, so that each label is one of them.
        own: whether its records have checksums, so that each that is changed is noticed.
        pixels: whether a file may declare pixels, up to the limit, which take memory and time.
    """

    store: str | Mapping[str, Any]
    make: Callable[[], dict[str, bytes]]
    known: Known
    header: str
    path: str = "x"
    changed: str = ""
    classes: bool = False
    own: bool = False
    pixels: bool = False

    @property
    def target(self) -> str:
        return self.changed or self.path

    def mutant(self, name: str, number: int, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files with a change that depends on the format's name and a number."""
        dice = Random(f"{name} {number}")
        return {**files, self.target: self.known.changed(files[self.target], dice)}


def records(fields: Mapping[str, Field], count: int = 6) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.integers(0, 2, (count, *(one.shape or ()))).astype(one.dtype) for name, one in fields.items()}


def written(store: Any, fields: Mapping[str, Field], name: str = "x") -> Callable[[], dict[str, bytes]]:
    """Return a function that writes a file by the store itself."""

    def make() -> dict[str, bytes]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            with make_component(Store, store).create(path, fields) as writer:
                writer.append(records(fields))
            return {str(one.relative_to(folder)): one.read_bytes() for one in Path(folder).rglob("*") if one.is_file()}

    return make


# HDF5


def hdf5(**options: Any) -> Callable[[], dict[str, bytes]]:
    def make() -> dict[str, bytes]:
        memory = io.BytesIO()
        latest, kind = options.get("libver"), {one: options[one] for one in options if one != "libver"}
        with h5py.File(memory, "w", libver=latest) as file:
            for name, array in records({**FIELDS, "other": Field((3,), "int16")}).items():
                chunks = {"chunks": (2, *array.shape[1:]), "maxshape": (None, *array.shape[1:])} if kind else {}
                file.create_dataset(name, data=array, **chunks, **{key: kind[key] for key in kind if kind[key]})
            file["label"].attrs["classes"] = ["cat", "dog"]
        return {"x.h5": memory.getvalue()}

    return make


def hdf5_places(data: bytes) -> list[Place]:
    """Return what looks like a size, an address, a type of a message: HDF5 has no table of them."""
    places: list[Place] = []
    for form, limit in (("<Q", 2 * len(data)), ("<I", 4096), ("<H", 64)):
        size = struct.calcsize(form)
        numbers = np.frombuffer(data[: len(data) // size * size], form)
        found = np.flatnonzero((numbers > 0) & ((numbers < limit) | (numbers == (1 << 8 * size) - 1)))
        places += [(size * place, form) for place in found.tolist()]
    return places


def hdf5_repaired(data: bytes) -> bytes:
    """Return a file with right checksums of its beginning and of its objects."""
    if data[8:9] in (b"\2", b"\3"):
        data = replaced(data, 44, struct.pack("<I", lookup3(data[:44])))
    for found in re.finditer(b"OHDR", data):
        begin = found.start()
        flags = data[begin + 5] if begin + 5 < len(data) else 0
        at = begin + 6 + 16 * bool(flags & 0x20) + 4 * bool(flags & 0x10)
        size = int.from_bytes(data[at : at + (1 << (flags & 3))], "little")
        end = at + (1 << (flags & 3)) + size
        if end + 4 <= len(data):
            data = replaced(data, end, struct.pack("<I", lookup3(data[begin:end])))
    for mark, size in ((b"EAHD", 68), (b"EAIB", 342), (b"FAHD", 24)):  # indexes of chunks, in files with such datasets
        for found in re.finditer(mark, data):
            end = found.start() + size
            if end + 4 <= len(data):
                data = replaced(data, end, struct.pack("<I", lookup3(data[found.start() : end])))
    return data


def lookup3(data: bytes) -> int:
    """Return Bob Jenkins' checksum of bytes, as HDF5 has it."""

    def turned(number: int, bits: int) -> int:
        return (number << bits | number >> 32 - bits) & 0xFFFFFFFF

    a = b = c = (0xDEADBEEF + len(data)) & 0xFFFFFFFF
    while len(data) > 12:
        x, y, z = struct.unpack_from("<3I", data)
        a, b, c, data = (a + x) & 0xFFFFFFFF, (b + y) & 0xFFFFFFFF, (c + z) & 0xFFFFFFFF, data[12:]
        a, c = (a - c & 0xFFFFFFFF) ^ turned(c, 4), (c + b) & 0xFFFFFFFF
        b, a = (b - a & 0xFFFFFFFF) ^ turned(a, 6), (a + c) & 0xFFFFFFFF
        c, b = (c - b & 0xFFFFFFFF) ^ turned(b, 8), (b + a) & 0xFFFFFFFF
        a, c = (a - c & 0xFFFFFFFF) ^ turned(c, 16), (c + b) & 0xFFFFFFFF
        b, a = (b - a & 0xFFFFFFFF) ^ turned(a, 19), (a + c) & 0xFFFFFFFF
        c, b = (c - b & 0xFFFFFFFF) ^ turned(b, 4), (b + a) & 0xFFFFFFFF
    if not data:
        return c
    x, y, z = struct.unpack("<3I", data.ljust(12, b"\0"))
    a, b, c = (a + x) & 0xFFFFFFFF, (b + y) & 0xFFFFFFFF, (c + z) & 0xFFFFFFFF
    c = (c ^ b) - turned(b, 14) & 0xFFFFFFFF
    a = (a ^ c) - turned(c, 11) & 0xFFFFFFFF
    b = (b ^ a) - turned(a, 25) & 0xFFFFFFFF
    c = (c ^ b) - turned(b, 16) & 0xFFFFFFFF
    a = (a ^ c) - turned(c, 4) & 0xFFFFFFFF
    b = (b ^ a) - turned(a, 14) & 0xFFFFFFFF
    return (c ^ b) - turned(b, 24) & 0xFFFFFFFF


HDF5 = Known(hdf5_places, tokens=rb"data|label|other|classes|cat|dog", fixed=True, repair=hdf5_repaired)

# NumPy


def npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def npy_repaired(data: bytes) -> bytes:
    """Return an array's file with the right length of its header."""
    end = data.find(b"\n", 10) + 1
    return replaced(data, 8, struct.pack("<H", (end - 10) % 65536)) if end > 10 else data


def npz() -> dict[str, bytes]:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in records(FIELDS).items():
            archive.writestr(f"{name}.npy", npy(array), zipfile.ZIP_DEFLATED if name == "data" else zipfile.ZIP_STORED)
    return {"x.npz": content.getvalue()}


ZIP = {
    b"PK\3\4": "4H 6H 8H 14I 18I 22I 26H 28H",
    b"PK\1\2": "6H 8H 10H 16I 20I 24I 28H 30H 32H 38I 42I",
    b"PK\5\6": "8H 10H 12I 16I 20H",
}


def zip_places(data: bytes) -> list[Place]:
    return [
        (found.start() + int(where[:-1]), f"<{where[-1]}")
        for mark, wheres in ZIP.items()
        for found in re.finditer(re.escape(mark), data)
        for where in wheres.split()
    ]


def zip_repaired(data: bytes) -> bytes:
    """Return an archive with right checksums of what is stored as it is."""
    for found in re.finditer(b"PK\1\2", data):
        if found.start() + 46 > len(data):
            continue
        method, size, start = struct.unpack_from("<H8xI18xI", data, found.start() + 10)
        if method or start + 30 > len(data):
            continue
        name, extra = struct.unpack_from("<2H", data, start + 26)
        body = data[start + 30 + name + extra :][:size]
        checksum = struct.pack("<I", zlib.crc32(body))
        data = replaced(replaced(data, found.start() + 16, checksum), start + 14, checksum)
    return data


def zip_inner(data: bytes, dice: Random) -> bytes:
    """Return an archive whose members have other contents or names, or stand twice."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {one.filename: archive.read(one) for one in archive.infolist()}
    except Exception:  # it is damaged already
        return data
    content = io.BytesIO()
    kind = dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(content, "w", kind) as archive:
        for name, member in members.items():  # two may have one name
            chosen, what = dice.random() < 0.6, dice.randrange(4)
            if chosen and what == 0:
                member = dice.choice((b"", bytes(1 << 16), NPY.changed(member or b"x", dice)))
            elif chosen and what == 1:
                name = dice.choice(ODD_NAMES).decode("latin-1") + ".npy"
            elif chosen and member:
                member = NPY.changed(member, dice)
            archive.writestr("x" if name[:1] in ("", "\0") else name, member)
    return content.getvalue()


def npy_inner(data: bytes, dice: Random) -> bytes:
    """Return an array's file whose header says another type, shape or order."""
    what = dice.randrange(3)
    if what == 0:
        return re.sub(rb"'[<>|=][^']*'", lambda _: dice.choice(ODD_TYPES), data, count=1)
    if what == 1:
        sizes = [dice.choice((0, 1, 2, 3, 6, 12, 36, -1, 1 << 31, 1 << 62, 1 << 64)) for _ in range(dice.randrange(5))]
        return re.sub(rb"\([-\d, ]*\)", repr(tuple(sizes)).encode(), data, count=1)
    return re.sub(rb"True|False", lambda found: b"False" if found[0] == b"True" else b"True", data, count=1)


NUMPY_TYPES = "<f8 >f4 |u1 |i1 |b1 <i8 >u2 <f2 <c8 |O <U3 |S5 |V4 <M8[s] <m8 <f16 |S0 <U999999999 2f4 (3,)f4 f4,i4"
ODD_TYPES = tuple(f"'{name}'".encode() for name in NUMPY_TYPES.split(" "))
NPY = Known(inner=npy_inner, repair=npy_repaired)

# IDX and CIFAR


def idx() -> dict[str, bytes]:
    images = struct.pack(">4B3I", 0, 0, 8, 3, 6, 4, 4) + bytes(range(96))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 6) + bytes(range(6))
    return {"x-images-idx3-ubyte": images, "x-labels-idx1-ubyte": labels}


def idx_gz() -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in idx().items()}


def gz_inner(data: bytes, dice: Random) -> bytes:
    try:
        return gzip.compress(IDX.changed(gzip.decompress(data), dice), mtime=0)
    except Exception:  # it is damaged already
        return data


def dims(data: bytes) -> list[Place]:
    sides: list[Place] = [(4 * place, ">I") for place in range(1, 1 + (data[3] if len(data) > 3 else 0))]
    return [(2, "B"), (3, "B"), *sides * 3]


IDX = Known(dims)
IDX_GZ = Known(lambda _: [(place, "B") for place in range(10)], inner=gz_inner)


def cifar(name: str, labels: int) -> Callable[[], dict[str, bytes]]:
    return lambda: {name: b"".join(bytes([number] * labels) + bytes([number] * 3072) for number in range(3))}


def cifar_known(size: int) -> Known:
    def blocks(data: bytes) -> list[tuple[int, int]]:
        return [(start, min(start + size, len(data))) for start in range(0, len(data), size)]

    return Known(lambda data: [(start, "B") for start, _ in blocks(data)], blocks)


# Text

LINES = rb"[^\n]*\n"


def lines(data: bytes) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(LINES, data)]


def csv() -> dict[str, bytes]:
    rows = "".join(f'{n}.5,-{n}e3,{n},"{"cat" if n % 2 else "d o g"}"\n' for n in range(1, 7))
    return {"x.csv": f"a,b,c,label\n{rows}".encode()}


def singas_text() -> dict[str, bytes]:
    """Return SINGA's text file: the label, and numbers, on each line."""
    return {"x.csv": "".join(f"{n % 3},{n}.5,-{n}e3,{n}\n" for n in range(1, 9)).encode()}


def json_lines() -> dict[str, bytes]:
    rows = [{"key": f"k{n}", "data": [[n, 0.5], [1, -2e3]], "label": "cat" if n % 2 else "dog"} for n in range(6)]
    return {"x.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows).encode()}


# Pictures


def picture(kind: str, number: int = 0, **options: Any) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 256, (12, 10, 3), np.uint8)
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(pixels).save(
        content, kind, **({"exif": exif} if kind in ("PNG", "JPEG", "WEBP") else {}), **options
    )
    return content.getvalue()


def picture_list() -> dict[str, bytes]:
    names = [f"p/{number}.png" for number in range(3)]
    text = "".join(f"{name} {'cat' if number else 'dog'}\n" for number, name in enumerate(names))
    return {"x.txt": text.encode(), **{name: picture("PNG", number) for number, name in enumerate(names)}}


def png_blocks(data: bytes) -> list[tuple[int, int]]:
    blocks, place = [], 8
    while place + 12 <= len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4], "big")
        if end > len(data):
            break
        blocks.append((place, end))
        place = end
    return blocks


def png_repaired(data: bytes) -> bytes:
    for begin, end in png_blocks(data):
        data = replaced(data, end - 4, struct.pack(">I", zlib.crc32(data[begin + 4 : end - 4])))
    return data


def png_places(data: bytes) -> list[Place]:
    head: list[Place] = [(16, ">I"), (20, ">I"), *((place, "B") for place in range(24, 29))]
    return [*head, *head, *((begin, ">I") for begin, _ in png_blocks(data))]


def jpeg_blocks(data: bytes) -> list[tuple[int, int]]:
    blocks, place = [], 2
    while place + 4 <= len(data) and data[place] == 0xFF and data[place + 1] != 0xDA:
        end = place + 2 + int.from_bytes(data[place + 2 : place + 4], "big")
        if end > len(data):
            break
        blocks.append((place, end))
        place = end
    return blocks


def jpeg_places(data: bytes) -> Iterator[Place]:
    for begin, end in jpeg_blocks(data):
        yield begin + 1, "B"
        yield begin + 2, ">H"
        if 0xC0 <= data[begin + 1] <= 0xC2:
            yield from ((begin + 4, "B"), (begin + 5, ">H"), (begin + 7, ">H"))
            yield from ((place, "B") for place in range(begin + 9, end))
        elif data[begin + 1] == 0xE1:
            yield from ((place, "B") for place in range(begin + 10, min(end, begin + 40)))


SIDES = tuple(struct.pack("<H", tag) for tag in (256, 257, 273, 278, 279))
"""Tags of a TIFF: columns, rows, and where its strips are, how many rows they have, and how many bytes."""


def tiff_places(data: bytes) -> list[Place]:
    order = "<" if data[:2] == b"II" else ">"
    if len(data) < 8:
        return []
    begin = struct.unpack_from(f"{order}I", data, 4)[0]
    if begin + 2 > len(data):
        return [(4, f"{order}I")]
    places = [(4, f"{order}I"), (begin, f"{order}H")]
    for entry in range(min(struct.unpack_from(f"{order}H", data, begin)[0], 40)):
        at = begin + 2 + 12 * entry
        places += [(at, f"{order}H"), (at + 2, f"{order}H"), (at + 4, f"{order}I")]
        if data[at : at + 2] in SIDES:
            places += [(at + 8, f"{order}I")] * 16
    return places


def riff_places(data: bytes) -> list[Place]:
    places: list[Place] = [(4, "<I")]
    place = 12
    while place + 8 <= len(data):
        places += [(place + 4, "<I"), *((place + 8 + byte, "B") for byte in range(12))]
        place += 8 + int.from_bytes(data[place + 4 : place + 8], "little")
    return places


PICTURES = {
    "PNG": Known(png_places, png_blocks, repair=png_repaired),
    "JPEG": Known(lambda data: [*jpeg_places(data)], jpeg_blocks),
    "GIF": Known(lambda _: [(6, "<H"), (8, "<H"), *((place, "B") for place in range(10, 13))]),
    "BMP": Known(lambda _: [(place, "<I") for place in range(2, 54, 4)] + [(26, "<H"), (28, "<H")]),
    "TIFF": Known(tiff_places),
    "WEBP": Known(riff_places),
    "PPM": Known(tokens=rb"^P6|(?<=\n)\d+|(?<= )\d+"),
}

# Keys and values


MARK = b"sg\x01\x00"


def tuples(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return keys and values of a shard, those of SINGA 1.x too."""
    mark = len(MARK) if data.startswith(MARK) else 0
    found: list[tuple[bytes, bytes]] = []
    place = mark
    while place + 16 <= len(data):
        at = place + 8 + int.from_bytes(data[place : place + 8], "little")
        end = at + 8 + int.from_bytes(data[at : at + 8], "little")
        if end > len(data):
            break
        found.append((data[place + 8 : at], data[at + 8 : end]))
        place = end + mark
    return found


def packed_tuples(pairs: list[tuple[bytes, bytes]], mark: bytes = b"") -> bytes:
    return b"".join(
        mark + len(key).to_bytes(8, "little") + key + len(value).to_bytes(8, "little") + value for key, value in pairs
    )


def value_places(value: bytes, begin: int) -> Iterator[Place]:
    """Yield the places of numbers in a record of any format."""
    if not value.startswith(MAGIC):
        yield from message_places(value, begin)
        return
    yield from ((begin + 4, "B"), (begin + 5, "B"), (begin + 6, "<H"))
    place = 8
    for word in range(4 * value[5] if len(value) > 5 else 0):
        if place >= len(value):
            return  # it is damaged already
        yield begin + place, "B"
        if word % 4 < 3:  # a text
            place += 1 + value[place]
        else:  # axes
            yield from ((begin + place + 1 + 8 * axis, "<Q") for axis in range(value[place] + 1))
            place += 9 + 8 * value[place]


def sealed(value: bytes) -> bytes:
    """Return a record of nacre's with the right checksum."""
    return value[:-4] + struct.pack("<I", crc32c(value[:-4])) if value.startswith(MAGIC) and len(value) > 12 else value


def changed_value(value: bytes, dice: Random) -> bytes:
    if not value.startswith(MAGIC):
        return changed_message(value, dice) if value else value
    return Known(lambda data: [*value_places(data, 0)], tokens=rb"data|label|int64").changed(value, dice)


def shard_places(data: bytes) -> Iterator[Place]:
    mark = len(MARK) if data.startswith(MARK) else 0
    place = mark
    for key, value in tuples(data):
        at = place + 8 + len(key)
        yield from ((place, "<Q"), (at, "<Q"))
        yield from value_places(value, at + 8)
        place = at + 8 + len(value) + mark


def shard_inner(data: bytes, dice: Random) -> bytes:
    """Return a shard in which one record is another, or stands twice, or has another key."""
    pairs = tuples(data)
    if not pairs:
        return data
    place = dice.randrange(len(pairs))
    key, value = pairs[place]
    match dice.randrange(8):
        case 0:
            pairs.insert(dice.randrange(len(pairs)), pairs[place])
        case 1:
            pairs[place] = (dice.choice(ODD_NAMES), value)
        case 2:
            pairs[place] = (key, b"")
        case _:
            pairs[place] = (key, changed_value(value, dice))
    return packed_tuples(pairs, MARK if data.startswith(MARK) else b"")


SHARD = Known(lambda data: [*shard_places(data)], inner=shard_inner)
OWN_SHARD = Known(
    SHARD.places,
    inner=lambda data, dice: (lambda new: packed_tuples([(key, sealed(value)) for key, value in tuples(new)]))(
        shard_inner(data, dice)
    ),
)


def marked() -> dict[str, bytes]:
    pairs = tuples(written({"type": "Shard", "codec": "SingleLabelImageRecord"}, IMAGES, "x.kvfile")()["x.kvfile"])
    return {"x.kvfile": packed_tuples(pairs, MARK)}


# LMDB


def lmdb(codec: str) -> Callable[[], dict[str, bytes]]:
    def make() -> dict[str, bytes]:
        fields = IMAGES if codec == "Datum" else FIELDS
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.mdb"
            with make_component(Store, {"type": "LMDB", "codec": codec}).create(path, fields) as writer:
                for _ in range(12):
                    writer.append(records(fields, 5), ["a" * 80] * 5)
                if codec == "Datum":
                    writer.append({"data": np.ones((1, 1, 4, 4), np.uint8), "label": np.zeros(1)})
            return {"x.mdb": path.read_bytes()}

    return make


def lmdb_places(data: bytes) -> Iterator[Place]:
    for begin in range(0, len(data) - 4095, 4096):
        yield from ((begin, "<Q"), *((begin + place, "<H") for place in (8, 10, 12, 14)))
        if begin < 8192:
            yield from ((begin + place, "<I") for place in (16, 20, 40, 88))
            yield from ((begin + place, "<H") for place in (44, 46, 92, 94))
            yield from ((begin + place, "<Q") for place in (24, 32, *range(96, 152, 8)))
            continue
        flags, lower = struct.unpack_from("<HH", data, begin + 10)
        if flags & 3 and lower < 4096:
            for place in range(begin + 16, begin + lower, 2):
                yield place, "<H"
                node = begin + struct.unpack_from("<H", data, place)[0]
                yield from ((node + 2 * part, "<H") for part in range(4))


# Tar


def tar() -> dict[str, bytes]:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(3):
            for ending, data in (("npy", npy(np.ones((2, 3)))), ("cls", b"1"), ("mask.png", picture("PNG", number))):
                member = tarfile.TarInfo(f"{'é' if number == 1 else 'a'}{number}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return {"x.tar": content.getvalue()}


def tar_blocks(data: bytes) -> list[tuple[int, int]]:
    blocks, place = [], 0
    while place + 512 <= len(data) and data[place : place + 1] != b"\0":
        try:
            size = int(data[place + 124 : place + 135].rstrip(b"\0 ") or b"0", 8)
        except ValueError:
            break
        end = place + 512 + -(-size // 512) * 512
        if not place < end <= len(data):
            break
        blocks.append((place, end))
        place = end
    return blocks


def tar_repaired(data: bytes) -> bytes:
    for begin, _ in tar_blocks(data):
        head = replaced(data[begin : begin + 512], 148, b" " * 8)
        data = replaced(data, begin + 148, b"%06o\0 " % sum(head))
    return data


def tar_inner(data: bytes, dice: Random) -> bytes:
    """Return an archive in which a header says another name, size, kind, or one that is no octal number."""
    blocks = tar_blocks(data)
    if not blocks:
        return data
    begin, _ = dice.choice(blocks)
    what = dice.randrange(5)
    if what == 0:
        data = replaced(data, begin, dice.choice(ODD_NAMES)[:99].ljust(100, b"\0"))
    elif what == 1:
        data = replaced(
            data, begin + 156, dice.choice((b"1", b"2", b"3", b"5", b"7", b"L", b"K", b"S", b"x", b"g", b"\0"))
        )
    else:
        sizes = (b"%011o\0" % dice.choice((0, 1, 511, 513, 1 << 20, 8**11 - 1)), b"-0000000001\0", b"\xff" * 12)
        sizes += (b"\x80" + bytes(3) + struct.pack(">Q", dice.getrandbits(64)), b"          8\0", b"\0" * 12)
        data = replaced(data, begin + 124, dice.choice(sizes))
        head = replaced(data[begin : begin + 512], 148, b" " * 8)
        data = replaced(data, begin + 148, b"%06o\0 " % sum(head))
    return data


TAR = Known(
    lambda data: [
        (begin + place, "B") for begin, _ in tar_blocks(data) for place in (*range(12), 156, *range(512, 600))
    ],
    tar_blocks,
    tokens=rb"\d+ path=|\xc3\xa9|'[^']*'|(?<=\()\d+",
    inner=tar_inner,
    repair=tar_repaired,
)

# TFRecord


def example(number: int) -> bytes:
    def part(tag: int, data: bytes) -> bytes:
        return bytes([tag << 3 | 2, len(data)]) + data

    def feature(name: bytes, kind: int, data: bytes) -> bytes:
        return part(1, part(1, name) + part(2, part(kind, part(1, data))))

    floats = struct.pack("<3f", number, 0.5, -1)
    return part(1, feature(b"data", 2, floats) + feature(b"label", 3, bytes([number])) + feature(b"raw", 1, b"abc"))


def frames(values: list[bytes]) -> bytes:
    parts: list[bytes] = []
    for value in values:
        size = struct.pack("<Q", len(value))
        parts += [size, struct.pack("<I", masked(size)), value, struct.pack("<I", masked(value))]
    return b"".join(parts)


def values_of_frames(data: bytes) -> list[bytes]:
    values, place = [], 0
    while place + 16 <= len(data):
        size = int.from_bytes(data[place : place + 8], "little")
        if place + 16 + size > len(data):
            break
        values.append(data[place + 12 : place + 12 + size])
        place += 16 + size
    return values


def frames_repaired(data: bytes) -> bytes:
    place = 0
    while place + 12 <= len(data):
        data = replaced(data, place + 8, struct.pack("<I", masked(data[place : place + 8])))
        size = int.from_bytes(data[place : place + 8], "little")
        if place + 16 + size > len(data):
            break
        data = replaced(data, place + 12 + size, struct.pack("<I", masked(data[place + 12 : place + 12 + size])))
        place += 16 + size
    return data


def frames_places(data: bytes) -> Iterator[Place]:
    place = 0
    for value in values_of_frames(data):
        yield place, "<Q"
        yield from message_places(value, place + 12)
        place += 16 + len(value)


def frames_inner(data: bytes, dice: Random) -> bytes:
    values = values_of_frames(data)
    if not values:
        return data
    place = dice.randrange(len(values))
    values[place] = changed_message(values[place], dice) if values[place] else b""
    return frames(values)


TF_RECORD = Known(lambda data: [*frames_places(data)], inner=frames_inner, repair=frames_repaired)
SINGA = {"type": "Shard", "codec": "SingleLabelImageRecord"}
NO_HDF5 = "not an HDF5 file|is empty|truncated: it has|superblock"
LMDB_KNOWN = Known(lambda data: [*lmdb_places(data)])

FORMATS: dict[str, Format] = {
    "HDF5": Format("HDF5", hdf5(), HDF5, NO_HDF5, "x.h5"),
    "HDF5 in chunks": Format("HDF5", hdf5(compression="gzip", shuffle=True, fletcher32=True), HDF5, NO_HDF5, "x.h5"),
    "HDF5 latest": Format("HDF5", hdf5(libver="latest", compression="lzf"), HDF5, NO_HDF5, "x.h5"),
    "npy": Format(
        "NPY", lambda: {"x.npy": npy(records(FIELDS)["data"])}, NPY, "not a NumPy array|header cannot be read", "x.npy"
    ),
    "npy in Fortran's order": Format(
        "NPY",
        lambda: {"f.npy": npy(np.asfortranarray(records(FIELDS)["data"]))},
        NPY,
        "not a NumPy array|header cannot be read",
        "f.npy",
    ),
    "npz": Format(
        "NPZ",
        npz,
        Known(zip_places, tokens=rb"data|label", fixed=True, inner=zip_inner, repair=zip_repaired),
        "not a zip file|central directory",
        "x.npz",
    ),
    "CSV": Format("CSV", csv, Known(blocks=lines, tokens=rb'[^,\n"]+|[,\n"]'), "line 1[ :]", "x.csv", classes=True),
    "SINGA's text file": Format(
        {"type": "CSV", "header": False, "label": 0},
        singas_text,
        Known(blocks=lines, tokens=rb"[^,\n]+|[,\n]"),
        "line 1[ :]",
        "x.csv",
    ),
    "JSON lines": Format(
        "JSONLines",
        json_lines,
        Known(blocks=lines, tokens=rb'"[^"]*"|[\d.e-]+|[\[\]{},:\n]'),
        "line 1 is not JSON",
        "x.jsonl",
        classes=True,
    ),
    "list of pictures": Format(
        "Pictures",
        picture_list,
        Known(blocks=lines, tokens=rb"p/|\d|\.png|cat|dog| |\n"),
        "line 1 is neither|is empty",
        "x.txt",
        classes=True,
    ),
    **{
        kind: Format(
            "Pictures",
            lambda kind=kind: {f"x.{kind.lower()}": picture(kind)},
            known,
            "not a picture that can be read[^:]*$",
            f"x.{kind.lower()}",
            pixels=True,
        )
        for kind, known in PICTURES.items()
    },
    "IDX": Format("IDX", idx, IDX, "is not an IDX file", "x-images-idx3-ubyte"),
    "labels in IDX": Format("IDX", idx, IDX, "is not an IDX file", "x-images-idx3-ubyte", "x-labels-idx1-ubyte"),
    "packed IDX": Format("IDX", idx_gz, IDX_GZ, "Not a gzipped|is not an IDX file", "x-images-idx3-ubyte.gz"),
    "CIFAR-10": Format(
        "CIFAR", cifar("data_batch_1.bin", 1), cifar_known(3073), "no whole records", "data_batch_1.bin"
    ),
    "CIFAR-100": Format("CIFAR", cifar("train.bin", 2), cifar_known(3074), "no whole records", "train.bin"),
    "LMDB": Format({"type": "LMDB", "codec": "Datum"}, lmdb("Datum"), LMDB_KNOWN, "is not an LMDB database", "x.mdb"),
    "LMDB of our own records": Format("LMDB", lmdb("Record"), LMDB_KNOWN, "is not an LMDB database", "x.mdb", own=True),
    "shard": Format(SINGA, written(SINGA, IMAGES, "x.kvfile"), SHARD, "record 0 at byte 0 is cut", "x.kvfile"),
    "shard of SINGA 1.x": Format(SINGA, marked, SHARD, "record 0 at byte 0 is cut", "x.kvfile"),
    "shard of our own records": Format(
        "Shard", written("Shard", FIELDS, "x.kvfile"), SHARD, "record 0 at byte 0 is cut", "x.kvfile", own=True
    ),
    "sealed shard": Format(
        "Shard", written("Shard", FIELDS, "x.kvfile"), OWN_SHARD, "record 0 at byte 0 is cut", "x.kvfile"
    ),
    "tar": Format("Tar", tar, TAR, "this is no tar archive", "x.tar"),
    "TFRecord": Format(
        "TFRecord",
        lambda: {"x.tfrecord": frames([example(number) for number in range(6)])},
        TF_RECORD,
        "no TFRecord|compressed",
        "x.tfrecord",
    ),
}
