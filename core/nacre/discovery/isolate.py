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

from ..errors import NacreError
from .discovery import load, new_manager
from .guard import ForeignError, described, guarded
from .offers import Offer, Plugin, Provenance, normalised, removal
from .registry import Registry

_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])['path']; "
    "from nacre.discovery.isolate import child; child()"
)


STACK = 4
"""Lines of Python's stack in a message: what was running, and what called it."""


@dataclass(frozen=True)
class Trial:
    """The result for a plugin: `problem` is "" if its light module was imported, and its hooks called, without one.

    `libraries` are the packages that its light module imports besides nacre and its own: listing names should not.
    `unopened` has a sentence for each offer that could not be opened, if that was tried.
    """

    plugin: Plugin
    offers: int
    problem: str
    remedy: str
    libraries: tuple[str, ...] = ()
    unopened: tuple[str, ...] = ()


def tried(plugin: Plugin, limit: float, *, opening: bool = False) -> Trial:
    """Import a plugin's light module, and call its hooks, in a process that may take `limit` seconds.

    With `opening` everything that it offers is opened too.
    """
    where = plugin.provenance
    about = {"name": plugin.name, "entry": plugin.entry, "module": where.module, "file": where.file}
    about |= {"distribution": where.distribution, "version": where.version}
    request = json.dumps({"path": sys.path, "patience": limit / 2, "plugin": about, "opening": opening})
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
    seen = tuple(found.get("libraries", ())), tuple(found.get("unopened", ()))
    return Trial(plugin, found.get("offers", 0), problem, removal(where) if problem else "", *seen)


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
    faulthandler.dump_traceback_later(request["patience"])  # the process is nacre's own, and so is the timer
    provenance = Provenance(about["distribution"], about["version"], about["file"], False, about["module"])
    plugin = Plugin(about["name"], about["entry"], provenance)
    manager, here = new_manager(), Registry(discover=False)
    before = {name.partition(".")[0] for name in sys.modules}
    if about["file"]:
        problems: list[object] = _load_file(here, plugin)
    else:
        problems = [*load(plugin, manager)]
    found = {name.partition(".")[0] for name in sys.modules} - before - sys.stdlib_module_names
    libraries = [] if about["file"] else sorted(found - _own(plugin))
    told = {"offers": len(plugin.offers), "problems": [str(problem) for problem in problems], "libraries": libraries}
    if request["opening"]:
        told["unopened"] = [reason for offer in plugin.offers if (reason := _unopened(here, offer))]
    with answer:
        json.dump(told, answer)


def _own(plugin: Plugin) -> set[str]:
    """Return the names of packages that are the plugin's own, or no packages of libraries at all."""
    import importlib_metadata

    metadata: Any = importlib_metadata  # its functions take untyped arguments
    distribution, whose = plugin.provenance.distribution, metadata.packages_distributions()
    targets = {offer.target.partition(":")[0].partition(".")[0] for offer in plugin.offers}
    own = {one for one in targets if distribution in map(normalised, whose.get(one, [distribution]))}
    no_files = {name for name, module in list(sys.modules.items()) if not hasattr(module, "__file__")}  # of Cython
    return own | no_files | {plugin.provenance.module.partition(".")[0]}


def _load_file(here: Registry, plugin: Plugin) -> list[object]:
    """Read the offers of a file, which has the code itself and no light module; return what is wrong."""
    try:
        plugin.offers = here.load_file(plugin.provenance.file).offers
    except NacreError as error:
        return [error.args[0]]
    return [*here.problems]


def _unopened(here: Registry, offer: Offer) -> str:
    """Return why an offer cannot be opened, or its fields and its help not be read, or ""."""
    try:
        thing = here.open_offer(offer)
        guarded(lambda: (getattr(thing, "fields", tuple)(), str(thing.__doc__)))
    except NacreError as error:
        return str(error.args[0])
    except ForeignError as failure:
        return f"{offer.kind} '{offer.name}': its fields cannot be read: {described(failure.error)}"
    return ""
