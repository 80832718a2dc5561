"""Local: the communicator of a single process, which is the only rank."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from nacre import Communicator, ContractError, RankError, Request, check_op, flat_view

if TYPE_CHECKING:
    import numpy as np


class LocalCommunicator(Communicator):
    """One process, which may send messages to itself."""

    name = "local"

    def __init__(self) -> None:
        self.rank, self.size = 0, 1
        self._sent: dict[int, deque[np.ndarray]] = {}
        self._waiting: dict[int, deque[_Receive]] = {}
        self._calls: list[Callable[[str], object]] = []

    @classmethod
    def connect(cls) -> LocalCommunicator:
        return cls()

    def split(self, color: int | None, key: int = 0) -> LocalCommunicator | None:
        return None if color is None else LocalCommunicator()

    def allreduce(self, array: np.ndarray, op: Any = "sum", *, ordered: bool = False) -> None:
        check_op(op, flat_view(array))

    def reduce_scatter(self, array: np.ndarray, out: np.ndarray, op: Any = "sum", *, ordered: bool = False) -> None:
        check_op(op, flat_view(array))
        self.allgather(array, out)

    def allgather(self, array: np.ndarray, out: np.ndarray) -> None:
        given, into = flat_view(array, writes=False), flat_view(out, "out")
        check_part(given, into, len(into), "out")
        into[...] = given

    def bcast(self, array: np.ndarray, root: int = 0) -> None:
        self.check_rank(root, "root")
        flat_view(array)

    def barrier(self) -> None:
        pass

    def shared_array(self, shape: Sequence[int], dtype: str = "float64") -> np.ndarray:
        import numpy as np

        return np.zeros(tuple(shape), dtype)

    def isend(self, array: np.ndarray, to: int, tag: int = 0) -> Request:
        self.check_rank(to, "to")
        self._sent.setdefault(tag, deque()).append(flat_view(array, writes=False).copy())
        self._deliver(tag)
        return Done()

    def irecv(self, array: np.ndarray, source: int, tag: int = 0) -> Request:
        self.check_rank(source, "source")
        request = _Receive(flat_view(array), tag)
        self._waiting.setdefault(tag, deque()).append(request)
        self._deliver(tag)
        return request

    def _deliver(self, tag: int) -> None:
        sent, waiting = self._sent.get(tag), self._waiting.get(tag)
        if sent and waiting:
            waiting.popleft().given = sent.popleft()

    def abort(self, message: str, code: int = 1) -> NoReturn:
        for call in self._calls:
            call(message)
        raise RankError(f"rank 0 of 1: {message}")

    def on_failure(self, call: Callable[[str], object]) -> None:
        self._calls.append(call)


class Done(Request):
    """A message that needs nothing more."""

    def done(self) -> bool:
        return True

    def wait(self) -> None:
        pass


class _Receive(Request):
    def __init__(self, out: np.ndarray, tag: int) -> None:
        self.out, self.tag = out, tag
        self.given: np.ndarray | None = None
        self.complete = False

    def done(self) -> bool:
        if self.given is not None and not self.complete:
            self.complete = True
            check_bytes(self.given.nbytes, self.out, self.tag, 0)
            self.out.view("uint8")[...] = self.given.view("uint8")
        return self.complete

    def wait(self) -> None:
        if not self.done():
            raise RankError(f"a message with the tag {self.tag} is waited for, but this only rank has not sent it")


def check_part(part: np.ndarray, whole: np.ndarray, count: int, what: str) -> None:
    """Raise ContractError unless a part has so many numbers, of the type of the whole."""
    if len(part) != count or part.dtype != whole.dtype:
        raise ContractError(
            f"{what} has {len(whole)} numbers of type {whole.dtype}, so this rank's part must have {count}, but it "
            f"has {len(part)} of type {part.dtype}"
        )


def check_bytes(size: int, out: np.ndarray, tag: int, source: int) -> None:
    """Raise RankError unless a message has as many bytes as the array for it."""
    if size != out.nbytes:
        raise RankError(
            f"the message with the tag {tag} of rank {source} has {size} bytes, but {out.nbytes} are expected",
            "send and receive arrays of one shape and type",
        )
