"""`nacre graph`: a drawing of a net."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli import (
    backend_option,
    common,
    net_argument,
    offered,
    phase_option,
    ranks_option,
    read_net,
    set_option,
)

if TYPE_CHECKING:
    from nacre import Phase


@click.command()
@net_argument
@phase_option
@click.option(
    "--format",
    "kind",
    metavar="NAME",
    shell_complete=offered("drawing"),
    help="svg, png, or dot for GraphViz; by default the ending of --out.",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write; by default the drawing is printed."
)
@click.option(
    "--depth",
    type=click.IntRange(1),
    help="Show containers as one layer from so deep on: with 1 all of them. By default every layer is shown.",
)
@ranks_option
@backend_option
@set_option
@common
def command(
    net: Path,
    phase: Phase,
    kind: str | None,
    out: Path | None,
    depth: int | None,
    ranks: int | None,
    backend: str | None,
    sets: tuple[str, ...],
) -> None:
    """Draw a net: layers are boxes, blobs are lines.

    A container is a box around its layers. With --ranks each rank's layers have a colour of their own, and the bridges
    between ranks are dashed.
    """
    from nacre import ConfigError
    from nacre.cli import drawing_for, fed, summary_of_ranks, write_picture

    read = read_net(net, sets, None, to_train=False)
    if out is not None and out.exists() and out.samefile(net):
        raise ConfigError(f"{out}: it is the net file", "use another name for --out")
    drawing = drawing_for(out or Path("net.svg"), read.pins, kind or "")
    file = fed(read, phase)
    if ranks is None:
        with file.net(phase, backend=backend, allocate=False, fallback="warn") as made:
            summary = made.summary()
    else:
        summary = summary_of_ranks(file, phase, ranks, backend)
    summary = summary if depth is None else summary.at_depth(depth)
    drawn = drawing.draw(summary)
    if out is None:
        click.echo(drawn, nl=False)
    else:
        write_picture(out, drawn)
        click.echo(f"wrote {out}")
