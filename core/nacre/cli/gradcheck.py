"""`nacre gradcheck`: are a net's gradients right?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import net_argument, net_options, read_net

if TYPE_CHECKING:
    from ..net import Net

EPSILONS = (1e-5, 1e-6, 3e-7)  # the smaller, the fewer kinks and the fewer digits
STEP = 0.05  # standard deviation of what is added to every parameter


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

    Kernels that compute in float32 only decline, so this checks the layers' own code, not those. The parameters are
    moved a little at random first, since a ReLU has no slope at 0, where zero biases put it; what looks wrong is looked
    at again more closely, on the next batches, for the same reason. The exit code is 1 if a gradient is wrong.
    """
    from ..testing import check_net_gradients
    from .screen import print_json, print_table

    file = read_net(net, sets, seed)
    fresh = dataclasses.replace(file, layers=tuple(dataclasses.replace(layer) for layer in file.layers))
    with fresh.net("train", backend=backend, dtype="float64") as made:
        _move(made)
        errors: dict[str, float] = {}
        wrong: list[str] = []
        for epsilon in EPSILONS:
            found = check_net_gradients(made, entries=entries, epsilon=epsilon)
            errors |= {name: error for name, error in found if name in wrong or name not in errors}
            wrong = [name for name, error in errors.items() if not error <= tolerance]
            if not wrong:
                break
    if as_json:
        print_json({"parameters": errors, "tolerance": tolerance, "right": not wrong})
    else:
        rows = [(name, f"{error:.2e}", "wrong" if name in wrong else "right") for name, error in errors.items()]
        print_table(("parameter", "relative error", "gradient"), rows, right=(1,))
        click.echo(f"\n{len(wrong)} of {len(errors)} gradients are wrong" if wrong else "\nall gradients are right")
    return 1 if wrong else 0


def _move(net: Net) -> None:
    """Add a little noise to every parameter."""
    import numpy as np

    random = np.random.default_rng(net.seed)
    for handle in net.parameters.values():
        if handle.parameter.trainable:
            handle.value = handle.value + STEP * random.standard_normal(handle.shape)
