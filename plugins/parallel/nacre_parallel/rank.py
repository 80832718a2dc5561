"""Rank: what a process does that a launcher has started as one of several: it listens, and tells of its failure."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, MutableSequence
from contextlib import suppress
from types import TracebackType
from typing import NoReturn

from .segment import CLOSED, Segment

_calls: MutableSequence[Callable[[str], object]] = []


class Rank:
    """This process as the rank `rank` of `size`; the launcher holds the other end of `line` open while all is well."""

    def __init__(self, segment: Segment, line: int, rank: int, size: int) -> None:
        self.segment, self.line, self.rank, self.name = segment, line, rank, f"rank {rank} of {size}"
        sys.excepthook = self._uncaught
        atexit.register(self._leave)
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def closed(self) -> bool:
        """Whether it has closed its communicator, so that no other one waits for it."""
        return self.segment.states[self.rank] == CLOSED

    def close(self) -> None:
        self.segment.states[self.rank] = CLOSED

    def abort(self, message: str, code: int) -> NoReturn:
        """End all ranks."""
        self.segment.fail(f"{self.name}: {message}", code)
        end(self.segment.failure or "", code)

    def _listen(self) -> None:
        """End this process when another rank has failed, or the launcher has ended."""
        with suppress(OSError):
            while os.read(self.line, 1):
                pass
        if not self.closed:
            end(self.segment.failure or "the process that started the ranks has ended", 1)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Tell of an error that nobody handled, unless it is only that another rank has failed."""
        if self.segment.failure is None:
            sys.__excepthook__(kind, error, trace)
        self.abort(f"{kind.__name__}: {error}", 1)

    def _leave(self) -> None:
        """Tell of a process that ends while others may wait for it."""
        if not self.closed:
            self.segment.fail(f"{self.name} has ended before the others")


def end(message: str, code: int) -> NoReturn:
    """End this process at once, in whatever thread, after the calls that wanted to know."""
    for call in [*_calls]:
        with suppress(Exception):  # the others have to run, and the process has to end
            call(message)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # a stream that is closed may be None
            stream.flush()
    os._exit(code)


def on_failure(call: Callable[[str], object]) -> None:
    """Call something before this process ends because a rank has failed."""
    _calls.append(call)
