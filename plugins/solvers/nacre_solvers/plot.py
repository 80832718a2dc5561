"""`nacre plot`: the learning curves of several trainings in one picture."""

from __future__ import annotations

from pathlib import Path

import click

from nacre.cli import common, json_option

PANELS = 3  # statistics that are drawn by default


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="curves.svg",
    show_default=True,
    help="The picture: .svg or .png.",
)
@click.option(
    "--statistic",
    "wanted",
    multiple=True,
    metavar="LAYER/NAME",
    help="Draw this statistic beside the losses; may be repeated. By default the first ones.",
)
@json_option
@common
def command(runs: tuple[Path, ...], out: Path, wanted: tuple[str, ...], as_json: bool) -> None:
    """Lay the learning curves of trainings over each other.

    RUN is a log that `nacre train --log` wrote, a folder of snapshots or one of them, the file of a StatisticsStore, or
    the table that a LearningCurve writes without matplotlib. With --json the points are printed, and nothing is drawn.
    """
    from nacre import Curve, DataError, nearest
    from nacre.cli import drawing_for, print_json, write_picture

    from .runs import curve_of, read_run

    found = {run: read_run(run) for run in dict.fromkeys(runs)}
    names = list(dict.fromkeys(what for points in found.values() for _, what in points if what != "loss"))
    if unknown := [name for name in wanted if name not in names]:
        told = f"known are: {', '.join(names) or 'none'}"
        raise DataError(f"no training has the statistic '{unknown[0]}'{nearest(unknown[0], names)}", told)
    panels: dict[str, dict[str, Curve]] = {}
    for what in ["loss", *(wanted or names[:PANELS])]:
        curves = {
            f"{run} {phase}": curve_of(points)
            for run, every in found.items()
            for (phase, name), points in every.items()
            if name == what
        }
        if curves:
            layer, _, name = what.partition("/")
            panels[layer if name == layer else what] = curves
    if as_json:
        print_json(
            {
                panel: {name: dict(zip(*curve, strict=True)) for name, curve in curves.items()}
                for panel, curves in panels.items()
            }
        )
        return
    title = " and ".join(str(run) for run in found) if len(found) < 3 else f"{len(found)} trainings"
    write_picture(out, drawing_for(out, {}).draw_curves(title, panels))
    click.echo(f"wrote {out}: {', '.join(panels)}")
