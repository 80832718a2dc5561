"""`nacre data mean`: the mean of all records, as the transformer SubMean reads it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from nacre import DataError, Field, Reader
from nacre.cli import OutputFile, common, json_option, print_json
from nacre.files import replaced_after

from .options import (
    Sources,
    Targets,
    count_text,
    progress,
    shape_option,
    some_at_a_time,
    sources_options,
    targets_options,
)


@click.command()
@sources_options
@click.argument("target", metavar="OUT.h5", type=OutputFile())
@click.option("--per-channel", is_flag=True, help="One number for each channel, the first axis of a record.")
@targets_options
@shape_option
@json_option
@common
def command(
    sources: Sources, target: Path | str, per_channel: bool, targets: Targets, shape: str | None, as_json: bool
) -> None:
    """Write the mean of all records of a field.

    It is of the first field, or of the one that --field names. SubMean's mean_file reads the dataset "mean" of an HDF5
    file.
    """
    with sources.open(shape) as reader:
        mean, count = mean_of(reader, next(iter(reader.fields)), str(sources.paths[0]))
    if per_channel and mean.ndim:
        mean = mean.reshape(len(mean), -1).mean(axis=1)
    mean = np.atleast_1d(mean)
    fields = {"mean": Field(mean.shape[1:], "float64")}
    with targets.place(target) as path, replaced_after(path, DataError) as new:
        with targets.create(path, fields, sources, new) as writer:
            writer.append({"mean": mean})
        targets.written(target, new, fields, writer)
    if as_json:
        print_json({"target": str(target), "records": count, "shape": mean.shape, "mean": float(mean.mean())})
    else:
        click.echo(f"wrote {target}: the mean of {count_text(count)}, shape {mean.shape}")


def mean_of(reader: Reader, name: str, where: str) -> tuple[np.ndarray, int]:
    """Return the mean of a field in float64, and the number of records.

    Raises:
        DataError: there are no records, their shapes differ, or some numbers are not finite.
    """
    shape, count = reader.fields[name].shape, 0
    if shape is None:
        message = f"{where}: the records of '{name}' have different shapes, so they have no mean"
        raise DataError(message, "give one to which they are scaled, such as --shape 3,32,32")
    total = np.zeros(shape)
    with progress(reader.count) as show:
        for first, rows in some_at_a_time(reader):
            block = rows[name]
            finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
            if not finite.all():
                key = reader.key(first + int(finite.argmin()))
                raise DataError(
                    f"{where}: {key}: '{name}' has numbers that are not finite", "remove or mend this record"
                )
            total += block.sum(axis=0, dtype=np.float64)
            count = first + len(block)
            show(count)
    if not count:
        raise DataError(f"{where}: there are no records, so they have no mean")
    return total / count, count
