"""`nacre gradcheck`: compares a net's gradients with numerical ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli import net_argument, net_options, read_net

if TYPE_CHECKING:
    from nacre import Net


EPSILONS = (1e-5, 1e-6, 3e-7)  # the smaller, the fewer kinks and the fewer digits
STEP = 0.05  # standard deviation of the noise that is added to every parameter


def _not_negative(_: click.Context, __: click.Parameter, value: float) -> float:
    if not value >= 0:
        raise click.BadParameter(f"{value} must be 0 or more, such as 1e-4")
    return value


@click.command()
@net_argument
@click.option(
    "--entries", type=click.IntRange(1), default=40, show_default=True, help="Numbers to check in each parameter."
)
@click.option(
    "--tolerance",
    type=float,
    default=1e-4,
    show_default=True,
    callback=_not_negative,
    help="Largest relative error of a correct gradient.",
)
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

    Kernels that compute only in float32 are not used, so this checks the layers' own code. Before the check a little
    random noise is added to the parameters: with zero biases a ReLU would be at 0, where it has no gradient. For the
    same reason gradients that look wrong are checked again with smaller steps, on the next batches. In a large
    parameter some numbers are checked, chosen at random (--entries). The exit code is 1 if a gradient is wrong.
    """
    import numpy as np

    from nacre import fresh
    from nacre.cli import print_json, print_table, working
    from nacre.testing import check_net_gradients

    file = read_net(net, sets, seed).without_outputs()
    copied = dataclasses.replace(file, layers=tuple(fresh(layer) for layer in file.layers))
    with copied.net("train", backend=backend, dtype="float64", compute=None) as made:
        _move(made)
        errors: dict[str, float] = {}
        wrong: list[str] = []
        with working() as begun:
            for epsilon in EPSILONS:
                found = check_net_gradients(made, entries=entries, epsilon=epsilon, begun=begun)
                errors |= {name: error for name, error in found if name in wrong or name not in errors}
                wrong = [name for name, error in errors.items() if not error <= tolerance]
                if not wrong:
                    break
        idle = [name for name in errors if name not in wrong and not np.any(made.parameters[name].gradient)]
    if as_json:
        print_json({"parameters": errors, "zero": idle, "tolerance": tolerance, "right": not wrong})
    else:
        results = dict.fromkeys(wrong, "wrong") | dict.fromkeys(
            idle, "nothing checked: the gradient is zero everywhere"
        )
        rows = [(name, f"{error:.2e}", results.get(name, "right")) for name, error in errors.items()]
        print_table(("parameter", "relative error", "gradient"), rows, right=(1,))
        every = "all other gradients" if idle else "all gradients"
        end = f"{len(wrong)} of {len(errors)} gradients are wrong" if wrong else f"{every} are right"
        click.echo("\nnothing was checked" if len(idle) == len(errors) else f"\n{end}")
    return 1 if wrong else 0


def _move(net: Net) -> None:
    """Add a little noise to every parameter."""
    import numpy as np

    random = np.random.default_rng(net.seed)
    for handle in net.parameters.values():
        if handle.parameter.trainable:
            handle.value = handle.value + STEP * random.standard_normal(handle.shape)
