"""Printing for commands: tables, JSON and numbers; with colour on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import as_named

if TYPE_CHECKING:
    from ..protocols.layer import Layer


CALLED = "NACRE_CALLED"
"""The variable in which a process that was started as a rank finds how the program was called that started it."""


STARTED = "NACRE_STARTED"
"""The variable of the environment with the options that have started this process as a rank; `how_started` reads it."""


def how_started() -> list[str]:
    """Return the options by which `nacre train` has started this process as one of several ranks, if it has."""
    import shlex

    return shlex.split(os.environ.get(STARTED, ""))


def command_line(*words: str) -> str:
    """Return a command line for nacre that works in this shell: with the program's path if its name is not enough."""
    import shlex

    return " ".join([_program(), shlex.join(words)])


def _program() -> str:
    """Return how nacre is called, quoted for the shell."""
    import shlex
    import shutil

    called, found = Path(os.environ.get(CALLED) or sys.argv[0]), shutil.which("nacre")
    if called == Path(__file__).parents[1] / "__main__.py" and not found:  # python -m nacre
        return f"{shlex.quote(sys.executable)} -m nacre"
    if called.stem.lower() != "nacre":  # nacre was called from Python
        return "nacre"
    if found and Path(found).resolve().with_suffix("") == called.resolve().with_suffix(""):
        return "nacre"
    called, folder = called.absolute(), Path.cwd()
    if called.parent == folder:
        return shlex.quote(f".{os.sep}{called.name}")
    return shlex.quote(str(called.relative_to(folder) if called.is_relative_to(folder) else called))


def print_json(data: Any, *, lines: bool = False) -> None:
    """Print data as JSON, on one line if `lines`; numbers that are not finite become null, because JSON has none.

    Letters are escaped where stdout has not all of them, and so are halves of characters, which no encoding has.
    """
    from ..files.json import json_text

    has_all = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    click.echo(json_text(data, letters=has_all, indent=None if lines else 2))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print a table; the columns with their indices in `right` are aligned to the right.

    Long cells are wrapped, so that it is not wider than the terminal, or than 80 columns where there is none.
    """
    from ..text import align, screen_width

    for line in align(head, rows, right, screen_width()):
        click.echo(line)


@contextmanager
def working() -> Generator[Callable[[str], object]]:
    """Yield a function that shows the present work in a temporary line; it does so only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda what: status.update(Text(what))


def warn(message: str) -> None:
    """Print a warning: a problem that does not stop the work."""
    from ..text import plain

    click.echo(plain(f"warning: {as_named(message)}", lines=True), err=True)


def show_warnings() -> None:
    """Let the warnings of all code of this process be printed as those of commands are, without a line of code."""
    import warnings

    plainly = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        warn(str(message)) if category is UserWarning else plainly(message, category, *where, **more)

    warnings.showwarning = show


def loss_text(loss: float, statistics: Mapping[str, Mapping[str, float]], digits: int = 4) -> str:
    """Return the loss of a net as text; if several layers report theirs too, it is called total loss."""
    several = sum("loss" in values for values in statistics.values()) > 1
    return f"{'total loss' if several else 'loss'} {loss:.{digits}g}"


def units_of(layers: Mapping[str, Layer], statistics: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, str]]:
    """Return the units of statistics that have one: {layer: {statistic: unit}}."""
    from ..protocols.layer import about_statistic

    found = {
        name: {key: unit for key in values if name in layers and (unit := about_statistic(layers[name], key)[1])}
        for name, values in statistics.items()
    }
    return {name: units for name, units in found.items() if units}


def statistic_text(name: str, statistics: Mapping[str, float], units: Mapping[str, str]) -> str:
    """Return a layer's statistics, which may have units, as text: `accuracy: 98.61 % (355 of 360)`."""
    parts: list[str] = []
    records = statistics.get("records")
    for key, value in statistics.items():
        if key == "records":
            continue
        number = number_text(value, units.get(key, ""))
        count = f" ({round(value * records)} of {records:.0f})" if key in ("accuracy", "error") and records else ""
        parts.append(f"{'' if key == name != 'loss' else f'{key} '}{number}{count}")
    return f"{name}: {', '.join(parts)}" if parts else name


def number_text(value: float, unit: str) -> str:
    """Return a number with its unit; of shares as percents."""
    return f"{100 * value:.2f} %" if unit == "%" else f"{value:.6g} {unit}".rstrip()


def seconds_text(seconds: float) -> str:
    """Return a time as text: `2 min 05 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
