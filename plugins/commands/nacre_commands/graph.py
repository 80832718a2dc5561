"""`nacre graph`: a drawing of a net."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli import backend_option, common, net_argument, phase_option, read_net, set_option

if TYPE_CHECKING:
    from nacre import Phase


@click.command()
@net_argument
@phase_option
@click.option("--format", "kind", metavar="NAME", help="svg, or dot for GraphViz; by default the ending of --out.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write; by default the drawing is printed."
)
@click.option(
    "--depth",
    type=click.IntRange(1),
    help="Show containers as one layer from so deep on: with 1 all of them. By default every layer is shown.",
)
@backend_option
@set_option
@common
def command(
    net: Path,
    phase: Phase,
    kind: str | None,
    out: Path | None,
    depth: int | None,
    backend: str | None,
    sets: tuple[str, ...],
) -> None:
    """Draw a net: layers are boxes, blobs are lines.

    A container is a box around its layers.
    """
    from nacre import ConfigError, DataError, registry
    from nacre.cli import fed
    from nacre.files import atomic_write

    if kind is None:
        kind = out.suffix.removeprefix(".") if out else "svg"
        if not registry().offers("drawing", kind):
            endings = " or ".join(sorted({f".{offer.name}" for offer in registry().offers("drawing")}))
            raise ConfigError(f"{out}: the ending of a drawing must be {endings}", "use another name, or --format")
    file = fed(read_net(net, sets, None), phase)
    with file.net(phase, backend=backend, allocate=False, fallback="warn") as made:
        summary = made.summary() if depth is None else made.summary().at_depth(depth)
    drawing = registry().open("drawing", kind, file.pins)().draw(summary)
    if out is None:
        click.echo(drawing, nl=False)
    else:
        atomic_write(out, drawing.encode(), DataError)
        click.echo(f"wrote {out}")
