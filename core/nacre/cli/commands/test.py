"""`nacre test`: one pass over data that the net was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import net_argument, net_options, snapshot_argument, write_options

if TYPE_CHECKING:
    from ...config.netfile import NetFile
    from ...protocols.layer import Layer, Phase
    from ...snapshots.snapshot import Snapshot


@click.command()
@net_argument
@snapshot_argument
@click.option(
    "--phase", type=click.Choice(["test", "validation"]), default="test", show_default=True, help="Phase of the net."
)
@click.option(
    "--data",
    "data",
    multiple=True,
    metavar="FILE",
    help="Test with the records of this file, not with those of the net file; a saved net has none of its own. May be "
    "repeated.",
)
@click.option(
    "--worst",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Number of the worst mistakes to show: records that are taken for another class.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for a picture of the confusion matrix, such as confusion.svg or confusion.png.",
)
@write_options
@net_options
def command(
    net: Path,
    snapshot: Path,
    phase: Phase,
    data: tuple[str, ...],
    worst: int,
    plot: Path | None,
    writes: dict[str, tuple[str, ...]],
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a trained net over all its test data once.

    SNAPSHOT is a file, also a saved net (.nacre), a folder for its newest one, or `best` or `latest` of the net file's
    own folder.
    """
    from ...errors import ConfigError
    from ...net.evaluate import reading_from
    from ...protocols.layer import overall
    from ...text import counted
    from ..by_class import by_class
    from ..pictures import draw_pairs, drawing_for
    from ..ranks import refuse_ranks
    from ..screen import loss_text, print_json, statistic_text
    from ..snapshots import read_trained

    refuse_ranks()
    file, saved = read_trained(net, sets, seed, snapshot, writes)
    if data:
        file = replace(file, layers=tuple(reading_from(file, phase, data)))
    elif file.saved is not None:
        raise ConfigError(f"{net}: a saved net has no data to be tested with", "give it: --data FILE")
    drawing = None if plot is None else drawing_for(plot, file.pins)
    tested, layers = _run(file, saved, phase, backend, worst)
    tables = by_class(layers, tested["statistics"], tested["classes"])
    if plot is not None and drawing is not None:
        draw_pairs(plot, drawing, f"{file.name}, {phase}", tables)
    if as_json:
        print_json(tested)
        return
    loss = loss_text(tested["loss"], tested["statistics"], digits=6)
    click.echo(f"{phase}, after {counted(saved.iteration, 'iteration')}: {loss}")
    for name, values in overall(layers, tested["statistics"]).items():
        click.echo(f"  {statistic_text(name, values, tested['units'].get(name, {}))}")
    for table in tables:
        table.show()
    if tested["mistakes"]:
        _print_mistakes(tested["mistakes"])
    if plot is not None:
        click.echo(f"\nwrote {plot}")


def run_test(file: NetFile, saved: Snapshot, phase: Phase, backend: str | None, worst: int = 0) -> dict[str, Any]:
    """Run a snapshot's net over the data of a phase once; return loss and statistics, and the units of these.

    `classes` has the names of the classes that each layer's statistics are of, if they are known, and `mistakes` the
    worst ones, at most `worst`.

    Raises:
        SnapshotError: the snapshot belongs to another net.
        DataError: the net has no source in this phase.
    """
    return _run(file, saved, phase, backend, worst)[0]


def _run(
    file: NetFile, saved: Snapshot, phase: Phase, backend: str | None, worst: int
) -> tuple[dict[str, Any], dict[str, Layer]]:
    """Return what `run_test` does, and the layers of the phase by their names."""
    from ...protocols.layer import bottoms_of
    from ..mistakes import Mistakes, compared
    from ..screen import units_of, warn

    blobs = compared(file, phase) if worst else None
    keep = {"keep": blobs} if blobs else {}
    with file.net(phase, backend=backend, initialise=False, **keep) as made:
        made.parameters.load(saved, strict=False)
        mistakes = Mistakes(made, *blobs, worst) if blobs else None
        loss = made.forward_epoch(warn, mistakes and mistakes.look)
        statistics = made.statistics()
        layers, known = made.layers_in(phase), made.classes
        names = {
            name: next((list(known[blob]) for blob in bottoms_of(layers[name]) if blob in known), list[str]())
            for name in statistics
        }
        labels = known.get(blobs[1], ()) if blobs else ()
        tested = {
            "phase": phase,
            "iterations": saved.iteration,
            "loss": loss,
            "statistics": statistics,
            "units": units_of(layers, statistics),
            "classes": {name: classes for name, classes in names.items() if classes},
            "mistakes": [one.as_dict(labels) for one in mistakes.named()] if mistakes else [],
        }
        return tested, layers


def _print_mistakes(mistakes: Sequence[Mapping[str, Any]]) -> None:
    from ..screen import print_table

    def name(mistake: Mapping[str, Any], what: str) -> str:
        return str(mistake[what] if mistake[f"{what}_name"] is None else mistake[f"{what}_name"])

    rows = [
        (
            one["key"],
            name(one, "label"),
            name(one, "prediction"),
            f"{100 * one['probability']:.1f} %",
            f"{one['loss']:.3g}",
        )
        for one in mistakes
    ]
    click.echo()
    print_table(("worst mistakes", "class", "taken for", "probability", "loss"), rows, right=(3, 4))
