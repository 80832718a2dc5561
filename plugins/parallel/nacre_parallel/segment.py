"""Segment: memory that the ranks on one machine share, in a file without a name, so that a killed run leaves nothing.

Its first page says whether a rank has failed, what each is doing, and how much of the segment is taken. Each number
there, and each counter of who has written what, is one word of 8 bytes, which processors store as a whole. `ordered`
keeps the stores before it from being seen after those behind it: a lock that is taken and given back does so on
processors that reorder them.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from nacre import RankError
from nacre.files import anonymous_file

from .waiting import wait_until

PAGE = mmap.ALLOCATIONGRANULARITY
LINE = 64  # bytes of a line of a processor's cache: what one rank writes is not in another's
TAKEN, FAILED, LENGTH, CODE = range(4)  # words of the first page
MOST = 256  # ranks: each has a ring of messages from every other one
STATES = 4 * 8  # where in it the states of the ranks begin, a byte for each
STARTING, CONNECTED, CLOSED = range(3)
TEXT = STATES + MOST  # where in it the message of the rank that failed begins

_lock = threading.Lock()


def ordered() -> None:
    """Order what this process has read and written before, and what it will."""
    with _lock:
        pass


def make_segment() -> int:
    """Return the descriptor of a new segment, which is gone when no process has it open."""
    descriptor = anonymous_file("nacre ranks")
    os.ftruncate(descriptor, PAGE)
    Segment(descriptor).head[TAKEN] = PAGE
    return descriptor


class Segment:
    """The segment behind a descriptor, which stays open."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._page = mmap.mmap(descriptor, PAGE)
        self.head = memoryview(self._page).cast("Q")
        self.states = memoryview(self._page)[STATES:TEXT]
        """What each rank is doing: it is starting, or connected to the others, or has closed its communicator."""
        self.progress: Callable[[], None] = lambda: None
        """What a rank does while it waits."""

    def allocate(self, size: int) -> int:
        """Take so many bytes, which are 0; return where they begin."""
        import fcntl  # which Windows has not

        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            start = self.head[TAKEN]
            end = start + -(-max(size, 1) // PAGE) * PAGE
            os.ftruncate(self.descriptor, end)
            self.head[TAKEN] = end
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)
        return start

    def remove(self, start: int, size: int) -> None:
        """Release memory that no rank uses any more, if this system can."""
        if hasattr(mmap, "MADV_REMOVE"):
            with mmap.mmap(self.descriptor, -(-max(size, 1) // PAGE) * PAGE, offset=start) as memory:
                memory.madvise(mmap.MADV_REMOVE)

    def map(self, start: int, size: int) -> mmap.mmap:
        """Return memory of the segment."""
        return mmap.mmap(self.descriptor, max(size, 1), offset=start)

    def array(self, start: int, shape: Sequence[int], dtype: str) -> np.ndarray:
        """Return an array in the segment; its memory stays mapped as long as someone refers to it."""
        kind = np.dtype(dtype)
        return np.ndarray(tuple(shape), kind, self.map(start, kind.itemsize * prod(shape)))

    def fail(self, message: str, code: int = 1) -> None:
        """Let all ranks end with a message, and the launcher with an exit code; only the first counts."""
        if not self.head[FAILED]:
            text = message.encode(errors="backslashreplace")[: PAGE - TEXT]
            self._page[TEXT : TEXT + len(text)] = text
            self.head[LENGTH], self.head[CODE] = len(text), code
            ordered()
            self.head[FAILED] = 1

    @property
    def failure(self) -> str | None:
        """The message of the rank that failed, or None."""
        if not self.head[FAILED]:
            return None
        ordered()
        return self._page[TEXT : TEXT + self.head[LENGTH]].decode(errors="replace")

    def check(self) -> None:
        """Raise RankError if a rank has failed."""
        if (message := self.failure) is not None:
            raise RankError(message)

    def wait(self, ready: Callable[[], bool]) -> None:
        """Return when `ready` is true. Raises RankError if a rank has failed."""
        wait_until(ready, self._meanwhile)

    def _meanwhile(self) -> None:
        self.check()
        self.progress()
