"""Attributes that are texts of any length, which are in heaps: HDF5 checks neither those nor what refers to them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from math import prod
from struct import Struct
from typing import Any

import h5py

from nacre import DataError

HEAP, HEAP_HEAD, HEAP_OBJECT = b"GCOL", 16, Struct("<HHIQ")  # index, references, unused, size
REFERENCE = Struct("<IQI")  # length, address of a heap, index of an object in it
NOWHERE = b"\xff"  # of which a reference leads nowhere
MESSAGE = Struct("<BBHHH")  # version, flags, bytes of name, type and space
LETTER = 12  # where a type of texts says how many bytes a letter has
DIMENSIONS = {1: 8, 2: 4}  # where a space of a version has its sizes
NOTHING = 2  # the kind of a space without elements, since version 2
PADDED, WITH_ENCODING = 1, 3  # versions of the message of an attribute
REMEDY = "copy it with h5repack, or write texts of one length, such as numpy.array(names, 'S')"


def texts_of(path: str, dataset: str, name: str) -> Any:
    """Return the value of an attribute of a dataset, texts of any length.

    In a damaged heap HDF5 might go in circles for ever, and with a wrong length it would write beyond its memory.

    Raises:
        DataError: they are damaged. The message does not say where they are.
    """
    with Recorder(path) as recorder, h5py.File(recorder, "r") as file:
        stored: Any = file[dataset].attrs.get_id(name)
        count = int(stored.get_space().get_simple_extent_npoints())
        if not count:
            return file[dataset].attrs[name]
        found = False
        for references in recorder.references(name.encode(), count):
            found = True
            for length, heap, index in REFERENCE.iter_unpack(references):
                if length and recorder.objects(heap).get(index) != length:
                    raise DataError(f"damaged: a text of {length:,} bytes is not in its heap", REMEDY)
        if not found or stored.get_storage_size() != count * REFERENCE.size:
            raise DataError("its texts are not where they should be", REMEDY)
        return file[dataset].attrs[name]


class Recorder(io.FileIO):
    """A file that keeps what HDF5 reads of it, and shows it no heap but sound ones.

    HDF5 reads a heap from its first byte on, and refuses one that begins otherwise.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.size = self.seek(0, io.SEEK_END)
        self.parts: list[bytes] = []
        self.end = -1  # of the last part
        self.heaps: dict[int, dict[int, int]] = {}

    def readinto(self, buffer: Any) -> int | None:
        start, got = self.tell(), super().readinto(buffer)
        part = bytes(buffer)
        if start == self.end:  # the rest of a header that is longer than was thought
            self.parts[-1] += part
        else:
            self.parts.append(part)
        self.end = start + len(part)
        if part.startswith(HEAP) and not self.objects(start):
            buffer[: len(HEAP)] = bytes(len(HEAP))
        return got

    def references(self, name: bytes, count: int) -> Iterator[bytes]:
        """Yield the values of attributes of this name, of so many texts, in what was read.

        Those of other datasets may be among them; what was not read to its end is one. A value that has no letters of
        one byte is one that leads nowhere.
        """
        for part in self.parts:
            place = -1
            while (place := part.find(name + b"\0", place + 1)) >= 0:
                for before in (MESSAGE.size, MESSAGE.size + 1):  # since version 3 a byte stands between
                    if place >= before:
                        version, _, *sizes = MESSAGE.unpack_from(part, place - before)
                        if (before > MESSAGE.size) == (version == WITH_ENCODING) and 1 <= version <= WITH_ENCODING:
                            each = 8 if version == PADDED else 1
                            name_size, type_size, space_size = (-(-size // each) * each for size in sizes)
                            kind = place + name_size
                            value = kind + type_size + space_size
                            found = part[value : value + count * REFERENCE.size]
                            own = _elements(part[kind + type_size : value])
                            if own != count or len(found) < count * REFERENCE.size:
                                continue
                            sound = part[kind + LETTER : kind + LETTER + 4] == b"\1\0\0\0"
                            yield found if sound else NOWHERE * REFERENCE.size

    def objects(self, start: int) -> dict[int, int]:
        """Return the sizes of the objects in a heap; none if they do not follow each other up to its end."""
        if start not in self.heaps:
            self.heaps[start] = self._objects(start)
        return self.heaps[start]

    def _objects(self, start: int) -> dict[int, int]:
        if start > self.size - HEAP_HEAD:
            return {}
        behind = self.tell()
        self.seek(start)
        head = self.read(HEAP_HEAD)
        size = int.from_bytes(head[8:], "little")
        heap = head + self.read(max(0, min(size, self.size - start) - HEAP_HEAD))
        self.seek(behind)
        if not heap.startswith(HEAP) or len(heap) != size:
            return {}
        found: dict[int, int] = {}
        place = HEAP_HEAD
        while place + HEAP_OBJECT.size <= size:
            index, _, _, stored = HEAP_OBJECT.unpack_from(heap, place)
            step = HEAP_OBJECT.size + -(-stored // 8) * 8 if index else stored
            if step < HEAP_OBJECT.size or place + step > size or index in found:
                return {}
            if index:
                found[index] = stored
            place += step
        return found


def _elements(space: bytes) -> int:
    """Return how many elements a space has, or -1 if it does not say so."""
    version, rank, _, kind = space[:4].ljust(4, NOWHERE)
    start = DIMENSIONS.get(version, len(space))
    if start + 8 * rank > len(space):
        return -1
    if version > 1 and kind == NOTHING:
        return 0
    return prod(int.from_bytes(space[at : at + 8], "little") for at in range(start, start + 8 * rank, 8))
