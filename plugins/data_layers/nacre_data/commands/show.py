"""`nacre data show`: what is in files of records."""

from __future__ import annotations

import sys
from collections import Counter
from math import sqrt
from pathlib import Path
from typing import Any

import click
import numpy as np

from nacre import Field, Reader, as_named, store_of, type_name
from nacre.cli import common, json_option, print_json, print_table

from ..records import ONE_NUMBER
from .bad import reason, tried
from .options import (
    Sources,
    check_target,
    count_text,
    length,
    overwrite_option,
    progress,
    shape_option,
    shape_text,
    sources_options,
)
from .sheet import Sheet

MOST_LISTED = 100  # classes, in a table
MOST_BAD = 20  # records that cannot be read, in a table
MOST_CLASSES = 1000  # different numbers of a field that are counted, if they have no names


@click.command()
@sources_options
@shape_option
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Read only the first N records.")
@click.option("--picture", type=click.Path(path_type=Path), metavar="FILE.png", help="Write the first pictures there.")
@overwrite_option
@json_option
@common
def command(
    sources: Sources, shape: str | None, limit: int | None, picture: Path | None, overwrite: bool, as_json: bool
) -> int:
    """Show the fields of the records, their statistics and classes.

    Minimum, maximum, mean and standard deviation are of all numbers of a field that are finite. Records that cannot be
    read are named, and the exit code is 2 if there are any.
    """
    if picture:
        check_target(picture, overwrite=overwrite)
    with sources.open(shape) as reader:
        sheet = Sheet(picture, reader.fields, str(sources.paths[0])) if picture else None
        found = {name: Statistics(field) for name, field in reader.fields.items()}
        bad: dict[int, Exception] = {}
        count = look(reader, found, sheet, limit, bad)
        total = count if reader.count is None and limit is None else reader.count
        unread = [_unread(sources, reader.key(number), number, error) for number, error in bad.items()]
    if sheet:
        sheet.write()
    stores = sorted({type_name(type(store_of(path, sources.store))) for path in sources.paths})
    if as_json:
        fields = {name: one.told() for name, one in found.items()}
        print_json({"store": stores, "records": total, "read": count, "bad": unread, "fields": fields})
        return 2 if bad else 0
    click.echo(f"{', '.join(stores)}: {'an unknown number of records' if total is None else count_text(total)}")
    if count != total:
        click.echo(f"the first {count_text(count)}:")
    click.echo()
    head = ("field", "shape", "type", "minimum", "maximum", "mean", "deviation")
    print_table(head, [one.row(name) for name, one in found.items()], right=(3, 4, 5, 6))
    for name, one in found.items():
        if one.not_finite:
            click.echo(f"\n{name}: {one.not_finite:,} numbers are not finite")
        rows = one.class_rows()
        if len(rows) > MOST_LISTED:
            click.echo(f"\n{name}: {len(rows):,} classes, such as {rows[0][1]}; --json lists them")
        elif rows:
            click.echo()
            print_table((name, "class", "records", "share"), rows, right=(0, 2, 3))
    if sheet:
        click.echo(f"\nwrote {picture}: the first {count_text(len(sheet.shown))}")
    if bad:
        click.echo()
        print_table(("record", "reason"), [(one["key"], one["reason"]) for one in unread[:MOST_BAD]])
        more = "; nacre data verify lists all" if len(bad) > MOST_BAD else ""
        click.echo(f"\n{len(bad):,} of {count_text(count)} cannot be read{more}")
        for remedy in {sources.remedy(error): True for error in bad.values()}:
            click.echo(f"  {remedy}")
    return 2 if bad else 0


def look(
    reader: Reader, found: dict[str, Statistics], sheet: Sheet | None, limit: int | None, bad: dict[int, Exception]
) -> int:
    """Read the records, at most `limit`; return their number, with those that cannot be read: `bad`."""
    count = 0
    with progress(limit or reader.count) as show:
        for first, rows in tried(reader):
            if isinstance(rows, Exception):
                bad[first] = rows
                count = first + 1
            else:
                count = min(first + length(rows), limit or sys.maxsize)
                for name, one in found.items():
                    one.add(rows[name][: count - first])
                if sheet:
                    sheet.add(rows[sheet.name][: count - first])
            show(count)
            if count == limit:
                break
    return count


def _unread(sources: Sources, key: str, number: int, error: Exception) -> dict[str, Any]:
    """Return what is told of a record that cannot be read; of several files its key has the file."""
    where = as_named(str(sources.paths[0])) if len(sources.paths) == 1 else ""
    return {"key": key, "reason": reason(error, where, key), "record": number}


class Statistics:
    """Minimum, maximum, mean and deviation of a field, and how many records each class has.

    Means and squared deviations of blocks are joined as by Chan, Golub and LeVeque, "Updating formulae and a pairwise
    algorithm for computing sample variances", 1979.
    """

    def __init__(self, field: Field) -> None:
        self.field = field
        self.size = self.not_finite = 0
        self.mean = self.squares = 0.0
        self.least: float | None = None
        self.most: float | None = None
        whole = field.shape in ONE_NUMBER and np.dtype(field.dtype).kind in "biu"
        self.counts: Counter[int] | None = Counter() if whole else None

    def add(self, rows: Any) -> None:
        """Add the records of a block."""
        for block in rows if isinstance(rows, list) else [rows]:
            self._add(np.asarray(block))
        if self.counts is not None:
            values, counts = np.unique(np.asarray(rows), return_counts=True)
            self.counts.update(dict(zip(map(int, values), map(int, counts), strict=True)))
            if len(self.counts) > MOST_CLASSES and not self.field.classes:
                self.counts = None  # they count something else

    def _add(self, block: np.ndarray) -> None:
        numbers = block[np.isfinite(block)]
        self.not_finite += block.size - numbers.size
        if not numbers.size:
            return
        least, most = numbers.min().item(), numbers.max().item()
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)
        exact = numbers.astype(np.float64)
        mean = float(exact.mean())
        squares = float(np.square(exact - mean).sum())
        size, apart = self.size + numbers.size, mean - self.mean
        self.mean += apart * numbers.size / size
        self.squares += squares + apart * apart * self.size * numbers.size / size
        self.size = size

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the numbers, as of a whole population."""
        return sqrt(self.squares / self.size) if self.size else None

    def told(self) -> dict[str, Any]:
        """Return all of it as data for JSON."""
        return {
            "shape": self.field.shape,
            "type": self.field.dtype,
            "minimum": self.least,
            "maximum": self.most,
            "mean": self.mean if self.size else None,
            "deviation": self.deviation,
            "not_finite": self.not_finite,
            "classes": self.classes(),
        }

    def row(self, name: str) -> tuple[str, ...]:
        """Return the row of the table."""
        mean = self.mean if self.size else None
        return (
            name,
            shape_text(self.field),
            self.field.dtype,
            *map(_text, (self.least, self.most, mean, self.deviation)),
        )

    def class_rows(self) -> list[tuple[str, str, str, str]]:
        """Return the rows of the classes: number, name, records, share."""
        rows = self.classes() or []
        total = sum(row["records"] for row in rows) or 1
        shown = {number: _shown(name) for number, name in enumerate(self.field.classes)}
        return [
            (
                str(row["number"]),
                shown.get(row["number"], ""),
                f"{row['records']:,}",
                f"{100 * row['records'] / total:.2f} %",
            )
            for row in rows
        ]

    def classes(self) -> list[dict[str, Any]] | None:
        """Return number, name and records of each class; None if the field counts none."""
        if self.counts is None:
            return None
        names = dict(enumerate(self.field.classes))
        return [
            {"number": number, "name": names.get(number, ""), "records": self.counts[number]}
            for number in sorted({*names, *self.counts})
        ]


def _text(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def _shown(name: str) -> str:
    """Return the name of a class, in quotes if it is empty or has blanks at its ends, which nobody would see."""
    return name if name and name == name.strip() else repr(name)
