"""Batches that a thread reads before they are needed."""

from __future__ import annotations

import atexit
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np

from nacre import DataError, interruptible

PATIENCE = 10
"""Seconds in which a thread ends, unless it waits for ever."""

Filled = TypeVar("Filled")
"""A batch of any kind."""


@dataclass
class Batch:
    """A batch that was read: numbers and passes of its records, and the position and the pass after it.

    `left_out` says for each of its records that could not be read, so that another one was, why, if their pass is over
    after it; `begun` does for the others.
    """

    records: np.ndarray
    epochs: np.ndarray
    arrays: list[np.ndarray]
    rows: int = 0
    position: int = 0
    epoch: int = 0
    left_out: Sequence[str] = ()
    begun: Sequence[str] = ()


class ReadAhead(Generic[Filled]):
    """A thread that fills batches before they are needed, in the order in which they become free.

    `fill` returns whether its batch is the last one. The thread ends with that, with `stop`, with an error, which
    `take` then raises, or when there is no reference to this object. In that case nothing waits for its end: the last
    reference may go in the thread itself, or under a lock of HDF5.
    """

    def __init__(self, fill: Callable[[Filled], bool], batches: Sequence[Filled]) -> None:
        self.free: SimpleQueue[Filled | None] = SimpleQueue()
        self.full: SimpleQueue[Filled | BaseException] = SimpleQueue()
        for batch in batches:
            self.free.put(batch)
        stopped = threading.Event()
        self.thread = threading.Thread(
            target=_fill, args=(fill, self.free, self.full, stopped), name="nacre reads ahead", daemon=True
        )
        self._end = weakref.finalize(self, _end, stopped, self.free)
        self._end.atexit = False
        self.left = False
        _running.add(self)
        self.thread.start()

    def end(self) -> None:
        """Let the thread end when it has filled the batch that it fills now."""
        self._end()

    def stop(self, seconds: float | None = None) -> bool:
        """End the thread, and wait until it has, or for so many seconds; return whether it has."""
        self._end()
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def give_up(self, where: str) -> bool:
        """End the thread, whose work was interrupted, and return whether it has ended.

        One that waits for ever, because what it calls cannot be interrupted, is left behind with a warning.
        """
        if not self.left and not self.stop(PATIENCE):
            self.left = True
            message = f"{where}: what reads the records cannot be interrupted, and has not come back in {PATIENCE} s"
            warnings.warn(f"{message}: its thread is left behind", stacklevel=3)
        return not self.left

    def interrupt(self) -> None:
        """End the thread, and a `take` in another thread with an error."""
        self._end()
        self.full.put(DataError("it was closed while it was read"))

    def take(self) -> Filled:
        """Wait for the next batch."""
        with interruptible():
            batch = self.full.get()
        if isinstance(batch, BaseException):
            raise batch
        return batch


def _fill(
    fill: Callable[[Filled], bool],
    free: SimpleQueue[Filled | None],
    full: SimpleQueue[Filled | BaseException],
    stopped: threading.Event,
) -> None:
    """Run in the thread; it has no reference to the `ReadAhead`, which would then never be freed."""
    try:
        while (batch := free.get()) is not None and not stopped.is_set():
            last = fill(batch)
            full.put(batch)
            if last:
                return
    except BaseException as error:
        full.put(error)


def _end(stopped: threading.Event, free: SimpleQueue[Filled | None]) -> None:
    stopped.set()
    free.put(None)


_running: weakref.WeakSet[ReadAhead[Any]] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop all threads at exit: one might be using HDF5 when that is shut down."""
    for ahead in list(_running):
        if not ahead.left:
            ahead.stop(PATIENCE)
