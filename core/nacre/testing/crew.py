"""Ranks that are threads of this process, and what they exchange: for tests of nets that are divided among ranks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np

from ..errors import RankError
from ..protocols.backend import Backend, open_backend
from ..protocols.communicator import Communicator, Request, check_op, flat_view, reduce_into

Result = TypeVar("Result")


class _Room:
    """What the threads share: messages on their way, and what each has brought to a collective call.

    The thread that holds `turn` runs; it gives that up while it waits for others. The room of a part of the ranks has
    that of all, `outer`, whose turn is theirs too.
    """

    def __init__(self, size: int, outer: _Room | None = None) -> None:
        self.changed = threading.Condition()
        self.meeting = threading.Barrier(size)
        self.brought: list[Any] = [None] * size
        self.messages: dict[tuple[int, int, int], deque[np.ndarray]] = {}
        self.failed = ""
        self.inner: list[_Room] = []
        self.turn = threading.Lock() if outer is None else outer.turn
        if outer is not None:
            outer.inner.append(self)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Let another thread run in the block."""
        self.turn.release()
        try:
            yield
        finally:
            self.turn.acquire()

    def fail(self, message: str) -> None:
        """Let all ranks end that wait for one another."""
        with self.changed:
            self.failed = self.failed or message
            self.changed.notify_all()
        self.meeting.abort()
        for room in self.inner:
            room.fail(message)


class ThreadCommunicator(Communicator):
    """Connects threads of one process, which share `room`."""

    name = "threads"

    def __init__(self, room: _Room, rank: int, size: int) -> None:
        self.room, self.rank, self.size = room, rank, size

    def split(self, color: int | None, key: int = 0) -> ThreadCommunicator | None:
        every = self._exchange((color, key, self.rank))
        members = [rank for other, _, rank in sorted(every, key=lambda one: one[1:]) if other == color]
        rooms = self._exchange(
            _Room(len(members), self.room) if members[:1] == [self.rank] and color is not None else None
        )
        return None if color is None else ThreadCommunicator(rooms[members[0]], members.index(self.rank), len(members))

    def allreduce(self, array: np.ndarray, op: Any = "sum", *, ordered: bool = False) -> None:
        own = flat_view(array)
        check_op(op, own)
        reduce_into(self._exchange(own.copy()), op, own)

    def reduce_scatter(self, array: np.ndarray, out: np.ndarray, op: Any = "sum", *, ordered: bool = False) -> None:
        self.allreduce(array, op)
        np.copyto(flat_view(out), flat_view(array)[self.part(array.size)])

    def allgather(self, array: np.ndarray, out: np.ndarray) -> None:
        np.copyto(flat_view(out), np.concatenate(self._exchange(flat_view(array, writes=False).copy())))

    def bcast(self, array: np.ndarray, root: int = 0) -> None:
        own = flat_view(array)
        np.copyto(own, self._exchange(own.copy())[self.check_rank(root, "root")])

    def barrier(self) -> None:
        self._exchange(None)

    def shared_array(self, shape: Sequence[int], dtype: str = "float64") -> np.ndarray:
        return self._exchange(np.zeros(tuple(shape), dtype))[0]

    def isend(self, array: np.ndarray, to: int, tag: int = 0) -> Request:
        with self.room.changed:
            key = self.rank, self.check_rank(to, "to"), tag
            self.room.messages.setdefault(key, deque()).append(flat_view(array, writes=False).copy())
            self.room.changed.notify_all()
        return _Sent()

    def irecv(self, array: np.ndarray, source: int, tag: int = 0) -> Request:
        return _Receive(self.room, (self.check_rank(source, "source"), self.rank, tag), flat_view(array))

    def wait_any(self, requests: Sequence[Request]) -> int:
        with self.room.waiting(), self.room.changed:
            self.room.changed.wait_for(lambda: any(one.done() for one in requests) or self.room.failed)
            if self.room.failed:
                raise RankError(self.room.failed)
        return super().wait_any(requests)

    def abort(self, message: str, code: int = 1) -> NoReturn:
        self.room.fail(f"rank {self.rank}: {message}")
        raise RankError(self.room.failed)

    def on_failure(self, call: Callable[[str], object]) -> None:
        """Do nothing: the process goes on after a rank has failed."""

    def _exchange(self, value: Any) -> list[Any]:
        """Return what all ranks have brought."""
        try:
            self.room.brought[self.rank] = value
            with self.room.waiting():
                self.room.meeting.wait()
                every = list(self.room.brought)
                self.room.meeting.wait()
        except threading.BrokenBarrierError:
            raise RankError(self.room.failed or "another rank has failed") from None
        return every


class _Sent(Request):
    """A message whose numbers were copied."""

    def done(self) -> bool:
        return True

    def wait(self) -> None:
        """Do nothing: it has gone."""


class _Receive(Request):
    """A message that is awaited."""

    def __init__(self, room: _Room, key: tuple[int, int, int], into: np.ndarray) -> None:
        self.room, self.key, self.into = room, key, into
        self.came = False

    def done(self) -> bool:
        return self.came or bool(self.room.messages.get(self.key))

    def wait(self) -> None:
        if self.came:
            return
        with self.room.waiting(), self.room.changed:
            self.room.changed.wait_for(lambda: self.done() or self.room.failed)
            if self.room.failed:
                raise RankError(self.room.failed)
            message = self.room.messages[self.key].popleft()
        if message.nbytes != self.into.nbytes:
            raise RankError(f"a message of {message.nbytes} bytes came from rank {self.key[0]}, not {self.into.nbytes}")
        self.into[...] = message.view(self.into.dtype)
        self.came = True


def crew(size: int) -> list[ThreadCommunicator]:
    """Return the communicators of so many ranks, each for a thread of its own."""
    room = _Room(size)
    return [ThreadCommunicator(room, rank, size) for rank in range(size)]


def own_backend(name: str) -> Backend:
    """Return a backend for one rank, whose passes may run while one of another rank waits for it."""
    made = type(open_backend(name))()
    vars(made)["wrap"] = lambda run: run  # pyright: ignore[reportUnknownLambdaType] (ranks take turns: see `_Room`)
    return made


def together(crew: Sequence[ThreadCommunicator], work: Callable[[int], Result]) -> list[Result]:
    """Call `work(rank)` in a thread for each rank, and return the results; if one raises, raise that, and all end."""

    def run(rank: int) -> Result:
        try:
            with crew[rank].room.turn:
                return work(rank)
        except BaseException as error:
            crew[rank].room.fail(f"rank {rank} has failed: {error}")
            raise

    with ThreadPoolExecutor(len(crew)) as pool:
        futures = [pool.submit(run, rank) for rank in range(len(crew))]
    errors = [error for one in futures if (error := one.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, RankError)):
        raise error
    return [one.result() for one in futures]
