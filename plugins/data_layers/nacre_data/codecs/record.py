"""Record: nacre's own format of one record, with a checksum; docs/data-record.md tells every byte."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

import numpy as np

from nacre import DataError, Field

from ..checksum import crc32c
from .packed import WHOLE, PackedCodec, Values

MAGIC = b"\x8bNRC"  # no message of protobuf begins with 8B, so Datum and SINGA's Record are told from it
VERSION = 1
HEAD = Struct("<4sBBH")  # magic, version, number of fields, bytes of the descriptions
CHECKSUM = Struct("<I")
SIZE = Struct("<Q")
TYPES = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)
MOST_AXES = 32  # of a blob
DESCRIPTION = ""
"""The name of the only field of a record that describes all the others of a file: their classes are known by it."""


class Record(PackedCodec):
    """nacre's own record: of each field name, type, shape and bytes, and a CRC-32C by which every changed byte shows.

    Fields may be of any type of real numbers, or bytes of another codec, such as pictures.
    """

    def unpack(self, data: bytes) -> Values:
        head = _checked(data)
        layout, start = _layout(data[:head]), head
        if layout.size != len(data) - head - CHECKSUM.size:
            raise DataError(f"the record is damaged: it declares {layout.size:,} bytes of numbers, but has others")
        values: dict[str, Any] = {}
        for name, part in layout.parts.items():
            bytes_of_it = data[start : start + part.size]
            start += part.size
            values[name] = bytes_of_it if part.codec else np.frombuffer(bytes_of_it, part.dtype).reshape(part.shape)
        return values

    def inner(self, data: bytes, name: str) -> str:
        return _layout(data[: _head(data)]).parts[name].codec

    def pack(self, record: Values, fields: Mapping[str, Field]) -> bytes:
        if not 0 < len(record) < 256:
            raise DataError(f"a record has 1 to 255 fields, but there are {len(record)}")
        described, parts = [], []
        for name, value in record.items():
            codec = fields[name].codec if isinstance(value, bytes) else ""
            if codec in WHOLE:
                raise DataError(f"'{name}' is a whole record already, of codec {codec}")
            array = np.asarray(value) if not codec else np.empty(0, fields[name].dtype)
            data = value if codec else array.astype(array.dtype.newbyteorder("<")).tobytes()
            described.append(_described(name, array.dtype, codec, () if codec else array.shape, len(data)))
            parts.append(data)
        descriptions = b"".join(described)
        if len(descriptions) > 0xFFFF:
            raise DataError(f"the names and shapes of a record have {len(descriptions):,} bytes, above 65,535")
        packed = b"".join([HEAD.pack(MAGIC, VERSION, len(record), len(descriptions)), descriptions, *parts])
        return packed + CHECKSUM.pack(crc32c(packed))


class _Part(NamedTuple):
    """What the bytes of a field are."""

    dtype: np.dtype
    codec: str
    shape: tuple[int, ...]
    size: int


class _Layout(NamedTuple):
    """The fields of a record, in their order, and the bytes of all of them."""

    parts: Mapping[str, _Part]
    size: int


def describing(fields: Mapping[str, Field]) -> bytes:
    """Return a record that describes the fields of a file, with their classes."""
    entries = [
        {
            "name": name,
            "shape": None if field.shape is None else list(field.shape),
            "dtype": field.dtype,
            "classes": list(field.classes),
            "codec": field.codec,
        }
        for name, field in fields.items()
    ]
    return Record().encode({DESCRIPTION: np.frombuffer(json.dumps(entries).encode(), np.uint8)})


def described(data: bytes) -> dict[str, Field] | None:
    """Return the fields of a file if this record describes them; None for any other.

    Raises:
        DataError: the record is damaged.
    """
    if not data.startswith(MAGIC):
        return None
    values = Record().unpack(data)
    if [*values] != [DESCRIPTION]:
        return None
    try:
        return {str(one["name"]): _field(one) for one in json.loads(values[DESCRIPTION].tobytes())}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError("the description of the records is damaged") from error


def _field(one: Mapping[str, Any]) -> Field:
    shape = None if one["shape"] is None else tuple(one["shape"])
    if not all(isinstance(size, int) and size >= 0 for size in shape or ()):
        raise ValueError
    return Field(shape, numbers_of(one["dtype"]).name, tuple(map(str, one["classes"])), str(one["codec"]))


def _described(name: str, dtype: np.dtype, codec: str, shape: tuple[int, ...], size: int) -> bytes:
    if dtype.name not in TYPES:
        raise DataError(f"'{name}' is of type {dtype}, but a record holds {', '.join(TYPES)}")
    if not name and dtype != np.uint8:
        raise DataError("a field of a record has no name")
    words = [name.encode(), dtype.name.encode(), codec.encode()]
    if too_long := [word for word in words if len(word) > 255]:
        raise DataError(f"the name {too_long[0].decode()!r} has {len(too_long[0])} bytes, above 255")
    texts = b"".join(bytes([len(word)]) + word for word in words)
    return b"".join([texts, bytes([len(shape)]), *map(SIZE.pack, (*shape, size))])


def _head(data: bytes) -> int:
    """Return how many bytes stand before those of the fields."""
    return HEAD.size + int.from_bytes(data[6:8], "little")


def _checked(data: bytes) -> int:
    """Return how many bytes stand before those of the fields, after checking the record."""
    if len(data) < HEAD.size + CHECKSUM.size or data[:4] != MAGIC:
        raise DataError("this is not a record of nacre's" if data[:4] != MAGIC else "the record is truncated")
    if data[4] != VERSION:
        message = f"the record is of version {data[4]}, but only version {VERSION} is read"
        raise DataError(message, "it is damaged, or was written by a newer nacre: upgrade nacre")
    body = data[: -CHECKSUM.size]
    if crc32c(body) != CHECKSUM.unpack_from(data, len(body))[0]:
        raise DataError("the record is damaged: its checksum is wrong", "restore the file, or write it again")
    return _head(data)


@lru_cache(256)
def _layout(head: bytes) -> _Layout:
    """Return the fields that a record's first bytes describe; their checksum is right, but anybody can make one.

    Raises:
        DataError: they describe no numbers, or contradict themselves.
    """
    parts: dict[str, _Part] = {}
    place = HEAD.size
    try:
        for _ in range(head[5]):
            words: list[str] = []
            for _ in range(3):
                words.append(head[place + 1 : place + 1 + head[place]].decode())
                place += 1 + head[place]
            axes = head[place]
            *shape, size = (SIZE.unpack_from(head, place + 1 + SIZE.size * axis)[0] for axis in range(axes + 1))
            place += 1 + SIZE.size * (axes + 1)
            dtype = numbers_of(words[1])
            if (
                axes > MOST_AXES
                or words[0] in parts
                or words[2] in WHOLE
                or not (words[2] or prod(shape) * dtype.itemsize == size)
            ):
                raise ValueError
            parts[words[0]] = _Part(dtype.newbyteorder("<"), words[2], tuple(shape), size)
    except (IndexError, StructError, ValueError) as error:
        raise DataError("the record is damaged: it does not say rightly what is in it") from error
    if place != len(head) or not parts:
        raise DataError("the record is damaged: it does not say rightly what is in it")
    return _Layout(parts, sum(part.size for part in parts.values()))


def numbers_of(name: str) -> np.dtype:
    """Return a type of whole or floating-point numbers by its name; ValueError if there is none."""
    if name not in TYPES:  # NumPy evaluates other names
        raise ValueError
    return np.dtype(name)
