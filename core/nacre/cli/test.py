"""`nacre test`: one pass over data that the net was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import net_argument, net_options, read_net

if TYPE_CHECKING:
    from ..config import NetFile
    from ..net import Net
    from ..snapshot import Snapshot


@click.command()
@net_argument
@click.argument("snapshot", type=click.Path(path_type=Path))
@click.option(
    "--phase", type=click.Choice(["test", "validation"]), default="test", show_default=True, help="Phase of the net."
)
@net_options
def command(
    net: Path,
    snapshot: Path,
    phase: str,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a trained net over all its test data once.

    SNAPSHOT is a file, or a folder, of which the newest is taken.
    """
    from .screen import print_json, statistic_text
    from .training import load_snapshot

    file = read_net(net, sets, seed)
    saved = load_snapshot(snapshot)
    tested = run_test(file, saved, phase, backend)
    if as_json:
        print_json(tested)
        return
    click.echo(f"{phase}, after {saved.iteration} iterations: loss {tested['loss']:.6g}")
    for name, values in tested["statistics"].items():
        click.echo(f"  {statistic_text(name, values)}")


def run_test(file: NetFile, saved: Snapshot, phase: str, backend: str | None) -> dict[str, Any]:
    """Run a snapshot's net over the data of a phase once; give loss and statistics.

    Raises:
        SnapshotError: the snapshot belongs to another net.
        DataError: the net has no source in this phase.
    """
    with file.net(phase, backend=backend) as made:
        load_present(file, made, saved)
        loss = made.forward_epoch()
        return {"phase": phase, "iterations": saved.iteration, "loss": loss, "statistics": made.statistics()}


def load_present(file: NetFile, net: Net, saved: Snapshot) -> None:
    """Put a snapshot's parameters into a net; those of layers that the net file has, but not this net, are passed over.

    Raises:
        SnapshotError: the snapshot belongs to another net.
    """
    from ..resume import load_parameters
    from ..snapshot import Snapshot

    absent = {layer.name for layer in file.layers} - set(net.node_ops)
    kept = {
        name: array
        for name, array in saved.arrays.items()
        if not (name.startswith("parameters/") and name.split("/")[1] in absent)
    }
    load_parameters(net, Snapshot(saved.iteration, kept, saved.state))
