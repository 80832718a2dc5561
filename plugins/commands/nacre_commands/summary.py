"""`nacre summary`: a net's layers, shapes, parameters, kernels and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli import net_argument, net_options, phase_option, read_net

if TYPE_CHECKING:
    from nacre import Phase


@click.command()
@net_argument
@phase_option
@click.option(
    "--depth",
    type=click.IntRange(1),
    help="Show containers as one layer from so deep on: with 1 all of them. By default every layer is shown.",
)
@net_options
def command(
    net: Path,
    phase: Phase,
    depth: int | None,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show a net's layers, shapes, parameters and bytes.

    Nothing is computed, and the net gets no memory, so it may be of any size.
    """
    from nacre.cli import fed, print_json, print_table

    file = fed(read_net(net, sets, seed, to_train=False), phase)
    with file.net(phase, backend=backend, allocate=False, fallback="warn") as made:
        summary = made.summary() if depth is None else made.summary().at_depth(depth)
    if as_json:
        print_json(summary.describe())
        return
    click.echo(f"{summary.head()}\n")
    print_table(*summary.table())
    click.echo("\n" + "\n".join(summary.totals()))
