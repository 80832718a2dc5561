"""`nacre data verify`: reads every record, and lists those that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
import numpy as np

from nacre import Codec, DataError, Field, Reader, as_named, make_component
from nacre.cli import common, json_option, print_json, print_table

from .bad import PROBLEMS, reason, tried
from .options import Sources, count_text, length, progress, sources_options


@click.command()
@sources_options
@json_option
@common
def command(sources: Sources, as_json: bool) -> int:
    """Read every record, and list the bad ones.

    Bad are records that cannot be read, or that have numbers of no class, or numbers that are not finite. If there are
    any, the exit code is 2.
    """
    bad: list[dict[str, Any]] = []
    count = 0
    for path in sources.paths:
        with sources.open_one(path) as reader, progress(reader.count) as show:
            for number, problem in checked(reader):
                show(number + 1)
                count += 1
                if problem is not None:
                    file, key = as_named(str(path)), reader.key(number)
                    bad.append({"file": file, "key": key, "reason": reason(problem, file, key), "record": number})
    if as_json:
        print_json({"records": count, "bad": bad})
    elif bad:
        print_table(("file", "record", "reason"), [(one["file"], one["key"], one["reason"]) for one in bad])
        click.echo(f"\n{len(bad):,} of {count_text(count)} cannot be used")
    else:
        click.echo(f"{count_text(count)}: all can be used")
    return 2 if bad else 0


def checked(reader: Reader) -> Iterator[tuple[int, Exception | None]]:
    """Yield for each record its number and what is wrong with it."""
    check = _Check(reader.fields)
    for first, rows in tried(reader):
        if isinstance(rows, Exception):
            yield first, rows
        else:
            yield from ((first + row, check.problem(rows, row)) for row in range(length(rows)))


class _Check:
    """Says what is wrong with a record that could be read."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.fields = fields
        self.codecs = {name: make_component(Codec, field.codec) for name, field in fields.items() if field.codec}

    def problem(self, rows: Mapping[str, Any], row: int) -> Exception | None:
        """Return what is wrong with a record of a block."""
        for name, field in self.fields.items():
            value = rows[name][row]
            try:
                if name in self.codecs:
                    self.codecs[name].decode(value, {})
                elif not np.isfinite(value).all():
                    raise DataError(f"'{name}' has numbers that are not finite")
                elif field.classes and not np.all((value >= 0) & (value < len(field.classes))):
                    raise DataError(
                        f"'{name}' is {value}, but there are {len(field.classes)} classes, from number 0 on"
                    )
            except PROBLEMS as error:
                return error
        return None
