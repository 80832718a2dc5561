"""`nacre train`: trains the net of a net file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..completion import offered, snapshots
from ..options import net_argument, net_options, read_net, write_options


@click.command()
@net_argument
@click.option(
    "--resume",
    default="",
    metavar="auto|PATH",
    shell_complete=snapshots,
    help="Continue from a snapshot: a file, the newest of a folder, or `latest` or `best` of the net file's folder; "
    "`auto` is the latest, or begins if there is none.",
)
@click.option(
    "--reset-solver",
    is_flag=True,
    help="With --resume: begin with a new solver, which may differ from the snapshot's.",
)
@click.option(
    "--weights",
    default=None,
    metavar="FILE,...",
    help="Begin with the parameters of these snapshots or saved nets that fit by name and shape; a table shows which.",
)
@click.option(
    "--rename",
    multiple=True,
    metavar="THERE=HERE",
    help="A layer or parameter THERE of --weights is HERE in this net; without HERE it is skipped. May be repeated.",
)
@click.option(
    "--fitted",
    is_flag=True,
    help="With --weights: number classes and transform tables as those trainings did, not by the data of this one.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to which one JSON line is added for each report: start, summary, validation, snapshot, warning, end.",
)
@click.option(
    "--find-nan",
    is_flag=True,
    help="Run step by step, and name the layer that writes the first number that is not finite; this is slow.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Train with N processes on this machine, each with its part of every batch.",
)
@click.option(
    "--communicator",
    default="",
    metavar="NAME",
    help="With --workers: the communicator that starts and connects them, if not the default one.",
    shell_complete=offered("communicator"),
)
@click.option(
    "--restarts",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="With --workers: begin again from the last snapshot, up to N times, when a process was killed.",
)
@click.option("--verbose", is_flag=True, help="Say how the net runs: its kernels, and its copies between memories.")
@write_options
@net_options
def command(
    net: Path,
    resume: str,
    reset_solver: bool,
    weights: str | None,
    rename: tuple[str, ...],
    fitted: bool,
    log: Path | None,
    find_nan: bool,
    workers: int | None,
    communicator: str,
    restarts: int,
    verbose: bool,
    writes: dict[str, tuple[str, ...]],
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> int:
    """Train the net of a net file, and save snapshots.

    With --workers, or started by MPI (`mpiexec -n 4 nacre train net.toml`), several processes train the net together.
    Ctrl-C finishes the iteration and saves a snapshot; `--resume auto` continues as if nothing had happened. With
    --json the last line is {iterations, seconds, images_per_second, data_share, loss, statistics, snapshot}, where
    data_share is for how much of the time in iterations, from 0 to 1, the training waited for its data.
    """
    from ...errors import ConfigError
    from ...snapshots.folder import SnapshotFolder, open_snapshot_store
    from ..ranks import connected, launch
    from ..screen import print_json
    from ..snapshots import advised
    from ..training import Weights, exit_code, print_end, result, train

    if reset_solver and not resume:
        raise ConfigError(
            "--reset-solver is only for --resume, which is missing", "add --resume, or leave --reset-solver out"
        )
    if weights is not None and resume not in ("", "auto"):
        message = "--weights is for a training that begins anew, but --resume continues from a snapshot"
        raise ConfigError(message, "leave one of them out; --resume auto uses the weights if there is no snapshot yet")
    for option, given in (("--restarts", restarts), ("--communicator", communicator)):
        if given and workers is None:
            message = f"{option} is only for --workers, which is missing"
            raise ConfigError(message, f"add --workers N, or leave {option} out")
    first = Weights.of(weights, rename, fitted=fitted)
    known = [resume, *(first.paths if first else ())]
    if workers is not None:
        with advised(net, sets, *known):  # a mistake in the file is told once, and not by a rank
            file = read_net(net, sets, seed, writes)
            place = file.solver().snapshot_place()
        if restarts and place is None:
            message = f"--restarts={restarts}, but {net} has no callback that saves snapshots to begin again from"
            raise ConfigError(message, "add one to the net file, or leave --restarts out")
        saved = SnapshotFolder(place[0], open_snapshot_store(place[1], file.pins)) if restarts and place else None
        return launch(workers, restarts, communicator, saved, as_json=as_json)
    with connected() as ranks:
        with advised(net, sets, *known):
            file = read_net(net, sets, seed, writes)
        options: dict[str, Any] = {"reset_solver": reset_solver, "find_nan": find_nan, "communicator": ranks}
        training = train(file, backend, resume, log, first, quiet=as_json, verbose=verbose, **options)
    if as_json:
        print_json(result(training), lines=True)
    else:
        print_end(file, training, backend, seed, sets, writes)
    return exit_code(training)
