"""SingleLabelImageRecord: SINGA's record of an image and its label (common.proto), without protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nacre import DataError, Field

from .packed import PackedCodec, Values, data_and_label
from .wire import (
    BYTES,
    FOUR,
    VARINT,
    checked_shape,
    field,
    fields_of,
    floats,
    label_of,
    packed_label,
    signed,
    varints,
)

TYPE, IMAGE, LATER_IMAGE = 1, 2, 5
"""Fields of a Record. Before SINGA 0.1, field 2 is the image; since then it is `user_type`, and field 5 the image."""
SHAPE, LABEL, PIXEL, DATA = 1, 2, 3, 4
KINDS = {SHAPE: (VARINT, BYTES), LABEL: (VARINT,), PIXEL: (BYTES,), DATA: (BYTES, FOUR)}


class SingleLabelImageRecord(PackedCodec):
    """SINGA's `SingleLabelImageRecord`, by itself or in a `Record` of any version: "data" and "label".

    Data are uint8 (`pixel`) or float32 (`data`); labels become int64. It is written in a `Record` as SINGA did in 2015,
    with the image in field 2.
    """

    named = False

    def unpack(self, data: bytes) -> Values:
        outer = [*fields_of(data)]
        if any((number == SHAPE and kind == BYTES) or number in (PIXEL, DATA) for number, kind, _ in outer):
            return _image(outer)
        images = {number: value for number, kind, value in outer if number in (IMAGE, LATER_IMAGE) and kind == BYTES}
        if any(number == TYPE and (kind != VARINT or value) for number, kind, value in outer) or not images:
            raise DataError("this is no SINGA Record with a single-label image")
        return _image(fields_of(images[max(images)]))

    def pack(self, record: Values, fields: Mapping[str, Field]) -> bytes:
        data, label = data_and_label("a SINGA Record", fields)
        value = record[data]
        if isinstance(value, bytes):
            raise DataError("a SINGA Record has no room for encoded pictures", "give the shape they are scaled to")
        if value.dtype not in (np.uint8, np.float32) or not value.size:
            message = f"a SINGA Record holds uint8 or float32, but '{data}' has the type {value.dtype}"
            raise DataError(f"{message} and the shape {value.shape}", 'use codec = "Record", which holds any type')
        parts = [field(SHAPE, size) for size in value.shape or (1,)]
        if label:
            parts.append(field(LABEL, packed_label(record[label])))
        parts.append(
            field(PIXEL, value.tobytes()) if value.dtype == np.uint8 else field(DATA, value.astype("<f4").tobytes())
        )
        return field(TYPE, 0) + field(IMAGE, b"".join(parts))


def _image(parts: Any) -> Values:
    shape: list[int] = []
    pixels, numbers = b"", []
    record: dict[str, Any] = {}
    for number, kind, value in parts:
        if kind not in KINDS.get(number, (kind,)):
            raise DataError(f"this is no image of SINGA's: its field {number} is of another kind")
        if number == SHAPE:
            shape += map(signed, varints(value) if kind == BYTES else [value])
        elif number == LABEL:
            record["label"] = label_of(value)
        elif number == PIXEL:
            pixels = value
        elif number == DATA:
            numbers.append(value)
    array = np.frombuffer(pixels, np.uint8) if pixels else floats(numbers)
    if not array.size:
        raise DataError("this image of SINGA's has no numbers")
    return {"data": array.reshape(checked_shape(shape or [len(array)], len(array))), **record}
