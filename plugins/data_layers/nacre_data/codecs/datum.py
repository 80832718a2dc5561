"""Datum: Caffe's record of a picture and its label (caffe.proto), read and written without protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nacre import DataError, Field

from .packed import PackedCodec, Values, data_and_label
from .wire import BYTES, FOUR, VARINT, checked_shape, field, fields_of, floats, label_of, packed_label, signed

CHANNELS, HEIGHT, WIDTH, DATA, LABEL, FLOATS, ENCODED = range(1, 8)
KINDS = {CHANNELS: VARINT, HEIGHT: VARINT, WIDTH: VARINT, DATA: BYTES, LABEL: VARINT, ENCODED: VARINT}
SIZES = (CHANNELS, HEIGHT, WIDTH)


class Datum(PackedCodec):
    """Caffe's `Datum`: "data" of shape (channels, height, width), uint8 or float32, and "label", int64.

    Encoded pictures (`encoded: true`) are bytes for the codec `Picture`. The order of channels is as it is stored:
    Caffe's own tools store blue first, but encoded pictures are decoded with red first.
    """

    named = False

    def unpack(self, data: bytes) -> Values:
        found: dict[int, Any] = {}
        numbers: list[bytes] = []
        for number, kind, value in fields_of(data):
            if number == FLOATS and kind in (BYTES, FOUR):
                numbers.append(value)
            elif KINDS.get(number, kind) != kind or number == FLOATS:
                raise DataError(f"this is no Datum: its field {number} is of another kind")
            else:
                found[number] = value
        record = {"data": self._data(found, numbers)}
        return record | {"label": label_of(found[LABEL])} if LABEL in found else record

    def _data(self, found: Mapping[int, Any], numbers: list[bytes]) -> Any:
        stored = found.get(DATA, b"")
        if found.get(ENCODED):
            if not stored or numbers:
                raise DataError("this Datum is marked as encoded, but has no picture")
            return stored
        if bool(stored) == bool(numbers):
            raise DataError(f"this Datum has {'both bytes and floats' if stored else 'no data'}")
        array = np.frombuffer(stored, np.uint8) if stored else floats(numbers)
        shape = [signed(found.get(number, 0)) for number in SIZES]
        return array.reshape(checked_shape(shape, len(array)))

    def pack(self, record: Values, fields: Mapping[str, Field]) -> bytes:
        data, label = data_and_label("a Datum", fields)
        value = record[data]
        parts: dict[int, int | bytes] = {}
        if isinstance(value, bytes):
            parts = {DATA: value, ENCODED: 1}
        else:
            if value.ndim != 3 or not value.size:
                message = f"a Datum has three axes, (channels, height, width), but '{data}' has the shape {value.shape}"
                raise DataError(message, 'give it this shape, or use codec = "Record"')
            parts = dict(zip(SIZES, value.shape, strict=True))
            if value.dtype == np.uint8:
                parts[DATA] = value.tobytes()
            elif value.dtype != np.float32:
                message = f"a Datum holds uint8 or float32, but '{data}' is of type {value.dtype}"
                raise DataError(message, 'use codec = "Record", which holds any type')
        if label:
            parts[LABEL] = packed_label(record[label])
        packed = {number: field(number, part) for number, part in parts.items()}
        if not isinstance(value, bytes) and value.dtype == np.float32:
            each = value.astype("<f4").reshape(-1, 1).view(np.uint8)
            tags = np.full((len(each), 1), FLOATS << 3 | FOUR, np.uint8)  # caffe.proto does not pack them
            packed[FLOATS] = np.hstack([tags, each]).tobytes()
        return b"".join(packed[number] for number in sorted(packed))
