"""`nacre gradcheck`: are a net's gradients right?"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from .options import net_argument, net_options, read_net


@click.command()
@net_argument
@click.option("--entries", type=click.IntRange(1), default=200, show_default=True, help="Numbers of each parameter.")
@click.option("--tolerance", type=float, default=1e-4, show_default=True, help="Largest relative error that is right.")
@net_options
def command(
    net: Path,
    entries: int,
    tolerance: float,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> int:
    """Compare a net's gradients with numerical ones, in float64.

    Kernels that compute in float32 only decline, so this checks the layers' own code, not those. The exit code is 1 if
    a gradient is wrong. An error of a single parameter may come from a kink: a ReLU at 0, two equal numbers in a
    maximum. Another --seed moves those.
    """
    from ..testing import check_net_gradients
    from .screen import print_json, print_table

    file = read_net(net, sets, seed)
    fresh = dataclasses.replace(file, layers=tuple(dataclasses.replace(layer) for layer in file.layers))
    with fresh.net("train", backend=backend, dtype="float64") as made:
        errors = check_net_gradients(made, entries=entries)
    wrong = [name for name, error in errors if not error <= tolerance]
    if as_json:
        print_json({"parameters": dict(errors), "tolerance": tolerance, "right": not wrong})
    else:
        rows = [(name, f"{error:.2e}", "wrong" if name in wrong else "right") for name, error in errors]
        print_table(("parameter", "relative error", "gradient"), rows, right=(1,))
        click.echo(f"\n{len(wrong)} of {len(errors)} gradients are wrong" if wrong else "\nall gradients are right")
    return 1 if wrong else 0
