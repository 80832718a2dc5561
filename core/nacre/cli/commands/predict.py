"""`nacre predict`: what a trained net says of records in files."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import net_argument, net_options

if TYPE_CHECKING:
    import numpy as np

    from ...config.netfile import NetFile
    from ...net.net import Net
    from ...net.predict import Wanted
    from ...protocols.records import OutputWriter
    from ...snapshots.snapshot import Snapshot


def _names(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _shape(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...] | None:
    lengths = [length.strip() for length in re.split(r"(?<=\d)x(?=\d)|,", value) if length.strip()]
    for length in lengths:
        if not (length.isdecimal() and int(length)):
            raise click.BadParameter(f"{value!r} must be like 1,8,8, but {length!r} is no whole number above 0")
    return tuple(map(int, lengths)) or None


@click.command()
@net_argument
@click.argument("snapshot", type=click.Path(path_type=Path))
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--blob", "blobs", default="", callback=_names, metavar="A,B", help="Blobs that are wanted; else the ends."
)
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Best classes shown of each record.")
@click.option("--classes", type=click.Path(path_type=Path), help="Text file with the name of each class, one a line.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the blobs to a file, such as prob.npy or blobs.h5.",
)
@click.option("--batch-size", type=click.IntRange(0), default=0, help="Records at a time; 100 unless given.")
@click.option("--shape", default="", callback=_shape, metavar="1,8,8", help="Shape of a record, if no source tells it.")
@click.option(
    "--divide", type=float, default=1.0, show_default=True, help="Divide all numbers by this: of pictures, 0 to 255."
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
    shape: tuple[int, ...] | None,
    divide: float,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a trained net on records of your own.

    INPUT is a file of a kind that a plugin reads: nacre's own read arrays (.npy), HDF5 files with a dataset of the
    input blob's name (.h5), tables with one record a line (.csv), and pictures, which are scaled to the net's input, in
    grey if that has one channel. The source prepares these as it does its own, so they must be like its data: of the
    digits, pixels from 0 to 16 (--divide 15.94). The best classes of each record are printed, with percents if the
    first blob holds probabilities.
    """
    from ...net.predict import wanted
    from ..inputs import known_shape, read_inputs, whole_records
    from ..outputs import best, check_classes, print_best, read_classes
    from ..screen import print_json
    from ..snapshots import read_trained

    file, saved = read_trained(net, sets, seed, snapshot)
    want = wanted(file.layers, blobs)
    writer = None if out is None else _writer(out, file, want)
    names = read_classes(classes) if classes else []
    blob = input_blob(file, want)
    known = known_shape(file, blob) if shape is None else None
    records = read_inputs(file, inputs, blob, shape or known, divide, said=shape is not None)
    found = run_predict(file, saved, want, records, batch_size, backend, sure=known is not None)
    if classes is not None:
        check_classes(names, found[want.outputs[0]], f"{classes}", want.outputs[0])
    if out is not None and writer is not None:
        writer.write(out, found)
    rows = best(found[want.outputs[0]], top, names, whole_records(records))
    if as_json:
        print_json([{"record": number, "classes": row} for number, row in enumerate(rows)])
    else:
        print_best(rows)
        if out is not None:
            click.echo(f"wrote {out}: {', '.join(f'{name} {array.shape}' for name, array in found.items())}")


def _writer(out: Path, file: NetFile, want: Wanted) -> OutputWriter:
    """Return what writes the file, before any work is done."""
    from ...errors import ConfigError
    from ...protocols.records import writer_of

    writer = writer_of(out, file.pins)
    if len(want.outputs) > 1 and not writer.several:
        told = f"--out {out}: it holds one blob, but {len(want.outputs)} are wanted: {', '.join(want.outputs)}"
        raise ConfigError(told, f"choose one (--blob {want.outputs[0]}), or an ending whose files hold several (.h5)")
    return writer


def input_blob(file: NetFile, want: Wanted) -> str:
    """Return the one blob of the sources that the outputs need. Raises DataError where it is not one."""
    from ...errors import DataError

    if len(want.needed) != 1:
        found = ", ".join(sorted(want.needed)) or "none"
        told = f"{file.path}: a net for `predict` must read exactly one blob of its sources, but reads: {found}"
        raise DataError(told, "ask for a blob that needs only one of them (--blob), or use net.predict in Python")
    return want.needed[0]


def run_predict(
    file: NetFile,
    saved: Snapshot,
    want: Wanted,
    records: np.ndarray,
    batch_size: int,
    backend: str | None,
    *,
    sure: bool,
) -> dict[str, Any]:
    """Run records through the layers that are wanted; give {blob: array}. The sources' data need not be there.

    `sure` says that the records have the shape that a source tells.

    Raises:
        DataError: the parameters are of other shapes than records of this shape make them.
        SnapshotError: the snapshot belongs to another net.
    """
    from ...net.predict import layers_for, run

    (blob,) = want.needed
    layers = layers_for(want, {blob: records.shape[1:]}, batch_size or min(100, len(records)))
    present = dataclasses.replace(file, layers=tuple(layers))
    options: dict[str, Any] = {"fallback": "warn", "keep": want.outputs, "initialise": False}
    with present.net("predict", backend=backend, **options) as made:
        if not sure:
            _check_shape(made, saved, records.shape[1:])
        made.parameters.load(saved, strict=False)
        return run(made, want, {blob: records})


def _check_shape(net: Net, saved: Snapshot, shape: tuple[int, ...]) -> None:
    """Tell records of a wrong shape from the snapshot of another net: as many outputs, but of other numbers of inputs.

    Raises:
        DataError: names a parameter.
    """
    from ...errors import DataError

    trained = {name: saved.arrays.get(f"parameters/{name}") for name in net.parameters}
    pairs = [(name, () if array is None else array.shape) for name, array in trained.items()]
    other = [(name, there, net.parameters[name].shape) for name, there in pairs if there != net.parameters[name].shape]
    if other and all(there[:1] == here[:1] for _, there, here in other):
        name, there, here = other[0]
        told = f"records of shape {shape} do not fit the net: '{name}' was trained with the shape {there}"
        raise DataError(f"{told}, but they need {here}", "say the right one: --shape 1,8,8")
