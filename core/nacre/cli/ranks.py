"""Commands of several ranks: how a process finds out that it is one, what it does with errors, and `--workers`."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError, PluginError, RankError
from ..fields.component import need_default_of

if TYPE_CHECKING:
    from ..protocols.communicator import Communicator

RESUME = ["--resume", "auto"]


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

    An error in the block ends all ranks, with its message. All but the first print nothing to stdout.
    """
    started = found()
    if not started:
        yield None
        return
    if len(started) > 1:
        names = " and ".join(one.name for one in started)
        raise RankError(f"this process was started as a rank of {names}", "use one of them alone")
    communicator = started[0].connect()
    if communicator.rank:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (it stays open)
    try:
        yield communicator
    except BaseException as error:
        from .app import described_error

        if isinstance(error, KeyboardInterrupt):
            communicator.abort("it was stopped by a second signal", 130)
        code, message, remedy = described_error(error)
        communicator.abort(message + (f"\n  {remedy}" if remedy else ""), code)
    communicator.close()


def launch(workers: int, restarts: int = 0, communicator: str = "", *, as_json: bool = False) -> int:
    """Run the command line of this process as so many ranks of a communicator; return the exit code.

    Without a name it is the communicator that a plugin offers as the `default_of` the kind. With `restarts` they begin
    again from the last snapshot, at most so many times, when one of them was killed.

    Raises:
        ConfigError: this process is a rank itself, or the communicator cannot start ranks.
    """
    from ..discovery.registry import registry
    from .screen import CALLED, print_json, warn

    if started := found():
        raise ConfigError(
            f"--workers={workers}, but this process is already one of {started[0].ranks_here()} ranks of "
            f"{started[0].name}",
            "leave --workers out",
        )
    chosen: type[Communicator]
    chosen = registry().open("communicator", communicator) if communicator else need_default_of("communicator")
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    arguments = without(click.get_current_context().find_root().obj, ("--workers", "--restarts", "--communicator"))
    command = [sys.executable, "-P", "-m", "nacre", *arguments]
    again = 0
    while True:
        with chosen.start(command, workers, env={"PYTHONPATH": path, CALLED: sys.argv[0]}) as ranks:
            code = ranks.run()
        if not ranks.message:
            return code
        if not ranks.killed or again == restarts:
            break
        again += 1
        why = ranks.message.partition("\n")[0]
        warn(f"the ranks begin again from the last snapshot (restart {again} of {restarts}), because {why}")
        command = [*command, *(RESUME if again == 1 else ())]
    message, _, remedy = ranks.message.partition("\n  ")
    if as_json:
        print_json({"error": message, "remedy": remedy}, lines=True)
    else:
        click.echo(f"error: {ranks.message}", err=True)
    return code


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
