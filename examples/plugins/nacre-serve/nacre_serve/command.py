"""`nacre serve`: answers requests on this machine with a trained net."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from nacre.cli import Predictor, net_argument, net_options, print_json, read_trained, snapshot_argument


@click.command()
@net_argument
@snapshot_argument
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 is a free one.")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Number of best classes to answer.")
@click.option("--batch-size", type=click.IntRange(1), default=8, show_default=True, help="Requests computed at a time.")
@net_options
def command(
    net: Path, snapshot: Path, port: int, top: int, batch_size: int, backend: str | None, as_json: bool, **others: Any
) -> None:
    """Answer requests of programs on this machine with a trained net.

    NET.toml and SNAPSHOT, or a saved net (.nacre) alone. POST a picture (Content-Type image/jpeg, image/png, ...) or a
    record in JSON, as `nacre predict --stdin` reads them, to http://127.0.0.1:PORT/NAME; the answer is what `nacre
    predict --json` prints, with NAME as the key.
    """
    from .server import Server

    file, saved = read_trained(net, others["sets"], others["seed"], snapshot)
    with (
        Predictor(file, saved, top=top, batch_size=batch_size, backend=backend) as predictor,
        Server(port, predictor, file.name) as server,
    ):
        told = {"net": file.name, "url": f"http://127.0.0.1:{server.server_port}/"}
        print_json(told, lines=True) if as_json else click.echo(f"net '{file.name}' at {told['url']} until Ctrl-C")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
