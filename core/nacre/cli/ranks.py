"""Commands of several ranks: how a process finds out that it is one, what it does with errors, and `--workers`."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ..errors import ConfigError, PluginError, RankError
from ..fields.component import need_default_of

if TYPE_CHECKING:
    from ..protocols.communicator import Communicator
    from ..snapshots.folder import SnapshotFolder


def communicators() -> list[type[Communicator]]:
    """Return the classes of all communicators that can be opened."""
    from ..discovery.registry import registry

    opened: list[type[Communicator]] = []
    for offer in registry().offers("communicator"):
        with suppress(PluginError):  # `nacre plugins` names it
            opened.append(registry().open_offer(offer))
    return opened


def found() -> list[type[Communicator]]:
    """Return the communicators of which this process was started as a rank, by the environment."""
    return [one for one in communicators() if one.ranks_here()]


@contextmanager
def connected() -> Generator[Communicator | None]:
    """Yield the communicator of the ranks of which this process is one, or None.

    An error in the block, or at its end, ends all ranks, with its message. All but the first print nothing to stdout.
    """
    started = found()
    if not started:
        yield None
        return
    if len(started) > 1:
        names = " and ".join(one.name for one in started)
        raise RankError(f"this process was started as a rank of {names}", "use one of them alone")
    communicator = started[0].connect()
    given, out = words_of_command(), sys.stdout
    if communicator.rank:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (it stays open)
    if "--json" in given and communicator.prints_errors:
        communicator.on_failure(lambda message: print_error(message, out))
    try:
        yield communicator
        communicator.close()
    except KeyboardInterrupt:
        communicator.abort("it was interrupted, so it has saved nothing more", 130)
    except BaseException as error:
        from .app import described_error

        if "--debug" in given and not isinstance(error, RankError):  # which another one has
            traceback.print_exception(error)
        code, message, remedy = described_error(error)
        communicator.abort(message + (f"\n  {remedy}" if remedy else ""), code)


def refuse_ranks() -> None:
    """Raise ConfigError if this process was started as one of several ranks: each would do all of a command by itself.

    For commands that ranks do not share, and whose results would be printed and written several times.
    """
    if started := found():
        name, ranks = click.get_current_context().command_path, started[0].ranks_here()
        raise ConfigError(
            f"{name} runs as one process, but this one was started as one of {ranks} ranks of {started[0].name}, each "
            "of which would do all of it, and write the same files",
            "start it once, without mpiexec, srun or nacre_parallel; nacre train shares its validations among ranks",
        )


def launch(
    workers: int,
    restarts: int = 0,
    communicator: str = "",
    saved: SnapshotFolder | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Run the command line of this process as so many ranks of a communicator; return the exit code.

    Without a name it is the communicator that a plugin offers as the `default_of` the kind. With `restarts` they begin
    again, at most so many times, when one of them was killed: from the last snapshot that they have `saved`, else just
    as they did before.

    Raises:
        ConfigError: this process is a rank itself, or the communicator cannot start ranks.
    """
    from ..discovery.registry import registry
    from .screen import CALLED, STARTED, warn
    from .streams import stdout_for_children

    if started := found():
        raise ConfigError(
            f"--workers={workers}, but this process is already one of {started[0].ranks_here()} ranks of "
            f"{started[0].name}",
            "leave --workers out",
        )
    chosen: type[Communicator]
    chosen = registry().open("communicator", communicator) if communicator else need_default_of("communicator")
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    arguments = without(words_of_command(), ("--workers", "--restarts", "--communicator"))
    command = [sys.executable, "-P", "-m", "nacre", *arguments]
    how = ["--workers", str(workers), *(["--communicator", communicator] if communicator else [])]
    how += ["--restarts", str(restarts)] if restarts else []
    known = {"PYTHONPATH": path, CALLED: sys.argv[0], STARTED: shlex.join(how)}
    again, before = 0, stamps_of(saved)
    while True:
        with stdout_for_children(), chosen.start(command, workers, env=known) as ranks:
            code = ranks.run()
        if not ranks.message:
            return code
        if not ranks.killed or again == restarts:
            break
        again += 1
        where = "as before, with no snapshot yet"
        if stamps_of(saved) - before:
            where, command = "from the last snapshot", resuming(command)
        why = ranks.message.partition("\n")[0]
        warn(f"the ranks begin again {where} (restart {again} of {restarts}), because {why}")
    if as_json:
        print_error(ranks.message)
    else:
        click.echo(f"error: {ranks.message}", err=True)
    return code


def words_of_command() -> list[str]:
    """Return the command line of this process, behind the name of the program."""
    return click.get_current_context().find_root().obj


def print_error(text: str, out: TextIO | None = None) -> None:
    """Print an error and its remedy as a line of JSON, by default to stdout."""
    from .screen import print_json

    message, _, remedy = text.partition("\n  ")
    with redirect_stdout(out or sys.stdout):
        print_json({"error": message, "remedy": remedy}, lines=True)


def stamps_of(folder: SnapshotFolder | None) -> set[tuple[int, str]]:
    """Return what tells the snapshots in a folder from others of the same names: when each was written."""
    return set() if folder is None else {(path.stat().st_mtime_ns, path.name) for path in folder.files()}


def resuming(command: Sequence[str]) -> list[str]:
    """Return a command line that goes on with the training of another one, which has saved a snapshot."""
    kept = [one for one in without(command, ["--resume"]) if one != "--reset-solver"]
    return [*kept, "--resume", "auto"]


def without(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return a command line without some options, each of which has a value."""
    kept: list[str] = []
    skipped = False
    for one in arguments:
        if skipped or one.partition("=")[0] in options:
            skipped = not skipped and one in options
        else:
            kept.append(one)
    return kept
