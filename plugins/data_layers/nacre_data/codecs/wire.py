"""The bytes of protobuf messages, read and written by hand: a field is its number, its kind and its value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from nacre import DataError

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
LIMIT = 1 << 64
MOST_AXES = 32  # of a blob


def fields_of(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, kind and value of each field: a varint as an int without sign, others as bytes.

    Raises:
        DataError: this is not a message.
    """
    place, end = 0, len(data)
    while place < end:
        tag, place = (data[place], place + 1) if data[place] < 128 else _varint(data, place)
        number, kind = tag >> 3, tag & 7
        if kind in (VARINT, BYTES):
            short = place < end and data[place] < 128
            value, place = (data[place], place + 1) if short else _varint(data, place)
            if kind == VARINT:
                yield number, kind, value
                continue
        elif kind in (FOUR, EIGHT):
            value = 4 if kind == FOUR else 8
        else:
            raise DataError(f"this is no protobuf message: byte {place - 1} begins a field of an unknown kind")
        if not number or value > end - place:
            raise DataError(f"the message is damaged or truncated: field {number} has {value:,} bytes")
        yield number, kind, data[place : place + value]
        place += value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value % LIMIT, place
        shift += 7
    raise DataError("the message is damaged or truncated: a number has no end")


def signed(value: int) -> int:
    """Return a varint as a number with a sign."""
    return value - LIMIT if value >= LIMIT // 2 else value


def varints(data: bytes) -> list[int]:
    """Return the varints that follow each other in packed bytes."""
    found: list[int] = []
    place = 0
    while place < len(data):
        value, place = _varint(data, place)
        found.append(value)
    return found


def floats(parts: Sequence[bytes]) -> np.ndarray:
    """Return the numbers of a repeated float, packed or not.

    Raises:
        DataError: a part is no whole number of floats.
    """
    if any(len(part) % 4 for part in parts):
        raise DataError("the message is damaged: its numbers of 4 bytes are cut")
    return np.frombuffer(b"".join(parts), "<f4").astype(np.float32, copy=False)


def checked_shape(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """Return a shape after checking that it holds so many numbers; a negative size could hide behind another.

    Raises:
        DataError: it does not.
    """
    if not 0 < len(shape) <= MOST_AXES or min(shape) <= 0 or prod(shape) != count:
        raise DataError(f"it declares the shape {tuple(shape[:MOST_AXES])}, but has {count:,} numbers")
    return tuple(shape)


def field(number: int, value: int | bytes) -> bytes:
    """Return the bytes of a field that is a varint or bytes."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value % LIMIT)
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Return the bytes of a number without a sign."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def label_of(value: Any) -> np.ndarray:
    """Return a label, which both Caffe and SINGA have as int32, from its varint.

    Raises:
        DataError: it is larger.
    """
    label = signed(value)
    if not -(1 << 31) <= label < 1 << 31:
        raise DataError(f"its label {label} is no number of 32 bits")
    return np.array(label, np.int64)


def packed_label(value: Any) -> int:
    """Return a label that is written.

    Raises:
        DataError: it has no room in 32 bits.
    """
    label = int(value)
    if not -(1 << 31) <= label < 1 << 31:
        raise DataError(f"the label {label} has no room in 32 bits")
    return label
