"""Chunks of datasets, checked before HDF5 reads them: it believes what a file says of them."""

from __future__ import annotations

import io
import zlib
from array import array
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import h5py
import numpy as np

from nacre import DataError

DEFLATE, SHUFFLE, FLETCHER32, LZF = 1, 2, 3, 32000  # HDF5's registered numbers
CHECKSUM = 4  # bytes that FLETCHER32 adds
AT_ONCE = 1 << 13
"""Chunks that HDF5 reads in a call: older versions take 5 KiB for each, be it written or not."""
BYTES_OF_EACH = 256  # of the file, for more chunks in one record than that
ELSEWHERE = -1  # in the file: what was never written
TABLES = {b"EAHD": (12, 4), b"FAHD": (8, 0)}  # of chunks: after how many bytes and lengths they tell their entries
REMEDY = "write it again: h5repack OLD NEW"


class Chunks:
    """The chunks of a dataset, each of which is checked before HDF5 reads it for the first time.

    Where a chunk unpacks to fewer bytes than it should, HDF5 returns whatever stood behind them in memory, or crashes.
    At most `rows` records are to be read in a call. `whole` says whether chunks have the bytes of whole records.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self.file = dataset.file.id
        self.name = str(dataset.name)
        self.dataset = dataset.id
        self.shape: tuple[int, ...] = dataset.shape
        self.chunks: tuple[int, ...] = tuple(dataset.chunks or self.shape)
        self.size = prod(self.chunks) * dataset.dtype.itemsize
        self.end = self.file.get_filesize()
        plan = dataset.id.get_create_plist()
        self.filters = [plan.get_filter(place)[0] for place in range(plan.get_nfilters())]
        for place in range(len(self.filters)):
            _, _, values, _ = plan.get_filter(place)
            if self.filters[place] == LZF and values[2:3] != (self._before(place, 0),):
                raise DataError(f"its filter lzf unpacks {values[2:3]} bytes, but a chunk has {self.size:,}", REMEDY)
        self.across = prod(-(-side // step) for side, step in zip(self.shape[1:], self.chunks[1:], strict=True))
        if self.across > max(AT_ONCE, self.end // BYTES_OF_EACH):
            message = (
                f"each record is in {self.across:,} chunks, for which the file, of {self.end:,} bytes, is too small"
            )
            raise DataError(message, REMEDY)
        self.rows = max(1, AT_ONCE // max(1, self.across)) * self.chunks[0]
        self.known = bytearray(-(-self.shape[0] // self.chunks[0]))  # rows of chunks that were checked
        self.whole = not self.filters and self.chunks[1:] == self.shape[1:]

    def check(self, first: int, last: int) -> None:
        """Check the chunks with the records from `first` to before `last`.

        Raises:
            DataError: one has another size than it should.
        """
        height = self.chunks[0]
        begin, end = first // height, -(-last // height)
        while (row := self.known.find(0, begin, end)) >= 0:
            sides = (range(0, side, step) for side, step in zip(self.shape[1:], self.chunks[1:], strict=True))
            for index, corner in enumerate(product(*sides)):
                self._check(row * self.across + index, (row * height, *corner))
            self.known[row] = 1

    def places(self, records: np.ndarray) -> np.ndarray:
        """Return at which bytes of the file records begin, or `ELSEWHERE`; raise DataError as `check` does."""
        if not self.whole:
            return np.full(len(records), ELSEWHERE)
        rows, within = np.divmod(records, self.chunks[0])
        for row in set(rows.tolist()):
            if not self.known[row]:
                self.check(row * self.chunks[0], row * self.chunks[0] + 1)
        starts = self._find(rows)[:, 0]
        return np.where(starts == ELSEWHERE, ELSEWHERE, starts + within * (self.size // self.chunks[0]))

    @cached_property
    def _written(self) -> np.ndarray:
        """Of each chunk in the file its number, start, size and mask of filters, in the order of their numbers.

        All at once: HDF5 goes through all of them to tell of one.
        """
        told = array("q")

        def add(chunk: Any) -> bool | None:
            number = 0
            for first, step, side in zip(chunk.chunk_offset, self.chunks, self.shape, strict=True):
                if first >= side:
                    return None
                number = number * -(-side // step) + first // step
            told.extend((number, chunk.byte_offset, chunk.size, chunk.filter_mask))
            return True if len(told) > 4 * self.end else None  # more of them than bytes: no more are looked at

        with _Tables(self.file, len(self.known) * self.across) as tables, h5py.File(tables, "r") as file:
            dataset: Any = file[self.name]
            try:
                dataset.id.chunk_iter(add)
            except RuntimeError as error:
                if tables.refused:
                    raise DataError(f"damaged: its index says it has {tables.refused:,} chunks", REMEDY) from error
                raise
        told.extend((np.iinfo(np.int64).max, ELSEWHERE, 0, 0))
        chunks = np.array(told).reshape(-1, 4)
        return chunks[np.argsort(chunks[:, 0], kind="stable")]

    def _find(self, numbers: Any) -> np.ndarray:
        """Return the starts, sizes and masks of filters of chunks; `ELSEWHERE`, 0, 0 for those not in the file."""
        chunks = self._written[np.searchsorted(self._written[:, 0], numbers)]
        return np.where(chunks[..., :1] == np.expand_dims(numbers, -1), chunks[..., 1:], (ELSEWHERE, 0, 0))

    def _check(self, number: int, corner: tuple[int, ...]) -> None:
        start, stored, mask = self._find(number).tolist()
        if start == ELSEWHERE:  # it is filled
            return
        if start + stored > self.end:
            raise self._wrong(corner, f"it ends at byte {start + stored:,}, behind the end of the file")
        data, size = None, stored
        for place in reversed(range(len(self.filters))):
            if mask >> place & 1:  # it was not used for this chunk
                continue
            before = self._before(place, mask)
            if self.filters[place] == FLETCHER32:
                size -= CHECKSUM
            elif self.filters[place] == DEFLATE:
                data = data or self.dataset.read_direct_chunk(corner)[1]
                size = self._unpacked(data[: max(0, size)], before)
            elif self.filters[place] == LZF:
                data = data or self.dataset.read_direct_chunk(corner)[1]
                size = lzf_size(data[: max(0, size)], before)
        if size != self.size:
            raise self._wrong(corner, f"it has {size:,} bytes, but should have {self.size:,}")

    def _before(self, place: int, mask: int) -> int:
        """Return how many bytes a filter is given when a chunk is written."""
        added = [one for one, number in enumerate(self.filters[:place]) if number == FLETCHER32 and not mask >> one & 1]
        return self.size + CHECKSUM * len(added)

    @staticmethod
    def _unpacked(data: bytes, most: int) -> int:
        """Return how many bytes there are, once they are unpacked; more than `most` are not counted."""
        try:
            return len(zlib.decompressobj().decompress(data, most + 1))
        except zlib.error:
            return most  # HDF5 will say what is wrong

    @staticmethod
    def _wrong(corner: tuple[int, ...], why: str) -> DataError:
        return DataError(f"damaged: the chunk at {corner}: {why}", REMEDY)


class _Tables(io.FileIO):
    """An open HDF5 file that shows no table of chunks with more entries than there are chunks, or bytes.

    HDF5 would go through all that a damaged one says it has, perhaps for years. It reads a table's head from its first
    byte on, and refuses one that begins otherwise.
    """

    def __init__(self, file: h5py.h5f.FileID, chunks: int) -> None:
        super().__init__(file.get_vfd_handle(), closefd=False)
        self.most = max(chunks, file.get_filesize())
        self.refused = 0
        self.length: int = file.get_create_plist().get_sizes()[1]
        self.before = self.tell()

    def close(self) -> None:
        if not self.closed:
            self.seek(self.before)  # where HDF5 has no call that reads at a place, it remembers where it was
        super().close()

    def readinto(self, buffer: Any) -> int | None:
        got = super().readinto(buffer)
        begin = bytes(buffer[:4])
        if begin in TABLES:
            bytes_before, lengths_before = TABLES[begin]
            place = bytes_before + lengths_before * self.length
            entries = int.from_bytes(buffer[place : place + self.length], "little")
            if entries > self.most:
                self.refused = entries
                buffer[: len(begin)] = bytes(len(begin))
        return got


def lzf_size(data: bytes, most: int) -> int:
    """Return how many bytes LZF makes of these; `most` if they are cut, which HDF5 says itself.

    A byte below 32 stands before as many others and one more, which are kept; another one says in its three upper bits,
    or if these are all set in the next byte, how many of the bytes before come again, of which the last byte tells the
    place.
    """
    place, count, end = 0, 0, len(data)
    while place < end:
        first = data[place]
        if first < 32:
            count += first + 1
            place += first + 2
        elif first < 224:
            count += (first >> 5) + 2
            place += 2
        else:
            count += data[place + 1] + 9 if place + 1 < end else 0
            place += 3
    return count if place == end else most
