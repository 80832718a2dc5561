"""Communicator: how the ranks of a training, which are processes, exchange arrays."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, cast

from ..discovery.fitting import required
from ..errors import ConfigError, ContractError, nearest

if TYPE_CHECKING:
    import numpy as np

Op = Literal["sum", "prod", "min", "max"]
NAP = 1e-4  # seconds between two looks at requests
OPS: tuple[Op, ...] = ("sum", "prod", "min", "max")


class Request:
    """A message on its way: the array of `isend` may not be changed, that of `irecv` not be read, until it is done.

    It goes on also if nobody keeps this request.
    """

    def done(self) -> bool:
        """Return whether the message has gone, or come; let messages make progress."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when it is done. Raises RankError if another rank has failed."""
        raise NotImplementedError


class Launch:
    """Processes that were started as ranks; `with` ends those that are left.

    When they have ended, `message` is why they failed, "" if they did not, or have told it themselves; `killed` says
    that a signal from outside ended one of them, so that they may begin again.
    """

    message: str = ""
    killed: bool = False

    def run(self) -> int:
        """Wait for all of them, and hand on the signals that are to end this process; return the exit code.

        That of processes which such a signal has ended is 128 and its number; they have not failed, whenever it came.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End those that are still there."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Communicator:
    """Connects `size` processes, the ranks 0 to size - 1, of which this one is `rank`.

    Arrays are NumPy's, contiguous in C order, of booleans, whole numbers or floating numbers; their shape and type are
    the same on all ranks, unless a method says otherwise. All ranks call the collective methods in the same order.
    Every method may raise RankError, because another rank has failed; and ContractError for an array that cannot be
    sent.

    The reductions are "sum", "prod", "min" and "max"; a minimum or maximum with a NaN is NaN. All ranks get the same
    bits, and so does the next run. With `ordered` they are those of ((a0 + a1) + a2) + ..., in the order of the ranks,
    whatever the implementation. Booleans have only "min" (all) and "max" (any).

    An implementation is offered as a component of the kind `communicator`, under its `name`. Its class is imported
    without the library that it needs.
    """

    nacre_kind: ClassVar[str] = "communicator"
    name: ClassVar[str] = ""
    on_device: ClassVar[bool] = False
    """Whether `allreduce` also takes plain arrays of a device, which then stay there."""
    prints_errors: bool = False
    """Whether `abort` prints its message, because no launcher does."""
    rank: int
    size: int

    @classmethod
    def nacre_misfit(cls, name: str) -> str:
        """Return why this class cannot be offered as a communicator under a name, or ""."""
        return "" if cls.name == name else f"{cls.__name__} has name={cls.name!r}, but it is offered as '{name}'"

    @classmethod
    def ranks_here(cls) -> int:
        """Return of how many ranks of this implementation the environment says that this process is one; else 0."""
        return 0

    @classmethod
    def start(cls, command: Sequence[str], ranks: int, *, env: Mapping[str, str] | None = None) -> Launch:
        """Start a command as so many ranks of this implementation, with further variables of the environment.

        Raises:
            ConfigError: there is no launcher for it, or it cannot start so many.
        """
        raise ConfigError(f"the communicator {cls.name} cannot start ranks by itself", "use another one")

    @classmethod
    def leftovers(cls) -> list[Path]:
        """Return the files that killed runs have left on this machine, such as shared memory, and that nobody uses."""
        return []

    @classmethod
    def connect(cls) -> Communicator:
        """Return the communicator of all ranks, one of which this process is.

        Raises:
            ConfigError: it was not started as one, or a library is missing.
            RankError: the environment says another number of ranks than there are.
        """
        raise NotImplementedError

    # Collective

    @required()
    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Return a communicator of the ranks with the same `color`, in the order of `key` and rank; None for None.

        It takes memory, and there may only be some thousand at a time: its ranks `close` it when they need it no more.
        """
        raise NotImplementedError

    @required()
    def allreduce(self, array: np.ndarray, op: Op = "sum", *, ordered: bool = False) -> None:
        """Replace the array, on every rank, by the reduction of the arrays of all ranks, element by element."""
        raise NotImplementedError

    @required()
    def reduce_scatter(self, array: np.ndarray, out: np.ndarray, op: Op = "sum", *, ordered: bool = False) -> None:
        """Write this rank's part of the reduction into `out`: `part(array.size)` of the flat numbers.

        The content of `array` is lost.
        """
        raise NotImplementedError

    @required()
    def allgather(self, array: np.ndarray, out: np.ndarray) -> None:
        """Write the arrays of all ranks into `out`, one after the other: rank r's at `part(out.size, r)`.

        Arrays of one size, in the order of the ranks, always lie so. Others have `part(out.size)` of the numbers.
        """
        raise NotImplementedError

    @required()
    def bcast(self, array: np.ndarray, root: int = 0) -> None:
        """Replace the array, on every rank, by that of the rank `root`."""
        raise NotImplementedError

    @required()
    def barrier(self) -> None:
        """Return when all ranks have called it."""
        raise NotImplementedError

    @required()
    def shared_array(self, shape: Sequence[int], dtype: str = "float64") -> np.ndarray:
        """Return an array of zeros whose memory all ranks share.

        It lives as long as someone refers to it. Who reads what another rank has written needs `barrier` between them.

        Raises:
            RankError: the ranks are not all on one machine.
        """
        raise NotImplementedError

    # From one to another

    def send(self, array: np.ndarray, to: int, tag: int = 0) -> None:
        """Send an array to a rank, which may be this one; returns when `array` may be changed.

        A message may have to wait until it is received. Those with one tag arrive in their order.
        """
        self.isend(array, to, tag).wait()

    def recv(self, array: np.ndarray, source: int, tag: int = 0) -> None:
        """Replace the array by the next one with this tag that a rank has sent.

        Raises:
            RankError: it has another number of bytes.
        """
        self.irecv(array, source, tag).wait()

    @required()
    def isend(self, array: np.ndarray, to: int, tag: int = 0) -> Request:
        """Begin to send an array to a rank."""
        raise NotImplementedError

    @required()
    def irecv(self, array: np.ndarray, source: int, tag: int = 0) -> Request:
        """Begin to receive an array from a rank."""
        raise NotImplementedError

    def wait_any(self, requests: Sequence[Request]) -> int:
        """Return the number of a request that is done, as soon as there is one: so a rank waits for any of several.

        Raises:
            ContractError: there are no requests.
            RankError: another rank has failed.
        """
        if not requests:
            raise ContractError("wait_any of no requests would never end")
        while True:
            for number, request in enumerate(requests):
                if request.done():
                    return number
            sleep(NAP)

    # Failure

    @required()
    def abort(self, message: str, code: int = 1) -> NoReturn:
        """End all ranks of the program, with a message that names this one, and this process with an exit code."""
        raise NotImplementedError

    @required()
    def on_failure(self, call: Callable[[str], object]) -> None:
        """Call `call(message)`, in some thread, before this process ends because another rank has failed.

        Where the launcher ends processes without a word, as MPI's do, it is only called when this rank aborts.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release what it holds; collective, and harmless when called twice.

        Of arrays that its ranks share, the memory is released if none of them refers to it any more.
        """

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()

    # From these

    def part(self, count: int, rank: int | None = None) -> slice:
        """Return which of `count` numbers are a rank's, by default this one's: from r · count / size on."""
        rank = self.rank if rank is None else rank
        return slice(rank * count // self.size, (rank + 1) * count // self.size)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, which JSON can hold, in the order of the ranks."""
        import numpy as np

        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        sizes = np.zeros(self.size, np.int64)
        self.allgather(np.array([len(text)], np.int64), sizes)
        padded = np.zeros(int(sizes.max()), np.uint8)
        padded[: len(text)] = text
        every = np.zeros((self.size, len(padded)), np.uint8)
        self.allgather(padded, every)
        return [json.loads(row[:size].tobytes()) for row, size in zip(every, sizes.tolist(), strict=True)]

    def each_array(
        self,
        arrays: Mapping[str, Any],
        about: Mapping[str, Any] | None = None,
        wanted: Callable[[int, str], bool] = lambda rank, name: True,
    ) -> Generator[tuple[int, str, np.ndarray, Any]]:
        """Yield the named arrays and numbers of all ranks, in the order of the ranks; their shapes may differ.

        Each comes as (rank, name, a copy of the array, what its rank says `about` it, which JSON can hold). There is
        one at a time, so that nobody needs memory for more than it keeps. It is collective to the end: all ranks take
        every array. Those for which `wanted(rank, name)` is false, on all ranks alike, are left out; it is asked when
        their turn comes.
        """
        import numpy as np

        about = about or {}
        own = {name: np.asarray(array) for name, array in arrays.items()}
        described = [[name, array.shape, array.dtype.str, about.get(name)] for name, array in own.items()]
        for rank, there in enumerate(self.gather(described)):
            for name, shape, kind, more in there:
                if wanted(rank, name):
                    array = np.array(own[name], order="C") if rank == self.rank else np.empty(shape, kind)
                    if array.size:
                        self.bcast(array.reshape(-1).view(np.uint8), rank)
                    yield rank, name, array, more

    def gather_arrays(self, arrays: Mapping[str, Any]) -> list[dict[str, np.ndarray]]:
        """Return the named arrays and numbers of all ranks, in the order of the ranks; their shapes may differ."""
        found: list[dict[str, np.ndarray]] = [{} for _ in range(self.size)]
        for rank, name, array, _ in self.each_array(arrays):
            found[rank][name] = array
        return found

    def share(self, value: Any, root: int = 0) -> Any:
        """Return the value of the rank `root`, which JSON can hold; the others' are not looked at."""
        return self.gather(value if self.rank == root else None)[root]

    def on_this_machine(self) -> list[int]:
        """Return the ranks on the machine of this one; collective."""
        every = self.gather(_machine())
        return [rank for rank, machine in enumerate(every) if machine == every[self.rank]]

    def check_rank(self, rank: int, what: str) -> int:
        """Return a rank, for an implementation. Raises ContractError if there is none of this number."""
        if not 0 <= rank < self.size:
            raise ContractError(f"{what}={rank}, but the ranks are 0 to {self.size - 1}")
        return rank

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: rank {self.rank} of {self.size}>"


@dataclass(frozen=True, eq=False)
class Group:
    """The ranks that train each batch together with this one, if not all do (`Framework.group`).

    `communicator` connects them; it is None on a rank that trains no batches. Of every joined batch, which has `count`
    parts, this rank reads part `number`.
    """

    communicator: Communicator | None
    number: int
    count: int


def any_rank(communicator: Communicator, here: bool) -> bool:
    """Return whether something is true on any rank."""
    import numpy as np

    flags = np.array([here])
    communicator.allreduce(flags, "max")
    return bool(flags[0])


def _machine() -> str:
    """Return what tells this machine, since it was started, from others."""
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{platform.node()} {boot}"


def flat_view(array: Any, what: str = "array", *, writes: bool = True) -> np.ndarray:
    """Return the numbers of an array in a row, for an implementation: the same memory.

    Raises:
        ContractError: it is no NumPy array of numbers, or not contiguous, or `writes` and it is read-only.
    """
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise ContractError(f"{what} is a {type(array).__name__}, but it must be a NumPy array")
    array = cast("np.ndarray[Any, Any]", array)
    if array.dtype.kind not in "biuf" or not array.dtype.isnative:
        raise ContractError(f"{what} has the type {array.dtype}, but it must have numbers or booleans")
    if not array.flags.c_contiguous:
        raise ContractError(
            f"{what} of shape {array.shape} is not contiguous", "make a copy: np.ascontiguousarray(array)"
        )
    if writes and not array.flags.writeable:
        raise ContractError(f"{what} is read-only, but it is written to")
    return array.reshape(-1)


def check_op(op: str, array: np.ndarray) -> None:
    """Raise ContractError if there is no such reduction, or not of numbers of this type."""
    if op not in OPS:
        raise ContractError(f"op={op!r}{nearest(op, OPS)}, but it must be one of {', '.join(OPS)}")
    if array.dtype.kind == "b" and op in ("sum", "prod"):
        raise ContractError(f"op={op!r} of booleans", 'use "max" (any) or "min" (all)')


def reduce_into(arrays: Sequence[np.ndarray], op: Op, out: np.ndarray) -> None:
    """Write the reduction of arrays of one length, in their order, into `out`, which may be one of them."""
    import numpy as np

    function = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    first, *others = arrays
    if len(others) < 2:  # `out` is read before it is written, element by element
        function(first, others[0], out=out) if others else np.copyto(out, first)
        return
    total = function(first, others[0])
    for other in others[1:-1]:
        function(total, other, out=total)
    function(total, others[-1], out=out)
