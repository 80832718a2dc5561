"""`nacre data convert`: from any store to any store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import click
import numpy as np

from nacre import DataError, Field, NacreError, Reader, Writer, open_records
from nacre.cli import OutputFile, common, json_option, print_json, warn

from ..stores.errors import NeedsFields
from .options import (
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
    with targets.place(target) as path, targets.replaced(path) as new:
        count, fields = convert(sources, path, targets, shape, new)
        written = _written(new, targets, fields)
    for message in lost(fields, written):
        warn(f"{target}: {message}")
    if as_json:
        print_json({"target": str(target), "records": count, "fields": described(written)})
        return
    kinds = "; ".join(f"{name} {field.dtype} {shape_text(field)}" for name, field in written.items())
    click.echo(f"wrote {target}: {count_text(count)}, {kinds}")


def _written(path: Path, targets: Targets, fields: Mapping[str, Field]) -> Mapping[str, Field]:
    """Return the fields that the target has when it is read, or those written if its store has to be told how."""
    try:
        with open_records([path], store=targets.store) as made:
            return made.fields
    except NeedsFields as error:
        warn(f"{error.args[0]}: whoever reads it has to say {', '.join(error.fields)} in the store")
        return fields
    except NacreError as error:
        raise error.reworded(f"what was written cannot be read back: {error.args[0]}") from error


def convert(
    sources: Sources, target: Path, targets: Targets, shape: str | None, new: Path
) -> tuple[int, Mapping[str, Field]]:
    """Write the records of the sources as `new`, to be a target; return how many, and the fields that they have."""
    with ExitStack() as stack:
        packed = targets.copies(target, sources)
        reader = stack.enter_context(sources.open(shape, packed=packed))
        if not (shape or packed) and (common := common_shape(reader)):
            reader.close()
            reader = stack.enter_context(sources.open(common))
        writer = stack.enter_context(targets.create(target, reader.fields, sources, new))
        if not (count := copy(reader, writer)):
            raise DataError(f"{sources.paths[0]}: there are no records")
        return count, reader.fields


def common_shape(reader: Reader) -> str | None:
    """Return the shape of all records of the first field, as --shape takes it; None if they differ, or it has one."""
    name, field = next(iter(reader.fields.items()))
    if field.shape is not None or reader.count is None:
        return None
    shapes = (np.shape(row[name]) for row in reader.rows())
    first = next(shapes, None)
    return ",".join(map(str, first)) if first and all(shape == first for shape in shapes) else None


def copy(reader: Reader, writer: Writer) -> int:
    """Append all records of a reader to a writer, with the names that they have; return how many."""
    done = 0
    with progress(reader.count) as show:
        for first, rows in some_at_a_time(reader):
            done = first + length(rows)
            writer.append(rows, keys(reader, range(first, done)))
            show(done)
    return done


def lost(fields: Mapping[str, Field], written: Mapping[str, Field]) -> list[str]:
    """Return what the target does not say about the classes."""
    known = {name for field in written.values() for name in field.classes}
    missing = {name: [one for one in field.classes if one not in known] for name, field in fields.items()}
    return [
        f"it does not keep the names of {len(names)} classes of '{name}', such as '{names[0]}'"
        for name, names in missing.items()
        if names
    ]
