"""The pages of an LMDB file, read without the library: a damaged file would end the process in its memory map.

The format is that of LMDB 0.9 on machines of 64 bits with the lowest byte first (mdb.c; data version 1). A file is
pages of one size. Pages 0 and 1 are metas, of which the one with the later transaction holds. It names the root of a
tree whose leaves have the keys in order, with their values, or the number of the pages in which a large value is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from nacre import DataError
from nacre.files import Watched

from .entries import Entries

PAGE = Struct("<QHHHH")  # number, unused, flags, end of the pointers, begin of the nodes
META = Struct("<IIQQ48s48sQQ")  # magic, version, address, map size, free pages, main database, last page, transaction
DATABASE = Struct("<IHHQQQQQ")  # page size or unused, flags, depth, pages of three kinds, entries, root
NODE = Struct("<HHHH")  # size of the value or number of a page in two parts, flags or its third part, size of the key
NUMBER = Struct("<Q")
MAGIC, VERSION = 0xBEEFC0DE, 1
BRANCH, LEAF, OVERFLOW, META_PAGE = 1, 2, 4, 8
KINDS = BRANCH | LEAF | OVERFLOW | META_PAGE
BIG, SUB, DUPLICATES = 1, 2, 4  # flags of nodes
NONE = (1 << 64) - 1  # the root of an empty tree
SIZES = [1 << power for power in range(8, 17)]  # of pages
DEEPEST = 32  # LMDB's own limit of a tree
REMEDY = "restore it, or write it again from the original data"


class Pages:
    """An open file; `entries` has its keys, and where each value, or the page of a large one, begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("rb", buffering=0)
        try:
            self.size = os.fstat(self.file.fileno()).st_size
            self.watched = Watched(self.file.fileno(), str(path))
            self.entries = Entries()
            self.stored = 0  # bytes of entries that are indexed
            with self.watched.reading("its index"):
                self._index()
        except BaseException:
            self.close()
            raise

    def value(self, number: int) -> bytes:
        """Return a value."""
        start, size = self.entries.starts[number], self.entries.sizes[number]
        if start % self.page:
            return self._read(start, size)
        found = self._read(start, PAGE.size + size)
        self._check_page(found, start // self.page, OVERFLOW)
        return found[PAGE.size :]

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _read(self, start: int, size: int) -> bytes:
        if start < 0 or start + size > self.size:
            raise self._damaged(f"it ends at byte {self.size:,}, but refers to byte {start + size:,}")
        self.file.seek(start)
        found = self.file.read(size)
        if found is None or len(found) < size:
            raise self._damaged(f"it ends before byte {start + size:,}")
        return found

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self.path}: this LMDB database is damaged or truncated: {why}", REMEDY)

    def _index(self) -> None:
        first = self._meta(0)
        if first is None:
            message = f"{self.path}: this is not an LMDB database of a machine with 64 bits"
            raise DataError(message, "its data file is called data.mdb; copy it from the machine that wrote it")
        self.page = first[0]
        metas = [first, self._meta(self.page)]
        _, _, flags, depth, entries, root = max((meta for meta in metas if meta), key=lambda meta: meta[1])
        if self.page not in SIZES or any(meta and meta[0] != self.page for meta in metas):
            raise self._damaged(f"its pages have {self.page:,} bytes")
        if flags & DUPLICATES:
            raise DataError(f"{self.path}: it has several values for a key", "write one value for each key")
        if root != NONE:
            self._walk(root, min(depth, DEEPEST))
        if len(self.entries) != entries:
            raise self._damaged(f"it declares {entries:,} entries, but has {len(self.entries):,}")

    def _meta(self, start: int) -> tuple[int, int, int, int, int, int] | None:
        """Return page size and transaction of a meta, with flags, depth, entries and root of the main database."""
        if start + PAGE.size + META.size > self.size:
            if start or not self.size:
                raise self._damaged(f"it has {self.size:,} bytes")
            return None
        data = self._read(start, PAGE.size + META.size)
        magic, version, _, _, free, main, _, transaction = META.unpack_from(data, PAGE.size)
        if magic != MAGIC or version & 0xFFFF != VERSION or not PAGE.unpack_from(data)[2] & META_PAGE:
            return None
        page = DATABASE.unpack(free)[0]
        _, flags, depth, _, _, _, entries, root = DATABASE.unpack(main)
        return page, transaction, flags, depth, entries, root

    def _walk(self, number: int, depth: int) -> None:
        """Index the leaves below a page, of which there are at most as many levels as `depth`."""
        data = self._read(number * self.page, self.page)
        flags = self._check_page(data, number, BRANCH | LEAF)
        if flags & LEAF:
            for start, low, high, node, key in self._nodes(data, number):
                self._add(data, number * self.page, start, low | high << 16, node, key)
            return
        if depth <= 1:
            raise self._damaged(f"below page {number:,} it has more levels than it declares")
        before = len(self.entries)
        for _, low, high, third, _ in self._nodes(data, number):
            self._walk(low | high << 16 | third << 32, depth - 1)
            if len(self.entries) == before:
                raise self._damaged(f"page {number:,} leads to an empty page")
            before = len(self.entries)

    def _nodes(self, data: bytes, number: int) -> Iterator[tuple[int, int, int, int, bytes]]:
        """Yield of each node of a page where its value begins, its three numbers and its key."""
        lower = PAGE.unpack_from(data)[3]
        if not PAGE.size <= lower <= self.page or lower % 2:
            raise self._damaged(f"page {number:,} has no right pointers")
        for place in range(PAGE.size, lower, 2):
            node = data[place] | data[place + 1] << 8
            if not lower <= node <= self.page - NODE.size:
                raise self._damaged(f"page {number:,} points outside itself")
            low, high, third, size = NODE.unpack_from(data, node)
            start = node + NODE.size + size
            if start > self.page:
                raise self._damaged(f"page {number:,} has a key that leaves it")
            yield start, low, high, third, data[node + NODE.size : start]

    def _add(self, data: bytes, page: int, start: int, size: int, flags: int, key: bytes) -> None:
        """Index an entry of a leaf that begins at byte `page`."""
        if flags & SUB:
            message = f"{self.path}: it has named databases, such as {key.decode(errors='replace')!r}"
            raise DataError(message, "write the records into the database without a name")
        where = page + start if size else 1  # nowhere; a multiple of the page's size would be a large value
        if flags & BIG:
            if start + NUMBER.size > self.page:
                raise self._damaged("a large value has no place")
            where = NUMBER.unpack_from(data, start)[0] * self.page
            if where + -(-(PAGE.size + size) // self.page) * self.page > self.size:  # whole pages are written
                raise self._damaged(f"the value of {key.decode(errors='replace')!r} is beyond its end")
        elif start + size > self.page:
            raise self._damaged(f"the value of {key.decode(errors='replace')!r} leaves its page")
        self.stored += NODE.size + len(key) + size
        if self.stored > self.size:
            raise self._damaged("its pages form a loop, or values overlap")
        self.entries.add(key, where, size)

    def _check_page(self, data: bytes, number: int, kinds: int) -> int:
        found, _, flags, _, _ = PAGE.unpack_from(data)
        if found != number or not flags & kinds or flags & KINDS & ~kinds:
            raise self._damaged(f"page {number:,} is not what others say of it")
        return flags
