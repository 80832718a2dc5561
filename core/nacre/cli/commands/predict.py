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

    With --stdin each line of the input is a record in JSON: its numbers in lists, or {"data": numbers, "key": name}
    with the name of the blob, or {"file": "cat.jpg"}. Each is answered at once, with a line as in the list that --json
    prints, or {"error": ..., "remedy": ...}.
    """
    from ...fields.outputs import uploading
    from ...net.predict import check_outputs, prepared, run, wanted
    from ...net.records import store_of
    from ..inputs import Inputs, known_shape, whole_records
    from ..outputs import Answers, compares_numbers, names_for, read_classes
    from ..predictor import Predictor, answer_lines, input_blob, net_for
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
    blob, output = input_blob(file, want), want.outputs[0]
    known = known_shape(file, blob) if shape is None else None
    told: list[dict[str, Any]] = []
    shapes: dict[str, tuple[int, ...]] = {}
    answers = Answers(names or (), top, numbers=compares_numbers(file.layers, output), unit=unit)
    count = 0
    with ExitStack() as stack:
        path = None if out is None else stack.enter_context(uploading(out))
        store = None if path is None else store_of(path, pins=file.pins)
        records = Inputs(file, inputs, blob, shape or known, divide, from_option=shape is not None)
        stack.enter_context(records)
        size = batch_size or min(100, records.count or 100)
        sure = known is not None
        made = stack.enter_context(net_for(file, saved, want, (blob, records.shape), size, backend, sure=sure))
        writer: Writer | None = None
        for batch in records.batches(check_outputs(made, want)):
            ready = prepared(made, want, {blob: batch.records}, records.classes)
            found = run(made, want, ready)
            if not shapes:
                shapes = {name: array.shape[1:] for name, array in found.items()}
                answers.names = names_for(file, output, found[output][0].size, names, f"{classes}")
                if path is not None and store is not None:
                    writer = stack.enter_context(store.create(path, fields_of(found)))
            if writer is not None:
                writer.append(found, batch.keys if records.named else ())
            rows = answers.of(found[output], whole_records(ready[blob]))
            for key, one in zip(batch.keys, rows, strict=True):
                if as_json:
                    told.append({"record": count, "key": key, **one})
                else:
                    click.echo(answers.line(key, one, width=len(str((records.count or 1) - 1))))
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
