"""A pool of rank processes for tests: they are started once, and call functions of modules in tests/ together."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from nacre import RankError
from nacre_parallel import Ranks, ShmCommunicator


class Pool:
    """So many ranks, which call functions: `Pool(2).run("module:function", 3)` is [function(communicator, 3), ...].

    Arguments and results are what JSON can hold. After an error in a rank, which is raised here, the pool is over.
    """

    def __init__(self, size: int) -> None:
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        command = [sys.executable, __file__]
        self.ranks = Ranks(command, size, env={"PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.first = self.ranks.processes[0]

    def run(self, call: str, *arguments: Any) -> list[Any]:
        assert self.first.stdin is not None and self.first.stdout is not None
        self.first.stdin.write(json.dumps([call, arguments]).encode() + b"\n")
        self.first.stdin.flush()
        if line := self.first.stdout.readline():
            return json.loads(line)
        self.ranks.wait()
        raise RankError(self.ranks.message)

    def close(self) -> None:
        for pipe in (self.first.stdin, self.first.stdout):
            assert pipe is not None
            pipe.close()
        self.ranks.close()


@cache
def pool(size: int) -> Pool:
    """Return the pool of so many ranks that all tests of this process use; it ends with the process."""
    made = Pool(size)
    atexit.register(made.close)
    return made


def main() -> None:
    """Serve as one rank."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed is no answer
    communicator = ShmCommunicator.connect()
    while (request := communicator.share(_read() if communicator.rank == 0 else None)) is not None:
        call, arguments = request
        module, _, name = call.partition(":")
        results = communicator.gather(getattr(import_module(module), name)(communicator, *arguments))
        if communicator.rank == 0:
            answers.write(json.dumps(results) + "\n")
            answers.flush()
    communicator.close()


def _read() -> Any:
    line = sys.stdin.readline()
    return json.loads(line) if line else None


if __name__ == "__main__":
    main()
