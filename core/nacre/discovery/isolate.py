"""Imports each plugin in a process of its own, to find the one that crashes or never ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any

from . import discovery
from .discovery import load, new_manager
from .offers import Plugin, Provenance, removal

_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])['path']; "
    "from nacre.discovery.isolate import child; child()"
)


STACK = 4
"""Lines of Python's stack in a message: what was running, and what called it."""


@dataclass(frozen=True)
class Trial:
    """The result for a plugin: `problem` is "" if its light module was imported, and its hooks called, without one."""

    plugin: Plugin
    offers: int
    problem: str
    remedy: str


def tried(plugin: Plugin, limit: float) -> Trial:
    """Import a plugin's light module, and call its hooks, in a process that may take `limit` seconds."""
    where = plugin.provenance
    about = {"name": plugin.name, "entry": plugin.entry, "module": where.module}
    about |= {"distribution": where.distribution, "version": where.version}
    request = json.dumps({"path": sys.path, "patience": limit / 2, "plugin": about})
    with TemporaryFile() as output, TemporaryFile() as errors:
        code = _run([sys.executable, "-c", _CHILD, request], output, errors, limit)
        answer = _read(output)
        stack = _stack(_read(errors))
    found: dict[str, Any] = json.loads(answer) if answer else {}
    if code is None:
        problem = f"importing it was not finished after {limit:g} s{stack}"
    elif code < 0:
        problem = f"importing it crashed Python: killed by {signal.Signals(-code).name}{stack}"
    elif code or not found:
        problem = f"importing it ended Python with exit code {code}"
    else:
        problem = "\n".join(found["problems"])
    return Trial(plugin, found.get("offers", 0), problem, removal(where) if problem else "")


def _run(command: list[str], output: IO[bytes], errors: IO[bytes], limit: float) -> int | None:
    """Run a command; return its exit code, or None if it and its children had to be killed after `limit` seconds."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
    ) as process:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if sys.platform != "win32":
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _stack(errors: str) -> str:
    """Return the innermost lines of the stack that `faulthandler` has written, without those of the import itself."""
    lines = [line.strip() for line in errors.splitlines() if line.startswith('  File "')]
    lines = [line for line in lines if '"<frozen ' not in line]
    return "".join(f"\n  {line}" for line in lines[:STACK])


def child() -> None:
    """Try the plugin that the command line names. What the plugin prints does not get into the answer."""
    import faulthandler

    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    request = json.loads(sys.argv[1])
    about = request["plugin"]
    discovery.PATIENCE = request["patience"]
    provenance = Provenance(about["distribution"], about["version"], "", False, about["module"])
    plugin = Plugin(about["name"], about["entry"], provenance)
    problems = load(plugin, new_manager())
    with answer:
        json.dump({"offers": len(plugin.offers), "problems": [str(problem) for problem in problems]}, answer)
