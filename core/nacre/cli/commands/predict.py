"""`nacre predict`: the outputs of a trained net for records in files."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import OutputFile, inputs_arguments, net_argument, net_options

if TYPE_CHECKING:
    import numpy as np

    from ...protocols.data_store import Field, Writer


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
@inputs_arguments
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
@click.option("--unit", default="", help="Unit of the numbers of a regression, such as EUR, to print behind them.")
@click.option("--stdin", is_flag=True, help="With --json: read a record from each line, and answer with a line.")
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
    unit: str,
    stdin: bool,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a trained net on your own records.

    NET.toml and SNAPSHOT, or a saved net (.nacre) alone. SNAPSHOT is a file, a folder for its newest one, or `best` or
    `latest` of the net file's own folder.
    INPUT is a file that a plugin can read, or its URL. nacre itself reads arrays (.npy), HDF5 files with a dataset
    named after the input blob (.h5), tables with one record on each line (.csv), and pictures or folders of them, which
    are scaled to the net's input, in grey if it has one channel. The net's source transforms these records as it does
    its own, so they must be like its data: for the demo's digits, pixels from 0 to 16 (--divide 15.94). The best
    classes of each record are printed, with percentages if the first blob holds probabilities; or the numbers of a
    regression.

    A net that reads several blobs gets BLOB=FILE for each of them, such as left=a.npy right=b.npy, or files with all.

    With --stdin each line of the input is a record in JSON: its numbers in lists, or {"data": numbers, "key": name}
    with the name of the blob, or {"file": "cat.jpg"}; if the net reads several blobs, {"left": numbers, "right":
    numbers}. Each is answered at once, with a line as in the list that --json prints, or {"error": ..., "remedy": ...}.
    """
    from ...fields.outputs import uploading
    from ...net.predict import check_outputs, prepared, run, wanted
    from ...net.records import store_to_write
    from ...text import plain
    from ..inputs import Inputs, blobs_of, by_blob, known_shape, side_by_side, whole_records
    from ..outputs import Answers, names_for, read_classes
    from ..predictor import Predictor, answer_lines, net_for
    from ..screen import print_json
    from ..snapshots import read_trained

    _check_inputs(inputs, stdin=stdin, as_json=as_json)
    file, saved = read_trained(net, sets, seed, snapshot)
    names = read_classes(classes) if classes else None
    if stdin:
        options: dict[str, Any] = {
            "top": top,
            "unit": unit,
            "divide": divide,
            "batch_size": batch_size or 1,
            "backend": backend,
        }
        with Predictor(file, saved, blobs, shape=shape, names=names, **options) as predictor:
            answer_lines(predictor, sys.stdin)
        return
    want = wanted(file.layers, blobs, file.algorithm)
    output, files = want.outputs[0], by_blob(file, inputs, blobs_of(file, want, shape))
    known = {blob: known_shape(file, blob) if shape is None else None for blob in files}
    told: list[dict[str, Any]] = []
    shapes: dict[str, tuple[int, ...]] = {}
    answers = Answers.about(file, output, names, top, unit)
    count = 0
    with ExitStack() as stack:
        path = None if out is None else stack.enter_context(uploading(out))
        store = None if path is None else store_to_write(path, pins=file.pins)
        records = {
            blob: stack.enter_context(
                Inputs(file, paths, blob, shape or known[blob], divide, from_option=shape is not None)
            )
            for blob, paths in files.items()
        }
        first = next(iter(records.values()))
        size = batch_size or min(100, first.count or 100)
        shapes_in = {blob: one.shape for blob, one in records.items()}
        sure = None not in known.values()
        made = stack.enter_context(net_for(file, saved, want, shapes_in, size, backend, sure=sure))
        writer: Writer | None = None
        for batches in side_by_side(records, check_outputs(made, want)):
            ready: dict[str, np.ndarray] = {}
            for blob, batch in batches.items():
                ready |= prepared(made, want, {blob: batch.records}, {blob: records[blob].classes})
            found, keys = run(made, want, ready), next(iter(batches.values())).keys
            if not shapes:
                shapes = {name: array.shape[1:] for name, array in found.items()}
                answers.names = names_for(file, output, found[output][0].size, names, f"{classes}")
                if path is not None and store is not None:
                    writer = stack.enter_context(store.create(path, fields_of(found)))
            if writer is not None:
                writer.append(found, keys if first.named else ())
            rows = answers.of(found[output], whole_records(ready))
            for key, one in zip(keys, rows, strict=True):
                if as_json:
                    told.append({"record": count, "key": key, **one})
                else:
                    click.echo(plain(answers.line(key, one, width=len(str((first.count or 1) - 1)))))
                count += 1
    if as_json:
        print_json(told)
    elif out is not None:
        click.echo(f"wrote {out}: {', '.join(f'{name} {(count, *shape)}' for name, shape in shapes.items())}")


def fields_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Field]:
    """Return what a file with these blobs holds."""
    from ...protocols.data_store import Field

    return {name: Field(array.shape[1:], array.dtype.name) for name, array in arrays.items()}


def _check_inputs(inputs: Sequence[Path], *, stdin: bool, as_json: bool) -> None:
    """Raise an error of the command line unless there are files, or lines of JSON."""
    if stdin and not as_json:
        raise click.UsageError("--stdin reads and writes lines of JSON: add --json")
    if stdin and inputs:
        raise click.UsageError(f"--stdin reads records from lines, so leave out {inputs[0]}")
    if not (stdin or inputs):
        raise click.MissingParameter(param_hint="'INPUT...'", param_type="argument", ctx=click.get_current_context())
