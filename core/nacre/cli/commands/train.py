"""`nacre train`: trains a net as its file says."""

from __future__ import annotations

from pathlib import Path

import click

from ..options import net_argument, net_options, read_net, write_options


@click.command()
@net_argument
@click.option(
    "--resume",
    default="",
    metavar="auto|PATH",
    help="Go on from a snapshot: a file, the newest of a folder, or `auto` for the net file's own folder.",
)
@click.option(
    "--reset-solver",
    is_flag=True,
    help="With --resume: let the solver and its policies begin anew, so that they may be others than the snapshot's.",
)
@click.option(
    "--weights",
    default=None,
    metavar="FILE,...",
    help="Begin with the parameters of these snapshots, as far as names and shapes fit; a table says which did.",
)
@click.option(
    "--rename",
    multiple=True,
    metavar="THERE=HERE",
    help="What a layer or a parameter of --weights is called in this net; nothing behind the = passes it over.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append one JSON line for each report: start, summary, validation, snapshot, warning, end.",
)
@write_options
@net_options
def command(
    net: Path,
    resume: str,
    reset_solver: bool,
    weights: str | None,
    rename: tuple[str, ...],
    log: Path | None,
    writes: dict[str, tuple[str, ...]],
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> int:
    """Train a net as its file says, and save snapshots.

    Ctrl-C finishes the iteration and saves it; `--resume auto` then goes on as if nothing had happened. With --json the
    last line is {iterations, seconds, images_per_second, loss, statistics, snapshot}.
    """
    from ...errors import ConfigError
    from ..screen import print_json
    from ..snapshots import advised
    from ..training import Weights, exit_code, print_end, result, train

    if reset_solver and not resume:
        raise ConfigError("--reset-solver is for a training that is taken up, which needs --resume")
    if weights is not None and resume not in ("", "auto"):
        told = "--weights is for a training that begins anew, but --resume goes on from a snapshot"
        raise ConfigError(
            told, "leave out one of them; --resume auto begins with the weights where there is no snapshot"
        )
    with advised(net, sets, resume):
        file = read_net(net, sets, seed, writes)
    training = train(file, backend, resume, log, Weights.of(weights, rename), reset_solver=reset_solver, quiet=as_json)
    if as_json:
        print_json(result(training), lines=True)
    else:
        print_end(file, training, backend, seed, sets, writes)
    return exit_code(training)
