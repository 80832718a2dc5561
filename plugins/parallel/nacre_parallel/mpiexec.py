"""Mpiexec: ranks that an MPI starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from nacre import ConfigError, Launch
from nacre.cli import warn

from .launch import GRACE, handing_on

KILLED = 9, 137, -9
"""Exit codes of MPICH's and Open MPI's mpiexec when a rank was killed, and its own when it was."""
WATCH = "import os, sys; sys.stdin.read() or os.kill(int(sys.argv[1]), 9)"
"""A program that ends a process when whoever writes to it has ended without a word."""


class Mpiexec(Launch):
    """A command as so many ranks, by the mpiexec beside this Python, or else that on the path.

    Ranks tell of their errors themselves. They have a session of their own, and signals reach them through this process
    alone: mpiexec takes two Ctrl-C for the wish to end at once. What they print goes through this process, too:
    mpiexec would end them all when nobody reads it any more (`| head`).

    Raises:
        ConfigError: there is no mpiexec.
    """

    def __init__(self, command: Sequence[str], ranks: int, *, env: Mapping[str, str] | None = None) -> None:
        beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
        program = beside or shutil.which("mpiexec")
        if program is None:
            raise ConfigError(
                "there is no program mpiexec", "pip install 'nacre[mpi]', or load the MPI of this cluster"
            )
        self.stopped = 0  # the first signal that was to end this process
        words, known, none = [program, "-n", str(ranks), *command], {**os.environ, **(env or {})}, subprocess.DEVNULL
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            words, env=known, stdin=none, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0
        )
        streams = (self.process.stdout, 1), (self.process.stderr, 2)
        self.printing = [threading.Thread(target=_print, args=one, daemon=True) for one in streams]
        for one in self.printing:
            one.start()
        watch = [sys.executable, "-ISc", WATCH, str(self.process.pid)]
        self.watcher = subprocess.Popen(watch, stdin=subprocess.PIPE, stdout=none, stderr=none, start_new_session=True)

    def forward(self, number: int, _: Any = None) -> None:
        """Send a signal to mpiexec, which sends it to all ranks; a handler of signals.

        A SIGHUP would end mpiexec itself, and so the ranks without a snapshot.
        """
        self.stopped = self.stopped or number
        self.process.send_signal(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)

    def run(self) -> int:
        with handing_on(self.forward):
            code = self.process.wait()
        for one in self.printing:
            one.join(GRACE)  # a child of a rank may still hold the other end
        if self.stopped and code:  # MPICH's is a mixture of those of all ranks
            return 128 + self.stopped
        if code in KILLED:
            self.killed = True
            self.message = "a rank was ended by SIGKILL: was it killed by hand, or for lack of memory?"
        return code if code >= 0 else 1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.watcher.communicate(b"done")


def _print(source: IO[bytes], number: int) -> None:
    """Print what a pipe gives, to a stream; once that is not possible, read the rest and drop it."""
    lost = False
    while data := source.read(1 << 16):
        try:
            while data and not lost:
                data = data[os.write(number, data) :]
        except OSError as error:
            lost = True
            if number == 1:
                warn(f"nothing more can be printed: {error.strerror}; the work continues")
