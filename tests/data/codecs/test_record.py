"""nacre's own record: its bytes, and that every changed byte is noticed."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from nacre import DataError, Field, NacreError
from nacre_data.checksum import crc32c
from nacre_data.codecs.record import Record, described, describing

RECORD = {"data": np.array([[1, 2, 3]], np.uint8), "label": np.array(-2, np.int64)}
BODY = (
    b"\x8bNRC\x01\x02\x3b\x00"
    b"\x04data\x05uint8\x00\x02" + struct.pack("<3Q", 1, 3, 3) + b"\x05label\x05int64\x00\x00" + struct.pack("<Q", 8)
    + b"\x01\x02\x03" + b"\xfe\xff\xff\xff\xff\xff\xff\xff"
)  # fmt: skip
GOLDEN = BODY + struct.pack("<I", crc32c(BODY))
TYPES = ["bool", "int8", "uint8", "int16", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def sealed(body):
    return body + struct.pack("<I", crc32c(body))


def same(found, wanted):
    return [*found] == [*wanted] and all(
        found[name].dtype == value.dtype
        and found[name].shape == value.shape
        and found[name].tobytes() == value.tobytes()
        for name, value in wanted.items()
    )


def test_its_bytes_are_those_of_the_page():
    assert Record().encode(RECORD).hex(" ") == GOLDEN.hex(" ")
    assert same(Record().decode(GOLDEN, {}), RECORD)
    assert Record().describe(GOLDEN) == {"data": Field((1, 3), "uint8"), "label": Field((), "int64")}


def test_every_changed_byte_is_noticed():
    for place in range(len(GOLDEN)):
        for change in range(1, 256):
            changed = bytearray(GOLDEN)
            changed[place] ^= change
            with pytest.raises(DataError):
                Record().unpack(bytes(changed))


def test_every_truncated_and_lengthened_record_is_noticed():
    for end in range(len(GOLDEN)):
        with pytest.raises(DataError):
            Record().unpack(GOLDEN[:end])
    with pytest.raises(DataError):
        Record().unpack(GOLDEN + b"\0")


@pytest.mark.parametrize("place", range(4, len(GOLDEN) - 4))
def test_a_wrong_description_with_a_right_checksum_is_refused_or_read(place):
    """Anybody can compute a checksum; what then is read has all bytes inside the record."""
    for value in range(256):
        changed = bytearray(BODY)
        changed[place] = value
        try:
            found = Record().decode(sealed(bytes(changed)), {})
        except NacreError:  # a codec that is not installed is told too
            continue
        assert sum(array.nbytes for array in found.values()) <= len(BODY)


def test_a_newer_version_is_told():
    with pytest.raises(DataError, match="version 2, but only version 1"):
        Record().unpack(sealed(BODY[:4] + b"\2" + BODY[5:]))


def test_what_a_record_cannot_hold_is_told():
    for value, words in (
        (np.array("x"), "type <U1"),
        (np.zeros(1, complex), "complex128"),
        (np.zeros(1, "M8[s]"), "datetime"),
    ):
        with pytest.raises(DataError, match=words):
            Record().encode({"x": value})
    with pytest.raises(DataError, match="no name"):
        Record().encode({"": np.zeros(2)})
    with pytest.raises(DataError, match="300 bytes, above 255"):
        Record().encode({"x" * 300: np.zeros(2)})
    with pytest.raises(DataError, match="there are 0"):
        Record().encode({})
    with pytest.raises(DataError, match="above 65,535"):
        Record().encode({f"{number:0255}": np.zeros(1) for number in range(255)})


def test_numbers_with_the_highest_byte_first_come_back():
    found = Record().decode(Record().encode({"x": np.array([1.5, -2], ">f8")}), {})
    assert found["x"].tolist() == [1.5, -2]


def test_a_picture_inside_stays_as_it_is():
    data = b"\x89PNG\r\n\x1a\n and so on"
    fields = {"x": Field(None, "uint8", codec="Picture"), "label": Field((), "int64")}
    packed = Record().pack({"x": data, "label": np.array(3)}, fields)
    assert Record().unpack(packed)["x"] == data
    assert Record().describe(packed)["x"] == Field(None, "uint8", codec="Picture")


def test_records_do_not_contain_records():
    with pytest.raises(DataError, match="a whole record already"):
        Record().pack({"x": GOLDEN}, {"x": Field(None, "uint8", codec="Record")})
    inside = b"\x8bNRC\x01\x01\x18\x00\x01x\x05uint8\x06Record\x00" + struct.pack("<Q", 4) + b"abcd"
    with pytest.raises(DataError, match="does not say rightly"):
        Record().decode(sealed(inside), {})


def test_fields_are_described_with_their_classes():
    fields = {"x": Field(None, "uint8", codec="Picture"), "label": Field((), "int64", classes=("cat", "Ärger"))}
    assert described(describing(fields)) == fields
    assert described(GOLDEN) is None
    assert described(b"\x08\1") is None
    for text in (b"{", b"[1]", b'[{"name": "x", "shape": [-1], "dtype": "uint8", "classes": [], "codec": ""}]',
                 b'[{"name": "x", "shape": [1], "dtype": "O", "classes": [], "codec": ""}]'):  # fmt: skip
        with pytest.raises(DataError, match="description of the records is damaged"):
            described(Record().encode({"": np.frombuffer(text, np.uint8)}))


@given(
    some.dictionaries(
        some.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()),
        some.sampled_from(TYPES).flatmap(
            lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_numbers_come_back(record):
    assert same(Record().decode(Record().encode(record), {}), record)
