"""TFRecord files as stores."""

import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from nacre import DataError, open_records, store_of
from nacre.testing import StoreTests
from nacre_data.checksum import crc32c
from nacre_data.codecs.datum import Datum
from nacre_data.stores.tf_record import TFRecord, masked


def record(data):
    """Return a record as the format's description says."""
    size = len(data).to_bytes(8, "little")
    return b"".join([size, masked(size).to_bytes(4, "little"), data, masked(data).to_bytes(4, "little")])


def example(number):
    """Return an Example with x, two floats, and y, a whole number."""
    x = b"\x0a\x11\x0a\x01x\x12\x0c\x12\x0a\x0a\x08" + np.array([number, -number], "<f4").tobytes()
    y = b"\x0a\x0a\x0a\x01y\x12\x05\x1a\x03\x0a\x01" + bytes([number])
    return b"\x0a" + bytes([len(x + y)]) + x + y


class TestTFRecord(StoreTests):
    store = TFRecord()
    damage_shows = False  # a file that is cut between two records shows nothing; see below

    def make(self, folder: Path):
        path = folder / "records.tfrecord"
        path.write_bytes(b"".join(record(example(number)) for number in range(5)))
        x = np.array([[number, -number] for number in range(5)], np.float32)
        return path, {"x": x, "y": np.arange(5)}


def test_the_mask_is_that_of_tensorflow():
    crc = crc32c(b"123456789")
    assert crc == 0xE3069283
    assert masked(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32


def test_tensorboard_writes_the_same():
    library = pytest.importorskip("tensorboard.summary.writer.record_writer")
    file = io.BytesIO()
    library.RecordWriter(file).write(b"abc" * 100)
    assert file.getvalue() == record(b"abc" * 100)


def test_truncated_after_each_byte(tmp_path):
    path, each = tmp_path / "x.tfrecord", len(record(example(1)))
    data = b"".join(record(example(number)) for number in range(3))
    for end in range(len(data)):
        path.write_bytes(data[:end])
        if end % each:
            with pytest.raises(DataError, match=rf"x\.tfrecord: record {end // each} at byte .* is cut"):
                TFRecord().open(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="it has no records"):
        TFRecord().open(path)


def test_every_changed_byte_is_noticed(tmp_path):
    path, data = tmp_path / "x.tfrecord", record(example(1)) + record(example(2))
    for place in range(len(data)):
        bad = bytearray(data)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        with pytest.raises(DataError, match=r"x\.tfrecord: .*record [01]"), TFRecord().open(path) as reader:
            list(reader.rows())


def test_other_codecs_are_named(tmp_path):
    path = tmp_path / "x.tfrecords"
    path.write_bytes(record(Datum().encode({"data": np.ones((1, 2, 2), np.uint8), "label": np.array(3)})))
    assert isinstance(store_of(path), TFRecord)
    with open_records([path], store={"type": "TFRecord", "codec": "Datum"}) as reader:
        assert [int(row["label"]) for row in reader.rows()] == [3]
    with pytest.raises(DataError, match="record 0: this is no Example"):
        TFRecord().open(path)


def test_compressed_files_are_refused(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(gzip.compress(record(example(1))))
    with pytest.raises(DataError, match="is compressed") as caught:
        TFRecord().open(path)
    assert "gunzip" in caught.value.remedy


def test_lists_of_other_lengths_are_told(tmp_path):
    path = tmp_path / "x.tfrecord"
    short = b"\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\0\0\0\0"
    path.write_bytes(record(example(1)) + record(short))
    with TFRecord().open(path, ["x"]) as reader, pytest.raises(DataError, match=r"record 1: 'x' has the shape \(\)"):
        list(reader.rows())
    with TFRecord().open(path) as reader, pytest.raises(DataError, match="record 1: "):
        list(reader.rows())
