"""`nacre check`: whether a plugin can be used: its light module, and everything that it offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..options import common, json_option

if TYPE_CHECKING:
    from ...discovery.isolate import Trial


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
    from ...discovery.checked import faults_of, plugins_of
    from ...discovery.isolate import tried
    from ..screen import print_json, print_table, working

    plugins = plugins_of(names)
    with working() as show:
        trials: list[Trial] = []
        for plugin in plugins:
            show(plugin.name)
            trials.append(tried(plugin, limit, opening=True))
    faults = {one.plugin.name: faults_of(one) for one in trials}
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
