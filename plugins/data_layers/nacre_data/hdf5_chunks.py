"""Chunks of datasets, checked before HDF5 reads them: it believes what a file says of them."""

from __future__ import annotations

import zlib
from itertools import product
from math import prod

import h5py
import numpy as np

from nacre import DataError

DEFLATE, SHUFFLE, FLETCHER32, LZF = 1, 2, 3, 32000  # HDF5's registered numbers
CHECKSUM = 4  # bytes that FLETCHER32 adds
AT_ONCE = 1 << 13
"""Chunks that HDF5 reads in a call: older versions take 5 KiB for each, be it written or not."""
BYTES_OF_EACH = 256  # of the file, for more chunks in one record than that
ELSEWHERE = -1  # in the file: what was never written
REMEDY = "write it again: h5repack OLD NEW"


class Chunks:
    """The chunks of a dataset, each of which is checked before HDF5 reads it for the first time.

    Where a chunk unpacks to fewer bytes than it should, HDF5 returns whatever stood behind them in memory, or crashes.
    At most `rows` records are to be read in a call. `whole` says whether chunks have the bytes of whole records.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self.dataset = dataset.id
        self.shape: tuple[int, ...] = dataset.shape
        self.chunks: tuple[int, ...] = tuple(dataset.chunks or self.shape)
        self.size = prod(self.chunks) * dataset.dtype.itemsize
        self.end = dataset.file.id.get_filesize()
        plan = dataset.id.get_create_plist()
        self.filters = [plan.get_filter(place)[0] for place in range(plan.get_nfilters())]
        for place in range(len(self.filters)):
            _, _, values, _ = plan.get_filter(place)
            if self.filters[place] == LZF and values[2:3] != (self._before(place, 0),):
                raise DataError(f"its filter lzf unpacks {values[2:3]} bytes, but a chunk has {self.size:,}", REMEDY)
        across = prod(-(-side // step) for side, step in zip(self.shape[1:], self.chunks[1:], strict=True))
        if across > max(AT_ONCE, self.end // BYTES_OF_EACH):
            message = f"each record is in {across:,} chunks, for which the file, of {self.end:,} bytes, is too small"
            raise DataError(message, REMEDY)
        self.rows = max(1, AT_ONCE // max(1, across)) * self.chunks[0]
        self.known = bytearray(-(-self.shape[0] // self.chunks[0]))  # rows of chunks that were checked
        self.whole = not self.filters and self.chunks[1:] == self.shape[1:]
        self.starts = np.full(len(self.known) if self.whole else 0, ELSEWHERE)

    def check(self, first: int, last: int) -> None:
        """Check the chunks with the records from `first` to before `last`.

        Raises:
            DataError: one has another size than it should.
        """
        height = self.chunks[0]
        begin, end = first // height, -(-last // height)
        while (row := self.known.find(0, begin, end)) >= 0:
            sides = (range(0, side, step) for side, step in zip(self.shape[1:], self.chunks[1:], strict=True))
            for corner in product(*sides):
                self._check((row * height, *corner))
            self.known[row] = 1

    def places(self, records: np.ndarray) -> np.ndarray:
        """Return at which bytes of the file records begin, or `ELSEWHERE`; raise DataError as `check` does."""
        if not self.whole:
            return np.full(len(records), ELSEWHERE)
        rows, within = np.divmod(records, self.chunks[0])
        for row in set(rows.tolist()):
            if not self.known[row]:
                self.check(row * self.chunks[0], row * self.chunks[0] + 1)
        starts = self.starts[rows]
        return np.where(starts == ELSEWHERE, ELSEWHERE, starts + within * (self.size // self.chunks[0]))

    def _check(self, corner: tuple[int, ...]) -> None:
        chunk = self.dataset.get_chunk_info_by_coord(corner)
        if chunk.byte_offset is None:  # never written, so that it is filled
            return
        if chunk.byte_offset + chunk.size > self.end:
            raise self._wrong(corner, f"it ends at byte {chunk.byte_offset + chunk.size:,}, behind the end of the file")
        data, size = None, chunk.size
        for place in reversed(range(len(self.filters))):
            if chunk.filter_mask >> place & 1:  # it was not used for this chunk
                continue
            before = self._before(place, chunk.filter_mask)
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
        if self.whole:
            self.starts[corner[0] // self.chunks[0]] = chunk.byte_offset

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
