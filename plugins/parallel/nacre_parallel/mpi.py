"""Mpi: the communicator of processes that an MPI has started, on one machine or many (`mpiexec -n 4 nacre train`)."""

from __future__ import annotations

import atexit
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nacre import Communicator, ConfigError, ContractError, Launch, RankError, Request, check_op, flat_view, reduce_into

from .leftovers import unused
from .local import check_bytes, check_part
from .nccl import asked
from .processors import take_share
from .sharing import SharedArrays
from .waiting import wait_until

TOLD = {
    "OMPI_COMM_WORLD_SIZE": "Open MPI's mpiexec",
    "PMI_SIZE": "mpiexec or srun",
    "SLURM_STEP_NUM_TASKS": "srun",
}
"""Variables in which a launcher tells the number of processes, and who sets them.

SLURM_NTASKS is not among them: a job of several tasks may run one process, which no srun has started.
"""
PASSED_ON = 0.5
"""Seconds after which a launcher has shown what a rank wrote: as soon as one aborts, it throws the rest away."""
LATER = 5.0
"""Seconds after which a rank that has failed ends all, if the one that has failed before has not."""
PIECE = 1 << 18  # numbers of each rank that are brought together at a time, at most
TOGETHER = 1 << 28  # bytes of all ranks that are brought together at a time, at most
COUNTED = 2**31 - 1
"""What an MPI before version 4 of the standard can count: the bytes of a message, for example."""
SHARED = Path("/dev/shm")
LEFT = ("mpich_shm_*", "sm_segment.*", "vader_segment.*", "ucx_shm_*")
"""The names of the shared memory of MPICH, Open MPI and UCX."""


class MpiCommunicator(Communicator):
    """Processes of an MPI, by mpi4py.

    Where the sum of floating numbers is not `ordered`, the MPI adds them up in an order of its own.
    """

    name = "mpi"
    prints_errors = True

    def __init__(self, comm: Any, *, world: bool = False) -> None:
        self._mpi = sys.modules["mpi4py.MPI"]
        self._comm, self._world = comm, world
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._calls: list[Callable[[str], object]] = []
        self._closed = False
        self._shared = SharedArrays()
        self._under_way: set[_Message] = set()

    @classmethod
    def ranks_here(cls) -> int:
        return 0 if asked() else cls.started_here()

    @classmethod
    def started_here(cls) -> int:
        """Return of how many ranks a launcher says that this process is one, of whatever communicator; else 0."""
        told = [int(text) for name in TOLD if (text := os.environ.get(name, "")).isdecimal()]
        return max(told, default=0) if max(told, default=0) > 1 else 0

    @classmethod
    def start(cls, command: Sequence[str], ranks: int, *, env: Mapping[str, str] | None = None) -> Launch:
        from .mpiexec import Mpiexec

        return Mpiexec(command, ranks, env=env)

    @classmethod
    def leftovers(cls) -> list[Path]:
        return unused(SHARED, LEFT)

    @classmethod
    def connect(cls) -> MpiCommunicator:
        try:
            import mpi4py

            mpi4py.rc.initialize = mpi4py.rc.finalize = False
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # a RuntimeError: there is no libmpi
            message = f"the communicator mpi needs mpi4py and an MPI: {error}"
            raise ConfigError(message, "pip install 'nacre[mpi]', or mpi4py for the MPI of this cluster") from error
        if not MPI.Is_initialized():
            MPI.Init()
        take_share()
        comm = MPI.COMM_WORLD
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        refuse_singletons(comm.Get_size(), MPI.Get_library_version())
        world = cls(comm, world=True)
        sys.excepthook = world._uncaught
        atexit.register(world._leave)
        return world

    # Collective

    def split(self, color: int | None, key: int = 0) -> MpiCommunicator | None:
        every = sorted({one for one in self.gather(color) if one is not None})
        mine = self._mpi.UNDEFINED if color is None else every.index(color)  # MPI has no negative ones
        comm = self._comm.Split(mine, key)
        return None if color is None else MpiCommunicator(comm)

    def allreduce(self, array: Any, op: Any = "sum", *, ordered: bool = False) -> None:
        import numpy as np

        flat = flat_view(array)
        check_op(op, flat)
        if self._by_hand(flat, op, ordered=ordered):
            for piece in _pieces(flat, max(1, min(PIECE, TOGETHER // (self.size * flat.itemsize)))):
                every = np.empty((self.size, len(piece)), flat.dtype)
                self.allgather(piece, every)
                reduce_into(list(every), op, piece)
            return
        for piece in _pieces(flat, self._most()):
            self._wait(self._comm.Iallreduce(self._mpi.IN_PLACE, piece, self._op(op)))

    def reduce_scatter(self, array: Any, out: Any, op: Any = "sum", *, ordered: bool = False) -> None:
        flat, into = flat_view(array), flat_view(out, "out")
        check_op(op, flat)
        mine = self.part(len(flat))
        check_part(into, flat, mine.stop - mine.start, "array")
        if self._by_hand(flat, op, ordered=ordered) or len(flat) > self._most():
            self.allreduce(flat, op, ordered=ordered)
            into[...] = flat[mine]
        elif len(flat):
            counts = [self._length(len(flat), rank) for rank in range(self.size)]
            self._wait(self._comm.Ireduce_scatter(flat, into, counts, self._op(op)))

    def allgather(self, array: Any, out: Any) -> None:
        given, into = flat_view(array, writes=False), flat_view(out, "out")
        check_part(given, into, self._length(len(into), self.rank), "out")
        if into.nbytes > self._most():
            into[self.part(len(into))] = given
            for rank in range(self.size):
                self.bcast(into[self.part(len(into), rank)], rank)
            return
        size = into.itemsize
        counts = [self._length(len(into), rank) * size for rank in range(self.size)]
        starts = [self.part(len(into), rank).start * size for rank in range(self.size)]
        byte = self._mpi.BYTE
        self._wait(self._comm.Iallgatherv([_bytes(given), byte], [_bytes(into), (counts, starts), byte]))

    def bcast(self, array: Any, root: int = 0) -> None:
        flat = flat_view(array)
        self.check_rank(root, "root")
        for piece in _pieces(_bytes(flat), self._most()):
            self._wait(self._comm.Ibcast([piece, self._mpi.BYTE], root))

    def barrier(self) -> None:
        self._wait(self._comm.Ibarrier())

    def shared_array(self, shape: Sequence[int], dtype: str = "float64") -> Any:
        import numpy as np

        near = self._comm.Split_type(self._mpi.COMM_TYPE_SHARED)
        if near.Get_size() < self.size:
            near.Free()
            raise RankError("the ranks are on several machines, so they cannot share an array")
        kind = np.dtype(dtype)
        size = kind.itemsize * int(np.prod(shape, dtype=np.int64))
        window = self._mpi.Win.Allocate_shared(size if self.rank == 0 else 0, kind.itemsize, comm=near)
        memory, _ = window.Shared_query(0)
        array = np.ndarray(tuple(shape), kind, memory)
        if self.rank == 0:
            array[...] = 0
        near.Barrier()
        near.Free()
        return self._shared.add(array, window.Free)

    def _most(self) -> int:
        """Return how many numbers, or bytes, one call of this MPI can have; collective ones are made in pieces."""
        return COUNTED if self._mpi.Get_version() < (4, 0) else sys.maxsize

    def _check_message(self, size: int) -> None:
        """Raise ContractError if a message, which is never in pieces, has more bytes than this MPI can count."""
        if size > self._most():
            library = _first_words(self._mpi.Get_library_version())
            raise ContractError(
                f"a message of {size:,} bytes, but {library} counts to {COUNTED:,}",
                "use an MPI of version 4 of the standard, such as MPICH 4 or newer, or divide the largest layer",
            )

    def _by_hand(self, flat: Any, op: str, *, ordered: bool) -> bool:
        """Return whether the arrays are brought together and reduced here, because MPI does not promise the result.

        Its minimum may lose a NaN, and it has no float16.
        """
        if flat.dtype.kind in "iu":
            return False
        return flat.dtype.kind == "b" or flat.dtype.itemsize == 2 or op != "sum" or ordered

    def _wait(self, request: Any) -> None:
        """Wait for a call of all ranks: MPI's own waits take the processor from the rank that is waited for."""
        wait_until(request.Test)

    def _op(self, op: str) -> Any:
        return getattr(self._mpi, op.upper())

    def _length(self, count: int, rank: int) -> int:
        part = self.part(count, rank)
        return part.stop - part.start

    # From one to another

    def isend(self, array: Any, to: int, tag: int = 0) -> Request:
        self.check_rank(to, "to")
        flat = flat_view(array, writes=False)
        self._check_message(flat.nbytes)
        for one in [*self._under_way]:
            one.forget_if_sent()
        request = self._comm.Isend([_bytes(flat), self._mpi.BYTE], to, tag)
        return _Message(request, flat, self._mpi, self._under_way)

    def irecv(self, array: Any, source: int, tag: int = 0) -> Request:
        self.check_rank(source, "source")
        flat = flat_view(array)
        self._check_message(flat.nbytes)
        request = self._comm.Irecv([_bytes(flat), self._mpi.BYTE], source, tag)
        return _Receive(request, flat, self._mpi, self._under_way, source, tag)

    def wait_any(self, requests: Sequence[Request]) -> int:
        if requests:
            wait_until(lambda: any(one.done() for one in requests))
        return super().wait_any(requests)

    # Failure

    def abort(self, message: str, code: int = 1) -> NoReturn:
        world = self._mpi.COMM_WORLD
        if not self._fails_first():  # all ranks may have the same error, which is told once
            time.sleep(LATER)
        for call in self._calls:
            call(message)
        sys.stderr.write(f"error: rank {world.Get_rank()} of {world.Get_size()}: {message}\n")  # all of it at once
        sys.stderr.flush()
        time.sleep(PASSED_ON)
        world.Abort(code)
        os._exit(code)  # not reached

    def _fails_first(self) -> bool:
        """Return whether no other rank that the same process of the launcher has started has failed before.

        The name belongs to the first that asks for it, until that process ends.
        """
        if sys.platform != "linux":  # others do not know such names
            return True
        self._failing = socket.socket(socket.AF_UNIX)
        try:
            self._failing.bind(f"\0nacre has failed, ranks of {os.getppid()}")
        except OSError as error:
            return error.errno != errno.EADDRINUSE
        return True

    def on_failure(self, call: Callable[[str], object]) -> None:
        self._calls.append(call)

    def close(self) -> None:
        if self._closed:
            return
        if not self._world:
            self._shared.release(self)
        self.barrier()
        self._closed = True
        if not self._world:
            self._comm.Free()

    def _uncaught(self, kind: Any, error: Any, trace: Any) -> None:
        """Tell of an error that nobody handled, and end all ranks: MPI would wait for this one for ever."""
        sys.__excepthook__(kind, error, trace)
        self.abort(f"{kind.__name__}: {error}")

    def _leave(self) -> None:
        """End MPI; or all ranks, if this one ends while others may wait for it."""
        if not self._closed:
            self.abort("it has ended before the others")
        self._mpi.Finalize()


def refuse_singletons(size: int, library: str) -> None:
    """Raise RankError if a launcher says that it has started other processes than this MPI finds.

    Where launcher and MPI do not understand each other, each process believes that it is the only one.
    """
    for name, launcher in TOLD.items():
        text = os.environ.get(name, "")
        told = int(text) if text.isdecimal() else size
        if told != size and (size == 1 or not name.startswith("SLURM")):  # mpiexec may start its own helpers by srun
            found = "only this one" if size == 1 else f"{size}"
            raise RankError(
                f"{launcher} has started {told} processes ({name}={told}), but {_first_words(library)} finds {found}: "
                "they would train by themselves, and write the same files",
                "use the launcher of this MPI (its mpiexec), or one that it understands: srun --mpi=pmi2 for MPICH, "
                "srun --mpi=pmix for Open MPI",
            )


def _first_words(library: str) -> str:
    return " ".join(library.replace("\t", " ").replace(",", " ").split()[:3]) or "this MPI"


class _Message(Request):
    """A message; it is among those `under_way`, so that its array lives, until it is done."""

    def __init__(self, request: Any, array: Any, mpi: Any, under_way: set[_Message]) -> None:
        self._request, self.array, self._mpi, self._under_way = request, array, mpi, under_way
        self._done = False
        under_way.add(self)

    def done(self) -> bool:
        if not self._done:
            status = self._mpi.Status()
            self._done = self._request.Test(status)
            if self._done:
                self._under_way.discard(self)
                self.check(status)
        return self._done

    def forget_if_sent(self) -> None:
        """Let go of the array of a message that has gone, for which nobody waits."""
        self.done()

    def check(self, status: Any) -> None:
        """Look at what is known of a message that is done."""

    def wait(self) -> None:
        wait_until(self.done)


class _Receive(_Message):
    def __init__(self, request: Any, array: Any, mpi: Any, under_way: set[_Message], source: int, tag: int) -> None:
        super().__init__(request, array, mpi, under_way)
        self.source, self.tag = source, tag

    def done(self) -> bool:
        try:
            return super().done()
        except self._mpi.Exception as error:
            self._done = True
            self._under_way.discard(self)
            if error.Get_error_class() != self._mpi.ERR_TRUNCATE:
                raise
            raise RankError(
                f"the message with the tag {self.tag} of rank {self.source} has more than the {self.array.nbytes} "
                "bytes that are expected",
                "send and receive arrays of one shape and type",
            ) from error

    def forget_if_sent(self) -> None:
        """Do nothing: who waits for a message is told what is wrong with it."""

    def check(self, status: Any) -> None:
        check_bytes(status.Get_count(self._mpi.BYTE), self.array, self.tag, self.source)


def _bytes(flat: Any) -> Any:
    return flat.view("uint8")


def _pieces(flat: Any, most: int) -> Iterator[Any]:
    """Yield the numbers of an array, so many at a time."""
    for start in range(0, len(flat), most):
        yield flat[start : start + most]
