"""Records of a dataset of an HDF5 file."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from typing import Any

import h5py
import numpy as np

from nacre import DataError

from .hdf5_checks import readable
from .hdf5_chunks import ELSEWHERE, Chunks


class DatasetRows:
    """Records of a dataset: where their bytes lie in the file as they are, read by the system's call, else by HDF5.

    HDF5 takes ten times as long to find a record, and h5py longer still. `where` begins errors.
    """

    def __init__(self, dataset: h5py.Dataset, where: str) -> None:
        self.dataset = dataset.id
        self.kind = dataset.dtype
        self.where = where
        self.size = self.kind.itemsize * math.prod(dataset.shape[1:])
        with readable(where):
            self.chunks = Chunks(dataset) if dataset.chunks else None
            self.file = _file_of_plain(dataset)
        self.space = dataset.id.get_space()
        self.known: tuple[Any, Any] = (None, None)
        self.memory: tuple[Any, Any] = (None, None)

    def read(self, first: int, out: np.ndarray) -> None:
        """Write the records from `first` on into `out`, which is contiguous; its type may be another."""
        if not len(out):
            return
        cuts = _cuts(first, len(out), self.chunks.chunks[0] if self.chunks else None)
        places = self._places(np.array(cuts[:-1]) + first) if out.dtype == self.kind else None
        if places is not None:
            for (begin, end), place in zip(pairwise(cuts), places, strict=True):
                self._fill(out[begin:end], place, first + begin)
            return
        if self.chunks:
            self.chunks.check(first, first + len(out))
        for begin, end in pairwise(_cuts(first, len(out), self.chunks.rows if self.chunks else None)):
            self._read(first + begin, out[begin:end])

    def read_each(self, records: np.ndarray, out: np.ndarray) -> None:
        """Write records that may lie apart, by their numbers, into `out`, which is contiguous."""
        places = self._places(records) if out.dtype == self.kind else None
        if places is None:
            for index, record in enumerate(records.tolist()):  # for chunks, h5py takes far longer for a list of numbers
                self.read(record, out[index : index + 1])
            return
        for row, record, place in zip(out.reshape(len(out), -1), records.tolist(), places, strict=True):
            self._fill(row, place, record)

    def _places(self, records: np.ndarray) -> list[int] | None:
        """Return at which bytes of the file records begin; None where only HDF5 knows."""
        if self.file is None:
            return None
        if self.chunks:
            places = self.chunks.places(records)
            return None if ELSEWHERE in places else places.tolist()
        start = self.dataset.get_offset()
        return None if start is None else (start + records * self.size).tolist()

    def _fill(self, rows: np.ndarray, place: int, record: int) -> None:
        """Read rows from this byte of the file on; `record` is the first of them."""
        assert self.file is not None
        got = os.preadv(self.file, (rows.data,), place)
        while got < rows.nbytes:  # a call reads two gibibytes at most
            if not (more := os.preadv(self.file, (memoryview(rows.data).cast("B")[got:],), place + got)):
                raise DataError(f"{self.where}: truncated: record {record} or a later one is missing")
            got += more

    def _read(self, first: int, out: np.ndarray) -> None:
        if self.known != (out.shape, out.dtype):
            self.known = out.shape, out.dtype
            self.memory = h5py.h5s.create_simple(out.shape), h5py.h5t.py_create(out.dtype)
        space, kind = self.memory
        self.space.select_hyperslab((first, *[0] * (out.ndim - 1)), out.shape)
        self.dataset.read(space, self.space, out, kind)


def _cuts(first: int, count: int, step: int | None) -> list[int]:
    """Return where so many records from `first` on begin, are cut at each multiple of `step`, and end."""
    return [0, *(range(step - first % step, count, step) if step else ()), count]


def _file_of_plain(dataset: h5py.Dataset) -> int | None:
    """Return the number of the file whose bytes are a dataset's, in the types of this machine; None for others.

    Only where HDF5 reads an ordinary file from its first byte on, and where the system has a call for it.
    """
    file: Any = dataset.file
    same = dataset.dtype.isnative and dataset.id.get_type() == h5py.h5t.py_create(dataset.dtype)
    if not same or file.driver != "sec2" or file.userblock_size or not hasattr(os, "preadv"):
        return None
    return int(file.id.get_vfd_handle())
