"""`cupy.cuda.nccl`, as far as nacre uses it, between processes of one machine: they exchange files."""

import ctypes
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from .._interface import held
from .._machine import streams

available = True
BYTES = 128  # of NCCL's unique id
LIMIT = 600.0  # seconds after which the others are taken to be gone
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN = range(4)
NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = range(6)
NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64 = range(6, 9)
_TYPES = "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"
_REDUCTIONS = np.add, np.multiply, np.fmax, np.fmin  # the last two lose a NaN


class NcclError(RuntimeError):
    """What NCCL has refused."""


@held("cuda.nccl.get_unique_id")
def get_unique_id():
    """Return what tells the ranks of a communicator where to meet."""
    name = tempfile.mkdtemp(prefix="nccl").encode()
    return name + bytes(BYTES - len(name))


@held("cuda.nccl.NcclCommunicator")
class NcclCommunicator:
    """One rank of a communicator."""

    def __init__(self, ndev, commId, rank, config=None):
        if len(commId) != BYTES:
            raise ValueError(f"commId length {len(commId)} != {BYTES}.")
        self.size, self.rank, self.calls = ndev, rank, 0
        self.folder = Path(commId.rstrip(b"\0").decode())

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        def reduce():
            _write(recvbuf, self._reduced(sendbuf, count, datatype, op))

        if streams[stream].graph is None:
            reduce()
        else:
            streams[stream].enqueue(reduce)

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        whole = self._reduced(sendbuf, recvcount * self.size, datatype, op)
        _write(recvbuf, whole[recvcount * self.rank :][:recvcount])

    def allGather(self, sendbuf, recvbuf, sendcount, datatype, stream):
        _write(recvbuf, np.concatenate(self._exchanged(sendbuf, sendcount, datatype)))

    def bcast(self, buff, count, datatype, root, stream):
        _write(buff, self._exchanged(buff, count, datatype)[root])

    def destroy(self):
        if self.rank == 0:
            shutil.rmtree(self.folder)

    def _reduced(self, pointer, count, datatype, op):
        first, *others = self._exchanged(pointer, count, datatype)
        for other in others:
            first = _REDUCTIONS[op](first, other)
        return first

    def _exchanged(self, pointer, count, datatype):
        """Return the arrays of all ranks."""
        kind = np.dtype(_TYPES[datatype])
        mine = ctypes.string_at(pointer, count * kind.itemsize)
        file = self.folder / f"{self.calls}.{self.rank}"
        file.with_suffix(f".{self.rank}.new").write_bytes(mine)
        file.with_suffix(f".{self.rank}.new").rename(file)
        every = [np.frombuffer(self._read(rank), kind) for rank in range(self.size)]
        if any(len(one) != count for one in every):
            raise NcclError("NCCL_ERROR_INVALID_USAGE: ranks with arrays of different sizes")
        if self.calls > 1:  # all have come here, so they have read what was two calls ago
            (self.folder / f"{self.calls - 2}.{self.rank}").unlink()
        self.calls += 1
        return every

    def _read(self, rank):
        file, until = self.folder / f"{self.calls}.{rank}", time.monotonic() + LIMIT
        while not file.exists():
            if time.monotonic() > until:
                raise NcclError("NCCL_ERROR_REMOTE_ERROR: a rank is gone")
            os.sched_yield()
        return file.read_bytes()


def _write(pointer, array):
    ctypes.memmove(pointer, np.ascontiguousarray(array).ctypes.data, array.nbytes)
