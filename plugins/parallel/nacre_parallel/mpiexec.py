"""Mpiexec: ranks that an MPI starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nacre import ConfigError, Launch

from .launch import handing_on

KILLED = 9, 137, -9
"""Exit codes of MPICH's and Open MPI's mpiexec when a rank was killed, and its own when it was."""


class Mpiexec(Launch):
    """A command as so many ranks, by the mpiexec beside this Python, or else that on the path.

    Ranks tell of their errors themselves.

    Raises:
        ConfigError: there is no mpiexec.
    """

    def __init__(self, command: Sequence[str], ranks: int, *, env: Mapping[str, str] | None = None) -> None:
        beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
        program = beside or shutil.which("mpiexec")
        if program is None:
            raise ConfigError("there is no program mpiexec", "pip install nacre[mpi], or load the MPI of this cluster")
        self.process = subprocess.Popen([program, "-n", str(ranks), *command], env={**os.environ, **(env or {})})

    def run(self) -> int:
        with handing_on(lambda number, _: self.process.send_signal(number)):
            code = self.process.wait()
        if code in KILLED:
            self.killed = True
            self.message = "a rank was ended by SIGKILL: was it killed by hand, or for lack of memory?"
        return code if code >= 0 else 1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
