"""`nacre predict`: the outputs of a trained net for records in files."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import OutputFile, inputs_arguments, net_argument, net_options, without_argument

if TYPE_CHECKING:
    import numpy as np

    from ...net.files import Batch
    from ...protocols.data_store import Field, Writer
    from ..predictor import Computed, Predictor

NAMED = 5  # records in a warning


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
@click.option("--unit", default="", help="Unit of the numbers of a regression, such as EUR, to print after them.")
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
) -> int:
    """Run a trained net on your own records.

    NET.toml and SNAPSHOT, or a saved net (.nacre) alone. SNAPSHOT is a file, a folder for its newest one, or `best` or
    `latest` of the net file's own folder.
    INPUT is a file that a plugin can read, or its URL. nacre itself reads arrays (.npy), HDF5 files with a dataset
    named after the input blob (.h5), tables with one record on each line (.csv), and pictures or folders of them, which
    are scaled to the net's input, in grey if it has one channel. The net's source transforms these records as it does
    its own, so they must be like its data: for the demo's digits, pixels from 0 to 16 (--divide 15.94). The best
    classes of each record are printed, with percentages if a blob holds probabilities; or the numbers of a regression.
    Of several blobs each has a line. A record that cannot be read, such as a bad picture among others, is answered
    with its error, and the exit code is 2.

    A net that reads several blobs gets BLOB=FILE for each of them, such as left=a.npy right=b.npy, or files with all.

    With --stdin each line of the input is a record in JSON: its numbers in lists, or {"data": numbers, "key": name}
    with the name of the blob, or {"file": "cat.jpg"}; if the net reads several blobs, {"left": numbers, "right":
    numbers}; categories have their names. Each is answered at once, with a line as in the list that --json prints, or
    {"error": ..., "remedy": ...}.
    """
    from ..inputs import by_blob
    from ..outputs import read_classes
    from ..predictor import Predictor, answer_lines
    from ..ranks import refuse_ranks
    from ..snapshots import read_trained

    _check_inputs(net, inputs, out, stdin=stdin, as_json=as_json)
    refuse_ranks()
    file, saved = read_trained(net, sets, seed, snapshot)
    options: dict[str, Any] = {
        "names": read_classes(classes) if classes else None,
        "top": top,
        "unit": unit,
        "divide": divide,
        "backend": backend,
    }
    with Predictor(file, saved, blobs, shape=shape, batch_size=batch_size or 1, **options) as predictor:
        predictor.answers.where = f"{classes}"
        if stdin:
            answer_lines(predictor, sys.stdin)
            return 0
        paths = by_blob(file, inputs, predictor.blobs)
        _check_target(out, [net, Path(saved.path), *chain(*paths.values())])
        return _answer_files(predictor, paths, batch_size, out, as_json=as_json)


def _answer_files(
    predictor: Predictor, paths: Mapping[str, Sequence[Path]], batch_size: int, out: Path | str | None, *, as_json: bool
) -> int:
    """Print the answer to each record, or what is wrong with it, and write the outputs; return the exit code."""
    from ...fields.outputs import uploading
    from ...net.files import batches
    from ...net.records import store_to_write
    from ...text import plain
    from ..screen import print_json

    told: list[dict[str, Any]] = []
    shapes: dict[str, tuple[int, ...]] = {}
    written = bad = 0
    strange = NotFinite()
    with ExitStack() as stack:
        path = None if out is None else stack.enter_context(uploading(out))
        store = None if path is None else store_to_write(path, pins=predictor.file.pins)
        records = stack.enter_context(predictor.files(paths))
        first = next(iter(records.values()))
        width = len(str((first.count or 1) - 1))
        predictor.batch_size = batch_size or min(100, first.count or 100)
        predictor.make({blob: one.shape for blob, one in records.items()})
        writer: Writer | None = None
        for batch in batches(records, predictor.batch_size):
            some = predictor.answer_batch(batch, {blob: one.classes for blob, one in records.items()})
            if first.count == 1 and some.errors:
                raise some.errors[0]
            strange.look(batch, some)
            keys = [batch.keys[place] for place in some.places]
            if some.places and not shapes:
                shapes = {name: array.shape[1:] for name, array in some.found.items()}
                if path is not None and store is not None:
                    names = {blob: answer.names for blob, answer in predictor.answers.each.items()}
                    writer = stack.enter_context(store.create(path, fields_of(some.found, names)))
            if writer is not None and keys:
                writer.append(some.found, keys if first.named else ())
            written, bad = written + len(keys), bad + len(some.errors)
            for key, answer in some.told(batch):
                if as_json:
                    told.append({"record": len(told), "key": key, **answer})
                else:
                    for line in predictor.answers.lines(key, answer, width):
                        click.echo(plain(line))
    strange.warn()
    if as_json:
        print_json(told)
    elif shapes and out is not None:
        sizes = ", ".join(f"{name} {(written, *shape)}" for name, shape in shapes.items())
        click.echo(f"wrote {out}: {sizes}{f', without the records with an error, {bad}' if bad else ''}")
    return 2 if bad else 0


def _check_target(out: Path | str | None, read: Sequence[Path]) -> None:
    """Raise DataError if the file to write is one of those that are read."""
    from ...errors import DataError

    if isinstance(out, Path) and out.exists() and any(one.exists() and out.samefile(one) for one in read):
        raise DataError(f"{out}: it is read, too", "use another name for --out")


class NotFinite:
    """The records with numbers that are not finite, by their files and their numbers there, for a warning."""

    def __init__(self) -> None:
        self.found: dict[Path, list[int]] = {}

    def look(self, batch: Batch, computed: Computed) -> None:
        """Note which records of a batch have such numbers where the net reads them."""
        import numpy as np

        for blob, records in computed.ready.items():
            rows = [batch.rows[blob][place] for place in computed.places]
            for row, record in zip(rows, records, strict=True):
                if not np.isfinite(record).all():
                    self.found.setdefault(row.path, []).append(row.number)

    def warn(self) -> None:
        """Warn of each file with such records."""
        from ..screen import warn

        for path, bad in self.found.items():
            more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
            named = f"{', '.join(map(str, bad[:NAMED]))}{more}"
            warn(f"{path}: {'record' if len(bad) == 1 else 'records'} {named}: some numbers are not finite")


def fields_of(arrays: Mapping[str, np.ndarray], classes: Mapping[str, Sequence[str]]) -> dict[str, Field]:
    """Return what a file with these blobs holds; the columns of a table are named after the classes of a blob."""
    from ...protocols.data_store import Field

    columns = {
        name: tuple(f"{name}.{one}" for one in classes[name]) if len(classes[name]) == array[0].size else ()
        for name, array in arrays.items()
    }
    return {name: Field(array.shape[1:], array.dtype.name, columns=columns[name]) for name, array in arrays.items()}


def _check_inputs(net: Path, inputs: Sequence[Path], out: Path | str | None, *, stdin: bool, as_json: bool) -> None:
    """Raise an error of the command line unless there are files, or lines of JSON."""
    if stdin and not as_json:
        raise click.UsageError("--stdin reads and writes lines of JSON: add --json")
    if stdin and inputs:
        raise click.UsageError(f"--stdin reads records from lines, so leave out {inputs[0]}")
    if stdin and out is not None:
        raise click.UsageError("--stdin answers each record on a line, so leave out --out, which is for files")
    if not (stdin or inputs):
        raise without_argument(click.get_current_context(), "INPUT...", net)
