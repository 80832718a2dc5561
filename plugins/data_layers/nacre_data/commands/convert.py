"""`nacre data convert`: from any store to any store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import click
import numpy as np

from nacre import DataError, Field, Reader, Writer
from nacre.cli import OutputFile, common, json_option, print_json
from nacre.files import replaced_after

from .options import (
    Noting,
    Sources,
    Targets,
    count_text,
    described,
    keys,
    length,
    progress,
    shape_option,
    shape_text,
    some_at_a_time,
    sources_options,
    targets_options,
)


@click.command()
@sources_options
@click.argument("target", type=OutputFile())
@targets_options
@shape_option
@json_option
@common
def command(sources: Sources, target: Path | str, targets: Targets, shape: str | None, as_json: bool) -> None:
    """Copy all records of the sources to TARGET, in another format.

    Formats are known by the names of the files. TARGET is a path or a URL, and is written whole or not at all. A file
    that is there is replaced only when the new one can be read.
    """
    with targets.place(target) as path, replaced_after(path, DataError) as new:
        writer, fields = convert(sources, path, targets, shape, new)
        written = targets.written(target, new, fields, writer)
    if as_json:
        print_json({"target": str(target), "records": writer.count, "fields": described(written)})
        return
    kinds = "; ".join(f"{name} {field.dtype} {shape_text(field)}" for name, field in written.items())
    click.echo(f"wrote {target}: {count_text(writer.count)}, {kinds}")


def convert(
    sources: Sources, target: Path, targets: Targets, shape: str | None, new: Path
) -> tuple[Noting, Mapping[str, Field]]:
    """Write the records of the sources as `new`, to be a target; return what wrote them, and the fields they have."""
    with ExitStack() as stack:
        packed = targets.copies(target, sources)
        reader = stack.enter_context(sources.open(shape, packed=packed))
        if not (shape or packed) and (common := common_shape(reader)):
            reader.close()
            reader = stack.enter_context(sources.open(common))
        writer = stack.enter_context(targets.create(target, reader.fields, sources, new))
        copy(reader, writer)
        if not writer.count:
            raise DataError(f"{sources.paths[0]}: there are no records")
        return writer, reader.fields


def common_shape(reader: Reader) -> str | None:
    """Return the shape of all records of the first field, as --shape takes it; None if they differ, or it has one."""
    name, field = next(iter(reader.fields.items()))
    if field.shape is not None or reader.count is None:
        return None
    shapes = (np.shape(row[name]) for row in reader.rows())
    first = next(shapes, None)
    return ",".join(map(str, first)) if first and all(shape == first for shape in shapes) else None


def copy(reader: Reader, writer: Writer) -> None:
    """Append all records of a reader to a writer, with the names that they have."""
    with progress(reader.count) as show:
        for first, rows in some_at_a_time(reader):
            done = first + length(rows)
            writer.append(rows, keys(reader, range(first, done)))
            show(done)
