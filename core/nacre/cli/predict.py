"""`nacre predict`: what a trained net says of records in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import net_argument, net_options, read_net

if TYPE_CHECKING:
    import numpy as np

    from ..config import NetFile
    from ..snapshot import Snapshot


def _names(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _shape(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(length) for length in value.replace("x", ",").split(",") if length)
    except ValueError:
        raise click.BadParameter(f"{value!r} must be like 1,8,8") from None


@click.command()
@net_argument
@click.argument("snapshot", type=click.Path(path_type=Path))
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--blob", "blobs", default="", callback=_names, metavar="A,B", help="Blobs that are wanted; else the ends."
)
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Best classes shown of each record.")
@click.option("--classes", type=click.Path(path_type=Path), help="Text file with the name of each class, one a line.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the blobs: .npy, .npz, .h5, .csv.")
@click.option("--batch-size", type=click.IntRange(0), default=0, help="Records at a time; 100 unless given.")
@click.option("--shape", default="", callback=_shape, metavar="1,8,8", help="Shape of a record, if no source tells it.")
@click.option(
    "--divide", type=float, default=1.0, show_default=True, help="Divide the 0..255 of pictures' pixels by this."
)
@net_options
def command(
    net: Path,
    snapshot: Path,
    inputs: tuple[Path, ...],
    blobs: tuple[str, ...],
    top: int,
    classes: Path | None,
    out: Path | None,
    batch_size: int,
    shape: tuple[int, ...],
    divide: float,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a trained net on records of your own.

    INPUT is an array (.npy), an HDF5 file with a dataset of the input blob's name (.h5), a table with one record a line
    (.csv), or a picture, which is scaled to the net's input, in grey if that has one channel. The source's transformers
    work on these too, so they must be like its data: of the digits, pixels from 0 to 16 (--divide 15.94). The best
    classes of each record are printed, with percents if the first blob holds probabilities.
    """
    from ..errors import ConfigError
    from .inputs import input_blob, read_inputs
    from .outputs import best, check_out, print_best, read_classes, write
    from .screen import print_json
    from .training import load_snapshot

    if out is not None:
        check_out(out, blobs)
    names = read_classes(classes) if classes else []
    file = read_net(net, sets, seed)
    saved = load_snapshot(snapshot)
    blob = input_blob(file)
    records = read_inputs(file, inputs, blob, shape, divide)
    if not blobs:
        blobs = _ends(file)
    if not blobs:
        raise ConfigError(f"{file.path}: no layer has a top that could be asked for in phase predict")
    found = run_predict(file, saved, blob, records, blobs, batch_size, backend)
    if out is not None:
        write(out, found)
    rows = best(found[blobs[0]], top, names)
    if as_json:
        print_json([{"record": number, "classes": row} for number, row in enumerate(rows)])
    else:
        print_best(rows)
        if out is not None:
            click.echo(f"wrote {out}: {', '.join(f'{name} {array.shape}' for name, array in found.items())}")


def _ends(file: NetFile) -> tuple[str, ...]:
    """Give the blobs that no layer reads in phase `predict`."""
    from ..layer import bottoms_of, tops_of

    layers = [layer for layer in file.layers if "predict" not in layer.exclude and not layer.is_source]
    read = {name for layer in layers if not layer.is_inplace and tops_of(layer) for name in bottoms_of(layer)}
    return tuple(dict.fromkeys(name for layer in layers for name in tops_of(layer) if name not in read))


def run_predict(
    file: NetFile,
    saved: Snapshot,
    blob: str,
    records: np.ndarray,
    blobs: Sequence[str],
    batch_size: int,
    backend: str | None,
) -> dict[str, Any]:
    """Run records through the layers that `blobs` need; give {blob: array}.

    The sources need not be there: a net with their transformers, but without their data, takes their place.

    Raises:
        SnapshotError: the snapshot belongs to another net.
        TopologyError: no layer writes one of the blobs in phase `predict`.
    """
    import dataclasses

    from ..feed import InputLayer
    from ..layer import PHASES
    from ..topology import Graph, ancestors
    from .test import load_present

    graph = Graph.of(layer for layer in file.layers if "predict" not in layer.exclude and not layer.is_source)
    needed = [node.layer for node in ancestors(graph, blobs, (blob,))]
    sources = [
        dataclasses.replace(layer, exclude=PHASES)  # pyright: ignore[reportArgumentType]
        for layer in file.layers
        if layer.is_source and blob in layer.tops
    ]
    given = InputLayer(name=f"given-{blob}", tops=[blob], shape=records.shape[1:], batch_size=1)
    present = dataclasses.replace(file, layers=(*sources, given, *needed))
    with present.net("predict", backend=backend, fallback="warn") as made:
        load_present(file, made, saved)
        return made.predict({blob: records}, tuple(blobs), batch_size=batch_size or min(100, len(records)))
