"""TFRecord: TensorFlow's files of records, with checksums; they are only read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct

from nacre import DataError, Reader, Store
from nacre.files import Watched, check_file, os_errors

from ..checksum import crc32c
from .entries import Entries
from .packed import CodecName, PackedReader

HEAD = Struct("<QI")  # length of the record and the checksum of these 8 bytes
CHECKSUM = Struct("<I")
MASK = 0xA282EAD8
GZIP, ZLIB = b"\x1f\x8b", b"\x78"
REMEDY = "restore the file, or write it again"


class TFRecord(Store):
    """TensorFlow's TFRecord file, whose records are tf.train.Example, unless `codec` names another format.

    Every record has a checksum; but a file that is cut between two records shows nothing. Compressed files are refused.
    """

    endings = (".tfrecord", ".tfrecords")
    codec: CodecName = "Example"

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        check_file(path, "a TFRecord file")
        with os_errors(path, "cannot be read", DataError):
            return TFRecordReader(path, self.codec, fields)


class TFRecordReader(PackedReader):
    """Records of one file."""

    def __init__(self, path: Path, codec: str, wanted: Sequence[str]) -> None:
        self.path = path
        self.file = path.open("rb")
        try:
            watched = Watched(self.file.fileno(), str(path))
            with watched.reading("its index"):
                entries = self._indexed()
            super().__init__(str(path), entries, watched, codec, wanted)
        except BaseException:
            self.close()
            raise

    def _indexed(self) -> Entries:
        entries = Entries()
        size = os.fstat(self.file.fileno()).st_size
        place = 0
        while place < size:
            self.file.seek(place)
            head = self.file.read(HEAD.size)
            where = f"{self.path}: record {len(entries)} at byte {place:,}"
            if len(head) < HEAD.size:
                raise DataError(f"{where} is cut", REMEDY)
            length, checksum = HEAD.unpack(head)
            if masked(head[:8]) != checksum:
                if not place and head.startswith((GZIP, ZLIB)):
                    raise DataError(f"{self.path}: this TFRecord file is compressed, or damaged", "unpack it: gunzip")
                message = (
                    "its length is damaged" if place else "this is no TFRecord file, or its first length is damaged"
                )
                raise DataError(f"{where}: {message}", REMEDY)
            if length + CHECKSUM.size > size - place - HEAD.size:
                raise DataError(f"{where} is cut: it has {length:,} bytes, but the file ends before", REMEDY)
            entries.add(b"", place + HEAD.size, length)
            place += HEAD.size + length + CHECKSUM.size
        return entries

    def value(self, entry: int) -> bytes:
        size = self.entries.sizes[entry]
        self.file.seek(self.entries.starts[entry])
        data = self.file.read(size + CHECKSUM.size)
        if masked(data[:size]) != int.from_bytes(data[size:], "little"):
            raise DataError(f"{self.where}: record {entry} is damaged: its checksum is wrong", REMEDY)
        return data[:size]

    def close(self) -> None:
        self.file.close()


def masked(data: bytes) -> int:
    """Return the CRC-32C of some bytes as TensorFlow stores it: turned by 15 bits, and a number is added."""
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + MASK) & 0xFFFFFFFF
