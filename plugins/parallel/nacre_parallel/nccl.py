"""Nccl: the communicator of processes with a GPU each: NCCL reduces and gathers, another communicator does the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from nacre import Communicator, ConfigError, Launch, NacreError, RankError, Request, check_op, flat_view

from .local import check_part

ENVIRONMENT = "NACRE_NCCL"
"""Set to 1 where processes that a launcher of shm or mpi has started are to be ranks of nccl."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
NUMBERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
"""The types of which NCCL computes sums."""


class NcclCommunicator(Communicator):
    """Ranks with one GPU each, by CuPy's `cupy.cuda.nccl`.

    `base` is the communicator that has brought them together: shm (`nacre train --workers 4 --communicator nccl`), or
    mpi (`NACRE_NCCL=1 mpiexec -n 4 nacre train net.toml`). Messages, shared arrays, failures, and reductions that NCCL
    has not, are its: those of booleans and of numbers of 16 bits, minima and maxima of floating numbers, which would
    lose a NaN, and those in the order of the ranks. `allreduce` takes arrays of CuPy too, which stay on the device;
    NumPy's are copied there.

    It has been tested with a stand-in for CuPy, and has not run on GPUs.
    """

    name = "nccl"
    on_device = True

    def __init__(self, base: Communicator) -> None:
        self._cupy, self._nccl = _libraries()
        self.base, self.rank, self.size = base, base.rank, base.size
        self.prints_errors = base.prints_errors
        unique = base.share([*self._nccl.get_unique_id()] if base.rank == 0 else None)
        try:
            self._comm: Any = self._nccl.NcclCommunicator(self.size, bytes(unique), self.rank)
        except self._nccl.NcclError as error:
            raise RankError(f"NCCL cannot connect the ranks: {error}", "give each rank a GPU of its own") from error
        self._types = {name: getattr(self._nccl, f"NCCL_{name.upper()}") for name in NUMBERS}

    @classmethod
    def ranks_here(cls) -> int:
        return _base().started_here() if asked() else 0

    @classmethod
    def start(cls, command: Sequence[str], ranks: int, *, env: Mapping[str, str] | None = None) -> Launch:
        from .shm import ShmCommunicator

        return ShmCommunicator.start(command, ranks, env={**(env or {}), ENVIRONMENT: "1"})

    @classmethod
    def connect(cls) -> NcclCommunicator:
        base: Communicator = _base().connect()
        try:
            choose_device(base.on_this_machine().index(base.rank))
            return cls(base)
        except NacreError as error:  # nobody else closes what connects the ranks already
            base.abort(str(error), 2)

    # Collective

    def split(self, color: int | None, key: int = 0) -> NcclCommunicator | None:
        base = self.base.split(color, key)
        return None if base is None else NcclCommunicator(base)

    def allreduce(self, array: Any, op: Any = "sum", *, ordered: bool = False) -> None:
        if isinstance(array, self._cupy.ndarray):
            if ordered or not self._reduces(array, op):
                host = array.get()
                self.base.allreduce(host, op, ordered=ordered)
                array.set(host)
            elif array.size:
                self._reduce(array, op)
            return
        flat = flat_view(array)
        check_op(op, flat)
        if ordered or not len(flat) or not self._reduces(flat, op):
            self.base.allreduce(flat, op, ordered=ordered)
            return
        there = self._put(flat)
        self._reduce(there, op)
        self._fetch(there, flat)

    def reduce_scatter(self, array: Any, out: Any, op: Any = "sum", *, ordered: bool = False) -> None:
        flat, into = flat_view(array), flat_view(out, "out")
        check_op(op, flat)
        mine = self.part(len(flat))
        check_part(into, flat, mine.stop - mine.start, "array")
        if ordered or not len(flat) or len(flat) % self.size or not self._reduces(flat, op):
            self.base.reduce_scatter(flat, into, op, ordered=ordered)
            return
        there, part = self._put(flat), self._cupy.empty(len(into), into.dtype)
        how = len(into), self._types[str(flat.dtype)], self._op(op)
        self._comm.reduceScatter(there.data.ptr, part.data.ptr, *how, self._stream())
        self._fetch(part, into)

    def allgather(self, array: Any, out: Any) -> None:
        given, into = flat_view(array, writes=False), flat_view(out, "out")
        mine = self.part(len(into))
        check_part(given, into, mine.stop - mine.start, "out")
        if not len(into) or len(into) % self.size:
            self.base.allgather(given, into)
            return
        there, every = self._put(given.view("uint8")), self._cupy.empty(into.nbytes, "uint8")
        self._comm.allGather(there.data.ptr, every.data.ptr, there.size, self._types["uint8"], self._stream())
        self._fetch(every, into.view("uint8"))

    def bcast(self, array: Any, root: int = 0) -> None:
        flat = flat_view(array)
        self.check_rank(root, "root")
        if not len(flat):
            return
        there = self._put(flat.view("uint8"))
        self._comm.bcast(there.data.ptr, there.size, self._types["uint8"], root, self._stream())
        self._fetch(there, flat.view("uint8"))

    def barrier(self) -> None:
        self.base.barrier()

    def shared_array(self, shape: Sequence[int], dtype: str = "float64") -> Any:
        return self.base.shared_array(shape, dtype)

    def _reduces(self, array: Any, op: str) -> bool:
        return str(array.dtype) in NUMBERS and (array.dtype.kind in "iu" or op in ("sum", "prod"))

    def _reduce(self, array: Any, op: str) -> None:
        """Replace an array on the device by its reduction over all ranks."""
        how = array.size, self._types[str(array.dtype)], self._op(op)
        self._comm.allReduce(array.data.ptr, array.data.ptr, *how, self._stream())

    def _op(self, op: str) -> int:
        return getattr(self._nccl, f"NCCL_{op.upper()}")

    def _stream(self) -> int:
        return self._cupy.cuda.get_current_stream().ptr

    def _put(self, flat: Any) -> Any:
        """Return a NumPy array as one on the device."""
        there = self._cupy.empty(len(flat), flat.dtype)
        there.set(flat)
        return there

    def _fetch(self, there: Any, flat: Any) -> None:
        """Copy an array of the device into one of NumPy, when what writes it is done."""
        flat[...] = there.get()

    # From one to another

    def isend(self, array: Any, to: int, tag: int = 0) -> Request:
        return self.base.isend(array, to, tag)

    def irecv(self, array: Any, source: int, tag: int = 0) -> Request:
        return self.base.irecv(array, source, tag)

    # Failure

    def abort(self, message: str, code: int = 1) -> NoReturn:
        self.base.abort(message, code)

    def on_failure(self, call: Callable[[str], object]) -> None:
        self.base.on_failure(call)

    def close(self) -> None:
        if self._comm is not None:
            self.base.barrier()  # nobody is in the midst of a call
            self._comm.destroy()
            self._comm = None
        self.base.close()


def asked() -> bool:
    """Return whether this process is to be a rank of nccl, by the environment."""
    return os.environ.get(ENVIRONMENT, "") not in ("", "0")


def choose_device(place: int) -> None:
    """Let this process, number `place` of the ranks on its machine, see its own GPU alone; before CUDA is used.

    Raises:
        ConfigError: there are fewer GPUs than ranks.
    """
    visible = [one.strip() for one in os.environ.get(VISIBLE, "").split(",") if one.strip()]
    if len(visible) == 1:  # the launcher has given each its own
        return
    if visible and place >= len(visible):
        raise ConfigError(
            f"{VISIBLE}={','.join(visible)} has {len(visible)} GPUs, but there are more ranks on this machine",
            "start one rank for each GPU",
        )
    os.environ[VISIBLE] = visible[place] if visible else str(place)


def _base() -> Any:
    """Return the class of the communicator whose launcher has started this process."""
    from .mpi import MpiCommunicator
    from .shm import ENVIRONMENT as SHM
    from .shm import ShmCommunicator

    return ShmCommunicator if SHM in os.environ else MpiCommunicator


def _libraries() -> tuple[Any, Any]:
    """Return CuPy, and its NCCL."""
    try:
        cupy: Any = import_module("cupy")
        nccl: Any = import_module("cupy.cuda.nccl")
        if not nccl.available:
            raise ImportError("this CuPy finds no NCCL")
    except ImportError as error:
        message = f"the communicator nccl needs CuPy with NCCL: {error}"
        raise ConfigError(message, "pip install 'nacre[cuda13]' nvidia-nccl-cu13, or [cuda12] and -cu12") from error
    return cupy, nccl
