"""The command `nacre`: finds its subcommands, including those of plugins; prints errors and returns exit codes.

Exit codes: 0 done; 1 a bug, in nacre or in a plugin; 2 bad input; 129, 130 and 143 stopped by
SIGHUP, SIGINT and SIGTERM.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from .._version import __version__
from ..discovery.discovery import EDITABLE, LOCK, LOCKED
from ..discovery.guard import described
from ..discovery.offers import FIRST_PARTY, Provenance
from ..errors import NacreError, RegistryError, nearest
from .options import debug_option, lock_options, plugin_option, with_common
from .streams import drop, print_every_letter, stdout_is_named

COMMANDS = ("train", "test", "predict", "explain", "layers", "backends", "plugins", "check", "doctor")
"""The core's own commands; all others are offered by plugins, some of them by nacre's own."""


class Nacre(click.Group):
    """A group that imports a command only when it is used, and prints every error in the same form."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_offered()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            return importlib.import_module(f".commands.{cmd_name}", __package__).command
        from ..discovery.registry import registry

        if not registry().offers("command", cmd_name):
            message = f"there is no command '{cmd_name}'{nearest(cmd_name, self.list_commands(ctx))}"
            remedy = registry().how_to_get("command", cmd_name) or "`nacre --help` lists the commands"
            raise RegistryError(message, registry().absent(remedy))
        opened = registry().open("command", cmd_name)
        return with_common(opened if isinstance(opened, click.Command) else click.Command(cmd_name, callback=opened))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        offered = _offered()
        own = [*COMMANDS, *(name for name, whose in offered.items() if whose.distribution == FIRST_PARTY)]
        others = [(name, f"from {whose}") for name, whose in offered.items() if name not in own]
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._own_help(ctx, name)) for name in own])
        if others:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(others)

    def _own_help(self, ctx: click.Context, name: str) -> str:
        try:
            command = self.get_command(ctx, name)
        except NacreError:
            return f"cannot be used: `nacre {name}` shows the reason."
        return command.get_short_help_str(limit=88) if command else ""

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run with these arguments, or by default the process's own, and exit."""
        print_every_letter()
        given = list(sys.argv[1:] if args is None else args)
        extra |= {"prog_name": "nacre", "standalone_mode": False, "obj": given}
        if "--locked" in given:  # before a command is looked for; processes that this one starts are locked too
            os.environ[LOCKED] = str(Path(LOCK).absolute())
        if "--allow-editable" in given:
            os.environ[EDITABLE] = "1"
        try:
            with stdout_is_named():
                result = super().main(given, **extra)
                sys.stdout.flush()
        except click.exceptions.Abort:
            sys.exit(130)
        except BrokenPipeError:  # `nacre layers | head`: the reader has ended, which is not an error
            drop(sys.stdout)
            sys.exit(1)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a plugin may raise anything
            code = _print_error(error, as_json="--json" in given, debug="--debug" in given)
            drop(sys.stdout)
            sys.exit(code)
        sys.exit(result if isinstance(result, int) else 0)


def _offered() -> dict[str, Provenance]:
    """Return the commands of plugins and their origins; if nacre has the name too, it is `distribution:name`."""
    from ..discovery.registry import registry

    here = registry()
    found = {
        offer.qualified if offer.name in COMMANDS else here.name_of(offer): offer.provenance
        for offer in here.offers("command")
    }
    return dict(sorted(found.items()))


def _commands_with(option: str) -> list[str]:
    """Return the core's commands that have an option."""
    commands = {name: importlib.import_module(f".commands.{name}", __package__).command for name in COMMANDS}
    return [f"nacre {name}" for name, command in commands.items() if any(option in one.opts for one in command.params)]


def _key_of(option: str, command: click.Command) -> str:
    """Return the key of the net file that is set by a command's `--set`, and meant by an option that there is not."""
    from ..training.solver import Solver

    if not any("--set" in one.opts for one in command.params):
        return ""
    name, fields = option.lstrip("-").replace("-", "_"), {field.name for field in Solver.fields()}
    meant = next((one for one in (name, f"max_{name}", Solver.elsewhere.get(name, "")) if one in fields), "")
    return f"solver.{meant}" if meant else ""


def described_error(error: BaseException) -> tuple[int, str, str]:
    """Return the exit code for an error, its message and its remedy."""
    import traceback

    from ..discovery.blame import blamed
    from ..files.durable import FULL, PERMISSIONS

    code, remedy = 2, ""
    error = error if isinstance(error, click.ClickException | OSError) else blamed(error) or error
    if isinstance(error, NacreError):
        code, message, remedy = 1 if error.blamed else 2, str(error.args[0]), error.remedy
    elif isinstance(error, click.ClickException):
        message = error.format_message()
        context = getattr(error, "ctx", None)
        if context is not None:
            if isinstance(error, click.NoSuchOption) and (others := _commands_with(error.option_name)):
                remedy = f"{error.option_name} is an option of {', '.join(others)}; "
            elif isinstance(error, click.NoSuchOption) and (key := _key_of(error.option_name, context.command)):
                remedy = f"write --set {key}=...; "
            remedy += f"{context.command_path} --help shows the options and arguments"
    elif isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        message = f"{where}{error.strerror}"
        remedy = "free some space, or use another place" if error.errno in FULL else ""
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            remedy = PERMISSIONS
    elif isinstance(error, MemoryError):
        message, remedy = "there is not enough memory", "use smaller batches, or make the largest layer smaller"
    else:
        code, remedy = 1, "run it again with --debug to see the traceback, and report that to the authors of nacre"
        frames = traceback.extract_tb(error.__traceback__)
        where = f" [{frames[-1].filename}:{frames[-1].lineno}]" if frames else ""
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        message = f"a bug in nacre {__version__}: {described(error)}{notes}{where}"
    return code, message, remedy


def _print_error(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Print an error and its remedy, with `as_json` as one line of JSON; return the exit code."""
    import traceback

    if debug:
        traceback.print_exception(error)
    code, message, remedy = described_error(error)
    if as_json:
        from .screen import print_json

        with suppress(OSError):  # for a full disk, the message below is printed
            print_json({"error": message, "remedy": remedy}, lines=True)
            return code
    from ..text import plain

    text = f"error: {message}" + (f"\n  {remedy}" if remedy else "")
    with suppress(OSError):  # with a closed terminal, the exit code alone shows the error
        click.echo(plain(text, lines=True), err=True)
    return code


@click.command(cls=Nacre, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(__version__, prog_name="nacre", message="%(prog)s %(version)s")
@plugin_option
@lock_options
@debug_option
@click.pass_context
def nacre(ctx: click.Context) -> None:
    """Train, test and inspect neural nets, whose layers may come from plugins."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
