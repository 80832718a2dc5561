"""What codecs of whole records have in common: fields of numbers, some of which are encoded pictures inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nacre import Codec, DataError, Field, make_component

PICTURE = "Picture"
WHOLE = ("Record", "Datum", "SingleLabelImageRecord", "Example")
"""Codecs of whole records, which no other record contains: there would be no limit to the depth."""
SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")

Values = Mapping[str, Any]
"""Of each field an array, or bytes in the format of another codec."""


class PackedCodec(Codec):
    """A codec of records with several fields, some of which may be bytes of another codec, such as pictures.

    Stores take the parts with `unpack`, so that such bytes are decoded, scaled and cut as those of any other store.

    Attributes:
        named: whether the bytes contain the names of the fields; else `unpack` gives "data" and "label".
    """

    named = True

    def unpack(self, data: bytes) -> Values:
        """Return the fields in the bytes of one record; arrays may share their memory.

        Raises:
            DataError: the bytes are not in this format.
        """
        raise NotImplementedError

    def pack(self, record: Values, fields: Mapping[str, Field]) -> bytes:
        """Return the bytes of a record with these fields.

        Raises:
            DataError: the format has no room for it, or is only read.
        """
        raise DataError(f"codec {type(self).__name__} only reads", "use another one, such as Record")

    def inner(self, data: bytes, name: str) -> str:
        """Return the codec of a field that is bytes."""
        return PICTURE

    def describe(self, data: bytes) -> Mapping[str, Field]:
        return {
            name: Field(None, "uint8", codec=self.inner(data, name))
            if isinstance(value, bytes)
            else Field(value.shape, value.dtype.name)
            for name, value in self.unpack(data).items()
        }

    def decode(self, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for name, value in self.unpack(data).items():
            if not isinstance(value, bytes):
                found[name] = value
                continue
            codec = make_component(Codec, self.inner(data, name))
            (inside,) = codec.describe(value)
            found[name] = codec.decode(value, {inside: shapes[name]} if name in shapes else {})[inside]
        return found

    def encode(self, record: Mapping[str, np.ndarray]) -> bytes:
        return self.pack(record, {name: Field(value.shape, value.dtype.name) for name, value in record.items()})


def is_picture(data: bytes) -> bool:
    """Return whether bytes begin as a JPEG, PNG, GIF, TIFF or WebP does."""
    return data.startswith(SIGNATURES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


def data_and_label(where: str, fields: Mapping[str, Field]) -> tuple[str, str]:
    """Return the names of the field with data and of the one with labels, "" if there is none.

    Raises:
        DataError: there are other fields.
    """
    labels = [
        name
        for name, field in fields.items()
        if field.shape == () and not field.codec and np.dtype(field.dtype).kind in "iu"
    ]
    data = [name for name in fields if name not in labels]
    if len(data) != 1 or len(labels) > 1:
        listed = ", ".join(f"'{name}' of shape {field.shape} and type {field.dtype}" for name, field in fields.items())
        message = (
            f"{where} holds one field of data and one label, a whole number, but these are to be written: {listed}"
        )
        raise DataError(message, 'use codec = "Record", which holds any fields')
    return data[0], labels[0] if labels else ""
