"""Launch: starts the ranks of the communicator shm, and ends all of them as soon as one fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nacre import ConfigError, Launch
from nacre.files import above_streams

from .board import lay_out
from .processors import share_of
from .segment import CLOSED, CODE, MOST, STARTING, Segment, make_segment
from .shm import ENVIRONMENT

LOOK = 0.02  # seconds between two looks at the ranks
GRACE = 1.0  # seconds that ranks have to end by themselves
SIGNALS = [getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM") if hasattr(signal, name)]
STOPPED = [128 + number for number in SIGNALS]
"""Exit codes of ranks that a signal has stopped."""


@contextmanager
def handing_on(forward: Callable[[int, Any], object]) -> Generator[None]:
    """Call `forward` in the block with every signal that is to end this process.

    A SIGHUP that is ignored (nohup) stays ignored, as it does in the ranks.
    """
    hang_up: int | None = getattr(signal, "SIGHUP", None)
    ignored = [hang_up] if hang_up is not None and signal.getsignal(hang_up) is signal.SIG_IGN else []
    before = {number: signal.signal(number, forward) for number in SIGNALS if number not in ignored}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Ranks(Launch):
    """Processes with one command, the ranks 0 to size - 1 of the communicator shm.

    `message` is why they have failed, and `killed` whether a signal from outside did it. They have a session of their
    own, and signals reach them through this process: `forward`. A rank has to close its communicator before it ends,
    if any rank is connected. What the ranks but the first print to stdout is dropped, unless `all_print`; `stdin` and
    `stdout` are those of the first, as for `Popen`. Each is bound to its share of the processors.

    Raises:
        ConfigError: this system cannot hand memory on to them; or there are too many.
    """

    def __init__(
        self,
        command: Sequence[str],
        size: int,
        *,
        env: Mapping[str, str] | None = None,
        all_print: bool = False,
        stdin: int | None = None,
        stdout: int | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise ConfigError("Windows cannot hand memory on to other processes", "use WSL, or mpiexec")
        if not 1 <= size <= MOST:
            raise ConfigError(f"{size} ranks, but there must be 1 to {MOST} of them")
        self.size = size
        self.stopped = 0  # the first signal that was to end this process
        self.processes: list[subprocess.Popen[bytes]] = []
        self._descriptor = make_segment()
        self._segment = Segment(self._descriptor)
        ours, self._line = map(above_streams, os.pipe())
        try:
            lay_out(self._segment, size)
            for rank in range(size):
                told = f"{self._descriptor}:{ours}:{rank}:{size}"
                options: dict[str, Any] = {
                    "pass_fds": [self._descriptor, ours],
                    "stdin": subprocess.DEVNULL if rank else stdin,
                    "stdout": subprocess.DEVNULL if rank and not all_print else stdout,
                }
                known = {**os.environ, **(env or {}), ENVIRONMENT: told}
                with share_of(rank, size):
                    self.processes.append(self.process(command, known, rank, **options))
        except BaseException:
            self.close()
            raise
        finally:
            os.close(ours)

    def process(self, command: Sequence[str], env: Mapping[str, str], rank: int, **options: Any) -> Any:
        """Start a rank; `options` are those of `Popen`."""
        return subprocess.Popen(command, env=env, start_new_session=True, **options)

    def forward(self, number: int, _: Any = None) -> None:
        """Send a signal to all ranks; a handler of signals.

        Python would answer a SIGINT with a traceback as long as a rank has nothing that handles it, and one that waits
        for others that are still starting has nothing to save.
        """
        self.stopped = self.stopped or number
        starting = STARTING in self._segment.states[: self.size]
        for process in self.processes:
            process.send_signal(signal.SIGTERM if starting else number)  # nothing happens to one that has ended

    def run(self) -> int:
        with handing_on(self.forward):
            return self.wait()

    def wait(self) -> int:
        """Return the exit code when all ranks have ended; `message` says why, if one has failed."""
        while (code := self._look()) is None:
            time.sleep(LOOK)
        self.close()
        return code

    def _look(self) -> int | None:
        """Return the exit code of the rank that has failed first, or of rank 0 when all have ended; else None."""
        codes = [process.poll() for process in self.processes]
        lost = {rank: code for rank, code in enumerate(codes) if code is not None and self._is_lost(rank, code)}
        if lost and self._segment.failure is None:
            time.sleep(LOOK)  # the others that end have lost it, and one of them may know why
            killed = [rank for rank, code in lost.items() if code < 0]
            rank, self.killed = (killed or [*lost])[0], bool(killed and not self.stopped)
            by_signal = lost[rank] in STOPPED or -lost[rank] in SIGNALS
            code = 128 + self.stopped if self.stopped and by_signal else 1
            self._segment.fail(f"rank {rank} of {self.size} {_how(lost[rank])}", code)
        if (failure := self._segment.failure) is not None:
            code = self._segment.head[CODE]
            if self.stopped and code in STOPPED:  # as it should be: nothing has failed
                return 128 + self.stopped
            self.message = failure
            return code
        return None if None in codes else codes[0]

    def _is_lost(self, rank: int, code: int) -> bool:
        """Return whether a rank that has ended has failed, or others may wait for it."""
        states = self._segment.states
        return code not in (0, *STOPPED) or (states[rank] != CLOSED and any(one != STARTING for one in states))

    def close(self) -> None:
        """End all ranks that are still there, and release the memory."""
        if self._line >= 0:
            os.close(self._line)  # whoever listens ends
            self._line = -1
            until = time.monotonic() + GRACE
            for process in self.processes:
                try:
                    process.wait(max(0.0, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            os.close(self._descriptor)


def _how(code: int) -> str:
    if code in (0, *STOPPED):
        return f"has ended before the others, with exit code {code}"
    if code > 0:
        return f"has ended with exit code {code}"
    name = signal.Signals(-code).name
    why = ": was it killed by hand, or for lack of memory?" if name == "SIGKILL" else ""
    return f"was ended by {name}{why}"
