"""SINGA's records, against the protobuf library and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from nacre import DataError
from nacre_data.codecs.single_label_image_record import SingleLabelImageRecord

IMAGE = bytes.fromhex("08 01 08 03 10 07 1a 03 01 02 03")  # shape 1, shape 3, label, pixel
GOLDEN = bytes.fromhex("08 00 12 0b") + IMAGE


@pytest.fixture(scope="module")
def classes():
    pytest.importorskip("google.protobuf")
    from protobuf_messages import messages

    image = {
        "shape": (1, "int32", True, False),
        "label": (2, "int32", False, False),
        "pixel": (3, "bytes", False, False),
        "data": (4, "float", True, True),
    }
    record = {"type": (1, "enum", False, False), "image": (2, "Image", False, False)}
    later = record | {"user_type": (2, "string", False, False), "image": (5, "Image", False, False)}
    return messages("singa", Image=image, Record=record, Later=later)


def test_golden_bytes():
    record = {"data": np.array([[1, 2, 3]], np.uint8), "label": np.array(7)}
    assert SingleLabelImageRecord().encode(record) == GOLDEN
    for data in (GOLDEN, GOLDEN[2:], IMAGE, b"\x2a\x0b" + IMAGE, b"\x12\x04kOwn\x2a\x0b" + IMAGE):
        found = SingleLabelImageRecord().decode(data, {})
        assert found["data"].tolist() == [[1, 2, 3]]
        assert found["label"] == 7


@given(
    arrays.arrays(some.sampled_from(["uint8", "float32"]), arrays.array_shapes(min_dims=1, max_dims=4, max_side=4)),
    some.integers(-(1 << 31), (1 << 31) - 1),
)
def test_the_library_writes_and_reads_the_same(classes, numbers, label):
    stored = {"pixel": numbers.tobytes()} if numbers.dtype == np.uint8 else {"data": numbers.ravel().tolist()}
    image = classes["Image"](shape=numbers.shape, label=label, **stored)
    ours = SingleLabelImageRecord().encode({"data": numbers, "label": np.array(label)})
    assert ours == classes["Record"](type=0, image=image).SerializeToString()
    for data in (ours, classes["Later"](user_type="x", image=image).SerializeToString(), image.SerializeToString()):
        found = SingleLabelImageRecord().decode(data, {})
        assert found["data"].dtype == numbers.dtype
        np.testing.assert_array_equal(found["data"], numbers)
        assert found["label"] == label


def test_floats_that_are_not_packed_and_a_packed_shape_are_read():
    data = b"\x0a\x02\x01\x02" + b"".join(b"\x25" + np.float32(one).tobytes() for one in (1.5, -2))
    assert SingleLabelImageRecord().decode(data, {})["data"].tolist() == [[1.5, -2]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no SINGA Record"),
        (b"\x08\x01\x12\x0b" + IMAGE, "no SINGA Record"),  # of another type
        (b"\x12\x06" + IMAGE[:6], "no numbers"),
        (b"\x08\x02\x1a\x03abc", r"shape \(2,\), but has 3"),
        (b"\x08" + b"\xff" * 9 + b"\x01\x08" + b"\xff" * 9 + b"\x01\x1a\x01a", "but has 1"),
        (b"\x0a\x7f" + b"\x01" * 127 + b"\x1a\x01a", "but has 1"),
        (b"\x18\x01", "field 3 is of another kind"),
    ],
)
def test_what_is_no_record_is_told(data, words):
    with pytest.raises(DataError, match=words):
        SingleLabelImageRecord().unpack(data)


def test_truncated_after_each_byte():
    for end in range(len(GOLDEN)):
        with pytest.raises(DataError):
            SingleLabelImageRecord().unpack(GOLDEN[:end])


@given(some.binary(max_size=60))
def test_any_bytes_end_in_a_sentence_or_numbers(data):
    try:
        found = SingleLabelImageRecord().unpack(data)
    except DataError:
        return
    assert 0 < found["data"].size <= len(data)


def test_what_there_is_no_room_for_is_told():
    with pytest.raises(DataError, match="uint8 or float32"):
        SingleLabelImageRecord().encode({"data": np.zeros(3)})
