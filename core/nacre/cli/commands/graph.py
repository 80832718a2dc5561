"""`nacre graph`: a drawing of a net."""

from __future__ import annotations

from pathlib import Path

import click

from ..options import backend_option, common, net_argument, phase_option, read_net


@click.command()
@net_argument
@phase_option
@click.option("--format", "kind", type=click.Choice(["svg", "dot"]), help="SVG, or dot for GraphViz; as --out ends.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write; else it is printed.")
@backend_option
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change the net file for this run.")
@common
def command(
    net: Path, phase: str, kind: str | None, out: Path | None, backend: str | None, sets: tuple[str, ...]
) -> None:
    """Draw a net: layers are boxes, blobs are lines."""
    from ...errors import ConfigError, DataError
    from ...files.durable import atomic_write
    from ...net.drawing import dot, svg
    from ..inputs import fed

    if kind is None:
        kind = out.suffix.removeprefix(".") if out else "svg"
        kind = "dot" if kind == "gv" else kind
        if kind not in ("svg", "dot"):
            raise ConfigError(f"{out}: a drawing is .svg or .dot", "give --format, or another name")
    made = fed(read_net(net, sets, None), phase).net(phase, backend=backend, allocate=False, fallback="warn")
    drawing = svg(made.summary()) if kind == "svg" else dot(made.summary())
    if out is None:
        click.echo(drawing, nl=False)
    else:
        atomic_write(out, drawing.encode(), DataError)
        click.echo(f"wrote {out}")
