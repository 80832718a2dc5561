"""`nacre predict`: the outputs of a trained net for records in files."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import InputFile, OutputFile, net_argument, net_options

if TYPE_CHECKING:
    import numpy as np

    from ...config.netfile import NetFile
    from ...net.net import Net
    from ...net.predict import Wanted
    from ...protocols.data_store import Field, Writer
    from ...snapshots.snapshot import Snapshot
    from ..inputs import Inputs


def _names(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _shape(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...] | None:
    lengths = [length.strip() for length in re.split(r"(?<=\d)x(?=\d)|,", value) if length.strip()]
    for length in lengths:
        if not (length.isdecimal() and int(length)):
            raise click.BadParameter(f"{value!r} must be like 1,8,8, but {length!r} is not a whole number above 0")
    return tuple(map(int, lengths)) or None


@click.command()
@net_argument
@click.argument("snapshot", type=click.Path(path_type=Path))
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=InputFile())
@click.option(
    "--blob",
    "blobs",
    default="",
    callback=_names,
    metavar="A,B",
    help="Blobs to compute; by default those that no layer reads.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Number of best classes to show for each record.",
)
@click.option(
    "--classes",
    type=click.Path(path_type=Path),
    help="Text file with the names of the classes, one on each line; by default those of the snapshot.",
)
@click.option(
    "--out",
    type=OutputFile(),
    help="File for the blobs, such as prob.npy or blobs.h5, or its URL.",
)
@click.option("--batch-size", type=click.IntRange(0), default=0, help="Records at a time; by default 100.")
@click.option(
    "--shape",
    default="",
    callback=_shape,
    metavar="1,8,8",
    help="Shape of a record, if the data of the net file are missing.",
)
@click.option(
    "--divide",
    type=float,
    default=1.0,
    show_default=True,
    help="Divide all numbers by this; those of pictures are 0 to 255.",
)
@net_options
def command(
    net: Path,
    snapshot: Path,
    inputs: tuple[Path, ...],
    blobs: tuple[str, ...],
    top: int,
    classes: Path | None,
    out: Path | str | None,
    batch_size: int,
    shape: tuple[int, ...] | None,
    divide: float,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a trained net on your own records.

    INPUT is a file that a plugin can read, or its URL. nacre itself reads arrays (.npy), HDF5 files with a dataset
    named after the input blob (.h5), tables with one record on each line (.csv), and pictures, which are scaled to the
    net's input, in grey if it has one channel. The net's source transforms these records as it does its own, so they
    must be like its data: for the demo's digits, pixels from 0 to 16 (--divide 15.94). The best classes of each record
    are printed, with percentages if the first blob holds probabilities.
    """
    from ...fields.outputs import uploading
    from ...net.fitted import class_names
    from ...net.predict import check_outputs, prepared, run, wanted
    from ...net.records import store_of
    from ..inputs import Inputs, known_shape, whole_records
    from ..outputs import best, check_classes, print_best, read_classes
    from ..screen import print_json
    from ..snapshots import read_trained

    file, saved = read_trained(net, sets, seed, snapshot)
    want = wanted(file.layers, blobs, file.algorithm)
    names = read_classes(classes) if classes else []
    blob = input_blob(file, want)
    known = known_shape(file, blob) if shape is None else None
    told: list[dict[str, Any]] = []
    shapes: dict[str, tuple[int, ...]] = {}
    count = 0
    with ExitStack() as stack:
        path = None if out is None else stack.enter_context(uploading(out))
        store = None if path is None else store_of(path, pins=file.pins)
        records = Inputs(file, inputs, blob, shape or known, divide, from_option=shape is not None)
        stack.enter_context(records)
        made = stack.enter_context(_net_for(file, saved, want, records, batch_size, backend, sure=known is not None))
        writer: Writer | None = None
        for batch in records.batches(check_outputs(made, want)):
            ready = prepared(made, want, {blob: batch.records}, records.classes)
            found = run(made, want, ready)
            if not shapes:
                shapes = {name: array.shape[1:] for name, array in found.items()}
                if classes is None:
                    counts = {name: int(array[0].size) for name, array in found.items()}
                    names = [*class_names(file.layers, file.fitted, counts.get).get(want.outputs[0], ())]
                else:
                    check_classes(names, found[want.outputs[0]], f"{classes}", want.outputs[0])
                if path is not None and store is not None:
                    writer = stack.enter_context(store.create(path, fields_of(found)))
            if writer is not None:
                writer.append(found, batch.keys if records.named else ())
            rows = best(found[want.outputs[0]], top, names, whole_records(ready[blob]))
            if as_json:
                keys = zip(batch.keys, rows, strict=True)
                told += [{"record": count + row, "key": key, "classes": one} for row, (key, one) in enumerate(keys)]
            else:
                print_best(batch.keys, rows, width=len(str((records.count or 1) - 1)))
            count += len(rows)
    if as_json:
        print_json(told)
    elif out is not None:
        click.echo(f"wrote {out}: {', '.join(f'{name} {(count, *shape)}' for name, shape in shapes.items())}")


def fields_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Field]:
    """Return what a file with these blobs holds."""
    from ...protocols.data_store import Field

    return {name: Field(array.shape[1:], array.dtype.name) for name, array in arrays.items()}


def input_blob(file: NetFile, want: Wanted) -> str:
    """Return the one blob of the sources that the outputs need. Raises DataError if they need none, or several."""
    from ...errors import DataError

    if len(want.needed) != 1:
        found = ", ".join(sorted(want.needed)) or "none"
        message = f"{file.path}: a net for `predict` must read exactly one blob of its sources, but it reads: {found}"
        raise DataError(message, "choose a blob that needs only one of them (--blob), or use net.predict in Python")
    return want.needed[0]


@contextmanager
def _net_for(
    file: NetFile,
    saved: Snapshot,
    want: Wanted,
    records: Inputs,
    batch_size: int,
    backend: str | None,
    *,
    sure: bool,
) -> Generator[Net]:
    """Make the net of the layers that are needed, trained. The sources' data may be missing.

    `sure` is true if the records have the shape of a source's records.

    Raises:
        DataError: the parameters have other shapes than records of this shape need.
        SnapshotError: the snapshot belongs to another net.
    """
    from ..inputs import written_net

    batch_size = batch_size or min(100, records.count or 100)
    shape = want.source_of(records.blob).prepared_shape(records.blob, records.shape)
    with written_net(file, want, {records.blob: shape}, batch_size, backend) as made:
        if not sure:
            _check_shape(made, saved, records.shape)
        made.parameters.load(saved, strict=False)
        yield made


def _check_shape(net: Net, saved: Snapshot, shape: tuple[int, ...]) -> None:
    """Check the shape of records: with a wrong one, layers have the trained number of outputs, but not of inputs.

    Raises:
        DataError: names a parameter.
    """
    from ...errors import DataError

    trained = {name: saved.arrays.get(f"parameters/{name}") for name in net.parameters}
    pairs = [(name, () if array is None else array.shape) for name, array in trained.items()]
    other = [(name, there, net.parameters[name].shape) for name, there in pairs if there != net.parameters[name].shape]
    if other and all(there[:1] == here[:1] for _, there, here in other):
        name, there, here = other[0]
        message = f"records of shape {shape} do not fit the net: '{name}' was trained with the shape {there}"
        raise DataError(f"{message}, but they need {here}", "use the right shape, for example --shape 1,8,8")
