"""`nacre check`: whether a plugin can be used: its light module, and everything that it offers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from ..options import common, json_option

if TYPE_CHECKING:
    from ...discovery.isolate import Trial
    from ...discovery.offers import Plugin


@click.command()
@click.argument("names", metavar="[PLUGIN]...", nargs=-1)
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    metavar="SECONDS",
    help="Time for each plugin.",
)
@json_option
@common
def command(names: tuple[str, ...], limit: float, as_json: bool) -> int:
    """Check that plugins can be used, for their authors.

    PLUGIN is a distribution that is installed, or a Python file; by default all distributions but nacre itself. Each is
    tried in a process of its own: its light module must import no library besides nacre, its hooks must work, and
    everything that it offers must open, and be what it is offered as. The exit code is 1 if something is wrong.
    """
    from ...discovery.isolate import tried
    from ..screen import print_json, print_table, working

    plugins = _meant(names)
    with working() as show:
        trials: list[Trial] = []
        for plugin in plugins:
            show(plugin.name)
            trials.append(tried(plugin, limit, opening=True))
    faults = {one.plugin.name: _faults(one) for one in trials}
    if as_json:
        print_json(
            [
                {
                    "plugin": one.plugin.name,
                    "version": one.plugin.provenance.version,
                    "offers": one.offers,
                    "problems": faults[one.plugin.name],
                }
                for one in trials
            ]
        )
    else:
        rows = [
            (one.plugin.name, one.plugin.provenance.version, str(one.offers), str(len(faults[one.plugin.name])))
            for one in trials
        ]
        print_table(("plugin", "version", "offers", "problems"), rows, (2, 3))
        for name, problems in faults.items():
            for problem in problems:
                click.echo(f"\n{name}: {problem}")
    return 1 if any(faults.values()) else 0


def _meant(names: tuple[str, ...]) -> list[Plugin]:
    """Return the plugins of these names and files, or all of others than nacre that are not disabled.

    Raises:
        RegistryError: a name is not that of a plugin.
    """
    from pathlib import Path

    from ...discovery.discovery import find_plugins, switch_off
    from ...discovery.offers import FIRST_PARTY, Plugin, Provenance, normalised
    from ...errors import RegistryError, nearest

    installed, _ = find_plugins(None)
    if not names:
        switch_off(installed, os.environ)
        return [one for one in installed if one.status == "active" and one.provenance.distribution != FIRST_PARTY]
    known = sorted({one.provenance.distribution for one in installed})
    found: list[Plugin] = []
    for name in names:
        if name.endswith(".py"):
            file = Path(name).resolve()
            called = normalised(file.stem)
            found.append(Plugin(called, called, Provenance(called, "", str(file), True, file.stem)))
        elif normalised(name) in known:
            found += [one for one in installed if one.provenance.distribution == normalised(name)]
        else:
            message = f"no plugin '{name}' is installed{nearest(normalised(name), known)}"
            raise RegistryError(message, f"installed: {', '.join(known)}; the name of a file ends in .py")
    return found


def _faults(trial: Trial) -> list[str]:
    """Return what is wrong with a plugin, in sentences."""
    faults = [trial.problem] if trial.problem else []
    if trial.libraries:
        names = ", ".join(trial.libraries)
        faults.append(
            f"its light module imports {names}: every command of nacre would, so import it where it is needed, in the "
            "modules that are offered"
        )
    if not (faults or trial.offers):
        faults.append("it offers nothing")
    return [*faults, *trial.unopened]
