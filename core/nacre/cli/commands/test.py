"""`nacre test`: one pass over data that the net was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import net_argument, net_options, write_options

if TYPE_CHECKING:
    from ...config.netfile import NetFile
    from ...protocols.layer import Phase
    from ...snapshots.snapshot import Snapshot


@click.command()
@net_argument
@click.argument("snapshot", type=click.Path(path_type=Path))
@click.option(
    "--phase", type=click.Choice(["test", "validation"]), default="test", show_default=True, help="Phase of the net."
)
@write_options
@net_options
def command(
    net: Path,
    snapshot: Path,
    phase: Phase,
    writes: dict[str, tuple[str, ...]],
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a trained net over all its test data once.

    SNAPSHOT is a file, or a folder, which means its newest snapshot.
    """
    from ..screen import loss_text, print_json, statistic_text
    from ..snapshots import read_trained

    file, saved = read_trained(net, sets, seed, snapshot, writes)
    tested = run_test(file, saved, phase, backend)
    if as_json:
        print_json(tested)
        return
    loss = loss_text(tested["loss"], tested["statistics"], digits=6)
    click.echo(f"{phase}, after {saved.iteration} iterations: {loss}")
    for name, values in tested["statistics"].items():
        click.echo(f"  {statistic_text(name, values, tested['units'].get(name, {}))}")


def run_test(file: NetFile, saved: Snapshot, phase: Phase, backend: str | None) -> dict[str, Any]:
    """Run a snapshot's net over the data of a phase once; return loss and statistics, and the units of these.

    Raises:
        SnapshotError: the snapshot belongs to another net.
        DataError: the net has no source in this phase.
    """
    from ..screen import units_of, warn

    with file.net(phase, backend=backend, initialise=False) as made:
        made.parameters.load(saved, strict=False)
        loss = made.forward_epoch(warn)
        statistics = made.statistics()
        units = units_of(made.layers_in(phase), statistics)
        return {
            "phase": phase,
            "iterations": saved.iteration,
            "loss": loss,
            "statistics": statistics,
            "units": units,
        }
