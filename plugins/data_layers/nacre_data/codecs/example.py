"""Example: TensorFlow's record of named features (tf.train.Example), read without protobuf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nacre import DataError, Field

from .packed import PackedCodec, Values, is_picture
from .wire import BYTES, FOUR, VARINT, fields_of, floats, signed, varints

FEATURES, FEATURE, KEY, VALUE, LIST = 1, 1, 1, 2, 1
TEXTS, FLOATS, WHOLES = 1, 2, 3
"""Kinds of a feature: a list of bytes, of floats, of whole numbers of 64 bits."""


class Example(PackedCodec):
    """TensorFlow's `tf.train.Example`: lists of numbers by name, as float32 or int64; a list of one is a single number.

    Bytes that are a picture are for the codec `Picture`; others are numbers from 0 to 255, as many as a record has.
    Lists of several texts, and empty ones, are left out. A "/" in a name becomes ".".
    """

    def unpack(self, data: bytes) -> Values:
        record: dict[str, Any] = {}
        for features in _inside(data, FEATURES, "Example"):
            for entry in _inside(features, FEATURE, "Example"):
                name, value = _entry(entry)
                if value is not None:
                    record[name] = value
        if not record:
            raise DataError("this is no Example, or it is empty")
        return record

    def describe(self, data: bytes) -> Mapping[str, Field]:
        found = super().describe(data)
        return {
            name: Field(None, "uint8") if field.dtype == "uint8" and not field.codec else field
            for name, field in found.items()
        }


def _inside(data: bytes, wanted: int, what: str) -> Iterator[bytes]:
    """Yield the messages of one field."""
    for number, kind, value in fields_of(data):
        if number == wanted:
            if kind != BYTES:
                raise DataError(f"this is no {what}: its field {number} is of another kind")
            yield value


def _entry(data: bytes) -> tuple[str, Any]:
    """Return name and value of a feature; None if it has none that is read."""
    parts = {number: value for number, kind, value in fields_of(data) if kind == BYTES}
    try:
        name = parts.get(KEY, b"").decode().replace("/", ".")  # which no name of a blob contains
    except UnicodeDecodeError as error:
        raise DataError("the name of a feature is no text") from error
    for number, kind, value in fields_of(parts.get(VALUE, b"")):
        if kind != BYTES or number not in (TEXTS, FLOATS, WHOLES):
            raise DataError(f"feature '{name}' is of another kind than bytes, floats and whole numbers")
        return name, _value(number, value, name)
    return name, None


def _value(kind: int, data: bytes, name: str) -> Any:
    stored = [(form, value) for number, form, value in fields_of(data) if number == LIST]
    forms = {TEXTS: (BYTES,), FLOATS: (BYTES, FOUR), WHOLES: (BYTES, VARINT)}[kind]
    if any(form not in forms for form, _ in stored):
        raise DataError(f"feature '{name}' is damaged: its values are of another kind than it says")
    if kind == TEXTS:
        if len(stored) != 1 or not stored[0][1]:
            return None
        text = stored[0][1]
        return text if is_picture(text) else np.frombuffer(text, np.uint8)
    if kind == FLOATS:
        array = floats([value for _, value in stored])
    else:
        numbers = [one for form, value in stored for one in (varints(value) if form == BYTES else [value])]
        array = np.array([signed(one) for one in numbers], np.int64)
    if not array.size:
        return None
    return array if len(array) > 1 else array[0]
