"""`nacre data split`: disjoint parts of a set, each in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import numpy as np

from nacre import ConfigError, DataError, Reader, Writer
from nacre.cli import common, json_option, print_json, warn
from nacre.files import is_url, replaced_after

from ..records import ONE_NUMBER, ArrayRecords, check_one_number
from ..split import part_of, split_complaints
from .options import (
    Sources,
    Targets,
    count_text,
    keys,
    length,
    progress,
    shape_option,
    some_at_a_time,
    sources_options,
    targets_options,
)


@click.command()
@sources_options
@click.option(
    "--part", "parts", metavar="FILE=FRACTION", multiple=True, required=True, help="A part, such as train.h5=0.8."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the random choice.")
@click.option("--label", metavar="NAME", help="Field of the classes, which all parts have alike.")
@click.option("--group", metavar="NAME", help="Field whose equal numbers stay together, such as one of patients.")
@targets_options
@shape_option
@json_option
@common
def command(
    sources: Sources,
    parts: tuple[str, ...],
    seed: int,
    label: str | None,
    group: str | None,
    targets: Targets,
    shape: str | None,
    as_json: bool,
) -> None:
    """Write each record into one of several files.

    nacre data split all.h5 --part train.h5=0.8 --part validation.h5=0.2

    Which one depends on the records' number and classes and on the seed, as with the field `split` of sources. The
    classes are those of the first field with one whole number in each record. A part has its records in their order.
    """
    files, split = _split(parts, seed, group)
    written = [targets.of_part(file, sources) for file in files]
    packed = all(one.copies(file, sources) for one, file in zip(written, files, strict=True))
    with sources.open(shape, packed=packed) as reader, ExitStack() as stack:
        label = label or _label(reader)
        numbers = numbers_of(str(sources.paths[0]), reader, label, split)
        absent = _absent(reader, label, numbers)
        paths = [stack.enter_context(targets.place(file)) for file in files]
        new = [stack.enter_context(replaced_after(path, DataError)) for path in paths]
        with ExitStack() as open_files:
            writers = [
                open_files.enter_context(one.create(path, reader.fields, sources, place))
                for one, path, place in zip(written, paths, new, strict=True)
            ]
            distribute(reader, numbers, writers)
        for one, file, place, writer in zip(written, files, new, writers, strict=True):
            one.written(file, place, reader.fields, writer, is_part=True)
    for file, classes in zip(files, absent, strict=True):
        if classes:
            several = f"{len(classes)} classes, such as {classes[0]!r}" if len(classes) > 1 else f"class {classes[0]!r}"
            warn(f"{file}: it has no record of {several}: there are too few for every part")
    sizes = {file: len(part) for file, part in zip(files, numbers, strict=True)}
    if as_json:
        print_json({"seed": seed, "parts": sizes})
        return
    for path, size in sizes.items():
        click.echo(f"wrote {path}: {count_text(size)}")


def _split(parts: Sequence[str], seed: int, group: str | None) -> tuple[list[str], dict[str, Any]]:
    """Return the files of the parts, and how to split, as sources have it."""
    fractions: dict[str, float] = {}
    places = set[Path | str]()
    for part in parts:
        name, _, written = part.rpartition("=")
        try:
            fraction = float(written)
        except ValueError:
            name = ""
        if not name:
            raise ConfigError(f"--part {part}: it must be a file and its fraction of the records", "write train.h5=0.8")
        place = name if is_url(name) else Path(name).resolve()
        if place in places:
            raise ConfigError(f"--part {part}: {name} is named twice", "give each part a file of its own")
        places.add(place)
        fractions[name] = fraction
    split: dict[str, Any] = {"fractions": fractions, "seed": seed, "group": group or ""}
    for complaint in split_complaints({**split, "part": next(iter(fractions))}):
        raise ConfigError(complaint)
    return [*fractions], split


def _label(reader: Reader) -> str:
    """Return the field that sources take for the classes, or ""."""
    fields = reader.fields.items()
    return next((name for name, field in fields if field.shape in ONE_NUMBER and np.dtype(field.dtype).kind != "f"), "")


def numbers_of(where: str, reader: Reader, label: str, split: Mapping[str, Any]) -> list[np.ndarray]:
    """Return the numbers of the records in each part.

    Raises:
        DataError: a part has no record, or there is no such field.
    """
    column = split["group"] or label
    columns: dict[str, np.ndarray] = {}
    if column in reader.fields:
        check_one_number(where, column, reader.fields[column].shape)
        columns[column] = _column(reader, column)
    count = reader.count if reader.count is not None else sum(1 for _ in reader.rows())
    if not count:
        raise DataError(f"{where}: there are no records")
    records = ArrayRecords(where, ["record"], [np.arange(count)], columns)
    return [part_of(where, records, label, {**split, "part": part}).numbers for part in split["fractions"]]


def _absent(reader: Reader, label: str, numbers: Sequence[np.ndarray]) -> list[list[str]]:
    """Return the names of the classes of which each part has no record, although there are some."""
    names = reader.fields[label].classes if label in reader.fields else ()
    if not names:
        return [[] for _ in numbers]
    values = _column(reader, label).reshape(-1)
    known = {*values.tolist()}
    return [[names[one] for one in sorted(known - {*values[part].tolist()})] for part in numbers]


def _column(reader: Reader, name: str) -> np.ndarray:
    """Return the numbers of a field of all records."""
    if reader.count is None:
        return np.array([row[name] for row in reader.rows()])
    values = np.empty((reader.count, *(reader.fields[name].shape or ())), reader.fields[name].dtype)
    reader.read(np.arange(reader.count), {name: values})
    return values


def distribute(reader: Reader, numbers: Sequence[np.ndarray], writers: Sequence[Writer]) -> None:
    """Append each record to the writer of its part, in the order of the file."""
    with progress(reader.count) as show:
        for first, rows in some_at_a_time(reader):
            last = first + length(rows)
            for part, writer in zip(numbers, writers, strict=True):
                mine = part[np.searchsorted(part, first) : np.searchsorted(part, last)] - first
                if len(mine):
                    chosen = {
                        name: [values[row] for row in mine] if isinstance(values, list) else values[mine]
                        for name, values in rows.items()
                    }
                    names = keys(reader, range(first, last))
                    writer.append(chosen, [names[row] for row in mine] if names else [])
            show(last)
