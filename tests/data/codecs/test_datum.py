"""Caffe's Datum, against the protobuf library and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from nacre import DataError, Field
from nacre_data.codecs.datum import Datum

FIELDS = {"data": Field((1, 2, 3), "uint8"), "label": Field((), "int64")}
PIXELS = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
GOLDEN = bytes.fromhex("08 01 10 02 18 03 22 06 00 01 02 03 04 05 28 07")  # as protoc's code writes it


@pytest.fixture(scope="module")
def message():
    pytest.importorskip("google.protobuf")
    from protobuf_messages import messages

    fields = {
        "channels": (1, "int32", False, False),
        "height": (2, "int32", False, False),
        "width": (3, "int32", False, False),
        "data": (4, "bytes", False, False),
        "label": (5, "int32", False, False),
        "float_data": (6, "float", True, False),
        "encoded": (7, "bool", False, False),
    }
    return messages("caffe", Datum=fields)["Datum"]


def test_golden_bytes():
    found = Datum().decode(GOLDEN, {})
    assert found["data"].tolist() == PIXELS.tolist()
    assert found["label"] == 7
    assert Datum().encode({"data": PIXELS, "label": np.array(7)}) == GOLDEN
    assert Datum().describe(GOLDEN) == FIELDS


@given(
    arrays.arrays(some.sampled_from(["uint8", "float32"]), arrays.array_shapes(min_dims=3, max_dims=3, max_side=4)),
    some.integers(-(1 << 31), (1 << 31) - 1),
)
def test_the_library_writes_and_reads_the_same(message, pixels, label):
    shape = dict(zip(("channels", "height", "width"), pixels.shape, strict=True))
    stored = {"data": pixels.tobytes()} if pixels.dtype == np.uint8 else {"float_data": pixels.ravel().tolist()}
    theirs = message(**shape, label=label, **stored)
    ours = Datum().encode({"data": pixels, "label": np.array(label)})
    assert ours == theirs.SerializeToString()
    found = Datum().decode(ours, {})
    assert found["data"].dtype == pixels.dtype
    np.testing.assert_array_equal(found["data"], pixels)
    assert found["label"] == label


def test_packed_floats_are_read():
    data = b"\x08\x01\x10\x01\x18\x02\x32\x08" + np.array([1.5, -2], "<f4").tobytes()
    assert Datum().decode(data, {})["data"].tolist() == [[[1.5, -2]]]


def test_an_encoded_picture_stays_as_it_is():
    picture = b"\xff\xd8\xff and so on"
    field = Field(None, "uint8", codec="Picture")
    data = Datum().pack({"x": picture, "y": np.array(3)}, {"x": field, "y": Field((), "int64")})
    assert Datum().unpack(data) == {"data": picture, "label": 3}
    assert Datum().describe(data)["data"] == field


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "has no data"),
        (b"\x08\x01\x10\x02\x18\x03\x22\x05abcde", r"shape \(1, 2, 3\), but has 5 numbers"),
        # -1 x -28 x 28 multiplies to 784
        (b"\x08" + b"\xff" * 9 + b"\x01\x10\xe4" + b"\xff" * 8 + b"\x01\x18\x1c\x22\x90\x06" + bytes(784), "shape"),
        (b"\x08" + b"\xff" * 8 + b"\x7f\x10\x01\x18\x01\x22\x01a", "but has 1 numbers"),
        (b"\x22\x01a\x35\0\0\0\0", "both bytes and floats"),
        (b"\x08\x01\x10\x01\x18\x01\x32\x03abc", "cut"),
        (b"\x0a\x01a", "no Datum: its field 1"),
        (b"\x08\x01\x10\x01\x18\x01\x22\x01a\x28" + b"\xff" * 8 + b"\x01", "32 bits"),
        (b"\x38\x01", "marked as encoded"),
        (b"\x0b", "unknown kind"),
        (b"\x08" + b"\xff" * 11, "no end"),
        (b"\x22\xff\xff\xff\xff\x7fabc", "field 4 has"),
    ],
)
def test_what_is_no_datum_is_told(data, words):
    with pytest.raises(DataError, match=words):
        Datum().unpack(data)


def test_truncated_after_each_byte():
    for end in range(len(GOLDEN)):
        try:
            found = Datum().unpack(GOLDEN[:end])
        except DataError:
            continue
        assert found == {"data": found["data"]}  # only the label, the last field, may be missing without notice
        assert end == len(GOLDEN) - 2


@given(some.binary(max_size=60))
def test_any_bytes_end_in_a_sentence_or_numbers(data):
    try:
        found = Datum().unpack(data)
    except DataError:
        return
    assert isinstance(found["data"], bytes) or 0 < found["data"].size <= len(data)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"data": PIXELS[0]}, "three axes"),
        ({"data": PIXELS.astype(float)}, "uint8 or float32"),
        ({"data": PIXELS, "label": np.array(1 << 31)}, "32 bits"),
        ({"data": PIXELS, "more": PIXELS}, "'more' of shape"),
    ],
)
def test_what_a_datum_has_no_room_for_is_told(record, words):
    with pytest.raises(DataError, match=words) as caught:
        Datum().encode(record)
    assert caught.value.remedy or "32 bits" in words
