"""Shard: SINGA's files of keys and values, DataShard and kvfile."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Annotated, Any

from nacre import DataError, Field, Reader, Store, Writer
from nacre.files import Watched, check_file, make_folder, os_errors

from ..files import inside
from .entries import Entries
from .packed import DESCRIBING, CodecName, PackedReader, Packing, check_same_records, file_to_continue, wanted_of
from .places import Beside, InPlace

DATA = "shard.dat"
SINGLE = (".dat", ".kvfile")
"""Ends of the names of shards that are one file; others are folders with a file `shard.dat`."""
LENGTH = Struct("<Q")  # size_t; the comment in SINGA's header says uint32, its code does not
MARKS = {b"sg\x00\x00": False, b"sg\x01\x00": True}
"""What stands before each tuple since SINGA 1.0: whether it has a key. As a length it would be above 2^32."""
REMEDY = "give torn_tail = true, which leaves it out; or continue it with append=True, which cuts the rest"
TornTail = Annotated[bool, "whether to leave out a last record that is cut, as after a crash of its writer"]


class Shard(Store):
    """SINGA's shard: a folder with a file `shard.dat` (DataShard), or such a file (`.kvfile`); also that of SINGA 1.x.

    Values are SINGA's Record, Caffe's Datum or nacre's own, which is found out by the first. The file has no checksums
    of its own and no number of records: only nacre's records show that they are damaged, and a file that is cut between
    two of them shows nothing.
    """

    endings = (".kvfile", ".shard")
    folder = DATA
    codec: CodecName = ""
    torn_tail: TornTail = False

    @classmethod
    def fits(cls, path: Path) -> bool:
        """Return whether it is a folder with a shard, or a shard by its name."""
        return (path / DATA).is_file() if path.is_dir() else path.name == DATA or super().fits(path)

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        file = inside(path / DATA, path) if path.is_dir() else path
        check_file(file, "a shard")
        with os_errors(file, "cannot be read", DataError):
            tuples = Tuples(file)
        try:
            if tuples.torn and not self.torn_tail:
                raise DataError(f"{path}: {tuples.torn}", REMEDY)
            return ShardReader(str(path), tuples, self.codec, fields)
        except BaseException:
            tuples.close()
            raise

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        packing = Packing(str(path), fields, self.codec)
        return ShardAppender(self, path, packing) if append else ShardWriter(path, packing)


class Tuples:
    """An open shard, whose tuples [length, key, length, value] are indexed.

    Attributes:
        entries: its complete tuples.
        end: where the last of them ends.
        torn: what is wrong with the rest; "" if there is none.
        marked: whether each tuple begins with a mark, as since SINGA 1.0.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("rb")
        try:
            self.size = os.fstat(self.file.fileno()).st_size
            self.watched = Watched(self.file.fileno(), str(path))
            self.entries = Entries()
            self.end = 0
            self.torn = ""
            with self.watched.reading("its index"):
                self.marked = self.file.peek(4)[:4] in MARKS
                self.file.seek(0)
                for key, start, size in self._tuples():
                    self.entries.add(key, start, size)
                    self.end = start + size
        except BaseException:
            self.close()
            raise
        if self.end < self.size and not self.torn:
            self.torn = self._cut("it ends within the lengths")

    def _tuples(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield key, place and size of each complete value."""
        while self.size - self.end >= 2 * LENGTH.size:
            self.file.seek(self.end)
            key = self._key()
            size = self._length()
            if key is None or size is None or not size:
                self.torn = self._cut("its key or its value is longer than the rest of the file, or empty")
                return
            yield key, self.file.tell(), size

    def _key(self) -> bytes | None:
        if self.marked:
            has_key = MARKS.get(self.file.read(4))
            if not has_key:
                return None if has_key is None else b""
        size = self._length()
        return None if size is None else self.file.read(size)

    def _length(self) -> int | None:
        """Return the next length; None if the file has not so many bytes more."""
        data = self.file.read(LENGTH.size)
        if len(data) < LENGTH.size:
            return None
        size = LENGTH.unpack(data)[0]
        return size if size <= self.size - self.file.tell() else None

    def _cut(self, why: str) -> str:
        number = len(self.entries)
        if number and self.entries.key(0) == DESCRIBING.encode():
            number -= 1
        return f"record {number} at byte {self.end:,} is cut, or this is no shard: {why}"

    def value(self, entry: int) -> bytes:
        """Return a value."""
        self.file.seek(self.entries.starts[entry])
        return self.file.read(self.entries.sizes[entry])

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class ShardReader(PackedReader):
    """Records of one shard, in the order in which they were written."""

    def __init__(self, where: str, tuples: Tuples, codec: str, wanted: Sequence[str]) -> None:
        self.tuples = tuples
        super().__init__(where, tuples.entries, tuples.watched, codec, wanted)

    def value(self, entry: int) -> bytes:
        return self.tuples.value(entry)

    def close(self) -> None:
        self.tuples.close()


class ShardWriter(Writer):
    """A shard beside its place, which gets its name when it is complete.

    The keys are the names of the records, or their numbers with eight digits.
    """

    def __init__(self, path: Path, packing: Packing) -> None:
        self._begin(path, packing, Beside(path))
        self._describe()

    def _begin(self, path: Path, packing: Packing, place: Beside | InPlace) -> None:
        self.path = path
        self.packing = packing
        self.place = place
        self.known: set[bytes] = set()
        self.count = 0

    def _describe(self) -> None:
        if (head := self.packing.describing()) is not None:
            self._write(DESCRIBING.encode(), head)

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        for row, value in enumerate(self.packing.values(rows, self.count)):
            key = keys[row] if keys else f"{self.count:08d}"
            if key.encode() in self.known:
                message = f"{self.path}: record {self.count} has the key {key!r}, which another has already"
                raise DataError(message, "give each record a key of its own, or none")
            self._write(key.encode(), value)
            self.count += 1

    def _write(self, key: bytes, value: bytes) -> None:
        self.known.add(key)
        with self.place.writing():
            self.place.stream.write(b"".join([LENGTH.pack(len(key)), key, LENGTH.pack(len(value)), value]))

    def flush(self) -> None:
        self.place.flush()

    def close(self, commit: bool) -> None:
        if self.place.stream.closed:
            return
        try:
            if commit:
                self._name()
                self.place.commit()
        finally:
            self.place.drop()

    def _name(self) -> None:
        """Make the folder that the file is to lie in, if there is to be one."""
        if not self.path.name.lower().endswith(SINGLE):
            with self.place.writing():
                make_folder(self.path)
            self.place.path = self.path / DATA


class ShardAppender(ShardWriter):
    """A shard that is continued, or begun, in its place: what was flushed survives a crash.

    A last record that a killed writer left unfinished is cut off, with a warning. `close(commit=False)` leaves what was
    there before.
    """

    def __init__(self, store: Shard, path: Path, packing: Packing) -> None:
        file = file_to_continue(path, DATA, SINGLE)
        known: list[bytes] = []
        if file != path:
            with os_errors(path, "cannot be written", DataError):
                make_folder(path)
        place = InPlace(file, path)  # first: another writer may have continued it just now
        try:
            place.cut(self._checked(store, path, packing, file, known) if place.start else 0)
        except BaseException:
            place.drop()
            raise
        self._begin(path, packing, place)
        self.known.update(known)
        self.count = len(known) - (DESCRIBING.encode() in self.known)
        if not known:
            self._describe()

    def _checked(self, store: Shard, path: Path, packing: Packing, file: Path, known: list[bytes]) -> int:
        """Return where the complete records of a shard end, and note their keys."""
        with os_errors(file, "cannot be read", DataError):
            tuples = Tuples(file)
        try:
            if tuples.marked:
                raise DataError(f"{path}: shards of SINGA 1.x are only read", "write a new file")
            keys = [*map(tuples.entries.key, range(len(tuples.entries)))]
            if not keys:
                raise DataError(f"{path}: {tuples.torn}", "remove it, or use another name")
            if keys == [DESCRIBING.encode()]:
                return 0  # it is begun again
            check_same_records(ShardReader(str(path), tuples, store.codec, wanted_of(packing)), packing)
            known += keys
            if tuples.torn:
                lost = tuples.size - tuples.end
                warnings.warn(f"{path}: {tuples.torn}; its {lost:,} bytes are cut off", stacklevel=5)
            return tuples.end
        finally:
            tuples.close()

    def _name(self) -> None:
        """Do nothing: the file has its name."""
