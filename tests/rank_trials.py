"""`nacre train` of several ranks in forks of one warm process, which need no time to start.

    python rank_trials.py    takes lines of JSON, [folder, arguments], and answers each with [exit code, stdout, stderr]

Each command runs in a fork of this process, which imports what it needs but never trains, so a fork inherits no thread;
and the ranks that the command starts are forks of that.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any

IMPORTED = (
    *("h5py", "nacre.cli.commands.train", "nacre.cli.training", "nacre.cli.ranks", "nacre.cli.screen"),
    *("nacre.config", "nacre.net.net", "nacre.training.training", "nacre.training.checkpoint", "nacre_data.hdf5_data"),
    *("nacre_data.hdf5_store", "nacre_layers.linear.inner_product", "nacre_layers.losses.softmax_loss"),
    *("nacre_layers.elementwise.dropout", "nacre_numpy.backend", "nacre_solvers.sgd", "nacre_solvers.snapshot"),
    *("nacre_parallel.frameworks.all_reduce", "nacre_parallel.launch", "nacre_parallel.mailbox"),
    "nacre_parallel.rank",
)


class Fork:
    """A forked process, with what `subprocess.Popen` has for a launcher of ranks."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = inf) -> int:
        until = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("a fork", timeout)
            time.sleep(0.005)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def forked(
    arguments: Sequence[str], streams: Mapping[int, Path], environment: Mapping[str, str] | None = None, line: int = -1
) -> Fork:
    """Run `nacre` with arguments in a fork, with these files as its streams, until it exits.

    `line` is a descriptor that belongs to this process alone.
    """
    pid = os.fork()
    if pid:
        return Fork(pid)
    code = 1
    try:
        if line >= 0:
            os.close(line)
        os.environ.update(environment or {})
        for number, path in streams.items():
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(path, flags), number)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        sys.argv = ["nacre", *arguments]
        code = _exit_code()
    finally:
        os._exit(code)


def _exit_code() -> int:
    from nacre.cli import main

    code: Any = 1
    try:
        main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return int(code)


def serve() -> None:
    """Answer the lines on stdin."""
    for name in IMPORTED:
        import_module(name)
    import nacre
    from nacre_parallel import launch
    from nacre_parallel.launch import Ranks

    nacre.registry().offers("layer")

    class ForkedRanks(Ranks):
        def process(self, command: Sequence[str], env: Mapping[str, str], rank: int, **_: Any) -> Any:
            nothing = Path(os.devnull)
            return forked(command[4:], {0: nothing, **({1: nothing} if rank else {})}, env, self._line)

    launch.Ranks = ForkedRanks  # pyright: ignore[reportAttributeAccessIssue]
    for line in sys.stdin:
        folder, arguments = json.loads(line)
        os.chdir(folder)
        files = [Path(folder) / name for name in ("stdout", "stderr")]
        for file in files:
            file.write_bytes(b"")
        code = forked(arguments, {0: Path(os.devnull), 1: files[0], 2: files[1]}).wait()
        print(json.dumps([code, *(file.read_text() for file in files)]), flush=True)


class Commands:
    """Runs `nacre` in folders."""

    def __init__(self) -> None:
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        command = [sys.executable, __file__]
        environment = os.environ | threads | {"PYTHONPATH": path}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, folder: Path, *arguments: Any) -> tuple[int, str, str]:
        """Return the exit code of a command, and what it prints on both streams."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(folder), [str(one) for one in arguments]]) + "\n")
        self.process.stdin.flush()
        code, told, errors = json.loads(self.process.stdout.readline())
        return code, told, errors

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # no more lines: it ends


if __name__ == "__main__":
    serve()
