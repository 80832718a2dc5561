"""`nacre new-name`: how many numbers each parameter of a net has."""

from __future__ import annotations

from pathlib import Path

import click

from nacre.cli import net_argument, net_options, read_net


@click.command()
@net_argument
@net_options
def command(net: Path, backend: str | None, seed: int | None, sets: tuple[str, ...], as_json: bool) -> None:
    """Show how many numbers each parameter has."""
    from nacre.cli import print_json, print_table  # here, so that `nacre --help` need not import it

    with read_net(net, sets, seed).net(backend=backend, allocate=False) as made:
        sizes = {name: handle.storage.size for name, handle in made.parameters.items()}
    if as_json:
        print_json(sizes)
    else:
        print_table(("parameter", "numbers"), [(name, f"{size:,}") for name, size in sizes.items()], right=(1,))
