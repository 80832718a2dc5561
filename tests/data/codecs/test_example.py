"""TensorFlow's Example, against the protobuf library and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from nacre import DataError, Field
from nacre_data.codecs.example import Example

# key: "x" value { float_list { value: 1.5 } }, and key: "y" value { int64_list { value: -1 } }
X = bytes.fromhex("0a 0d 0a 01 78 12 08 12 06 0a 04 00 00 c0 3f")
Y = bytes.fromhex("0a 13 0a 01 79 12 0e 1a 0c 0a 0a ff ff ff ff ff ff ff ff ff 01")
GOLDEN = b"\x0a" + bytes([len(X + Y)]) + X + Y
PICTURE = b"\x89PNG\r\n\x1a\n..."


def example(**features):
    """Return the bytes of an Example that the protobuf library writes; its map is a repeated message on the wire."""
    pytest.importorskip("google.protobuf")
    from protobuf_messages import messages

    made = messages(
        "tensorflow",
        Bytes={"value": (1, "bytes", True, False)},
        Floats={"value": (1, "float", True, True)},
        Wholes={"value": (1, "int64", True, True)},
        Feature={
            "bytes_list": (1, "Bytes", False, False),
            "float_list": (2, "Floats", False, False),
            "int64_list": (3, "Wholes", False, False),
        },
        Entry={"key": (1, "string", False, False), "value": (2, "Feature", False, False)},
        Features={"feature": (1, "Entry", True, False)},
        Example={"features": (1, "Features", False, False)},
    )
    entries = [
        made["Entry"](key=name, value=made["Feature"](**{f"{kind}_list": {"value": values}}))
        for name, (kind, values) in features.items()
    ]
    return made["Example"](features={"feature": entries}).SerializeToString()


def test_golden_bytes():
    assert example(x=("float", [1.5]), y=("int64", [-1])) == GOLDEN
    assert Example().decode(GOLDEN, {}) == {"x": 1.5, "y": -1}
    assert Example().describe(GOLDEN) == {"x": Field((), "float32"), "y": Field((), "int64")}


def test_kinds_of_features():
    data = example(
        **{"image/encoded": ("bytes", [PICTURE])},
        raw=("bytes", [b"abc"]),
        names=("bytes", [b"a", b"b"]),
        none=("float", []),
        box=("float", [1, 2.5]),
    )
    assert Example().describe(data) == {
        "image.encoded": Field(None, "uint8", codec="Picture"),
        "raw": Field(None, "uint8"),
        "box": Field((2,), "float32"),
    }
    found = Example().unpack(data)
    assert found["image.encoded"] == PICTURE
    assert found["raw"].tolist() == [97, 98, 99]
    assert found["box"].tolist() == [1, 2.5]


def test_lists_that_are_not_packed_are_read():
    floats = b"".join(b"\x0d" + np.float32(one).tobytes() for one in (1, 2))
    feature = b"\x12" + bytes([len(floats)]) + floats
    entry = b"\x0a\x01x\x12" + bytes([len(feature)]) + feature
    wholes = b"\x0a\x01y\x12\x06\x1a\x04\x08\x05\x08\x06"
    features = b"".join(b"\x0a" + bytes([len(one)]) + one for one in (entry, wholes))
    found = Example().unpack(b"\x0a" + bytes([len(features)]) + features)
    assert {name: one.tolist() for name, one in found.items()} == {"x": [1, 2], "y": [5, 6]}


@given(
    some.dictionaries(
        some.text(max_size=10).filter(lambda name: "/" not in name),
        some.lists(some.integers(-(1 << 63), (1 << 63) - 1), min_size=1)
        | some.lists(some.floats(width=32, allow_nan=False), min_size=1),
        min_size=1,
    )
)
def test_what_the_library_writes_is_read(features):
    kinds = {name: ("int64" if isinstance(values[0], int) else "float", values) for name, values in features.items()}
    found = Example().decode(example(**kinds), {})
    assert {name: np.atleast_1d(one).tolist() for name, one in found.items()} == features
    assert {one.dtype.name for one in found.values()} <= {"int64", "float32"}


@pytest.mark.parametrize("data", [b"", b"\x0a\x00", b"\x08\x01", b"\x0a\x02\x08\x01", b"\x0a\x04\x0a\x02\x12\x00"])
def test_what_is_no_example_is_told(data):
    with pytest.raises(DataError, match="no Example"):
        Example().unpack(data)


def test_truncated_after_each_byte():
    for end in range(len(GOLDEN)):
        with pytest.raises(DataError):
            Example().unpack(GOLDEN[:end])


@given(some.binary(max_size=60))
def test_any_bytes_end_in_a_sentence_or_numbers(data):
    for bad in (data, b"\x0a" + bytes([len(data)]) + data):
        try:
            found = Example().unpack(bad)
        except DataError:
            continue
        assert all(isinstance(one, bytes) or one.size <= len(data) for one in found.values())


def test_it_only_reads():
    with pytest.raises(DataError, match="Example only reads"):
        Example().encode({"x": np.zeros(1)})
