"""`nacre data verify`: reads every record, and lists those that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from nacre import Codec, DataError, Field, NacreError, Reader, as_named, blocks, make_component, store_of
from nacre.cli import common, json_option, print_json, print_table

from .options import Sources, block_size, count_text, progress, sources_options

PROBLEMS = (NacreError, OSError)


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
        with store_of(path, sources.store).open(path, sources.fields) as reader, progress(reader.count) as show:
            for number, problem in checked(reader):
                show(number + 1)
                count += 1
                if problem:
                    bad.append(
                        {"file": as_named(str(path)), **_found(path, reader.key(number), problem), "record": number}
                    )
    if as_json:
        print_json({"records": count, "bad": bad})
    elif bad:
        print_table(("file", "record", "reason"), [(one["file"], one["key"], one["reason"]) for one in bad])
        click.echo(f"\n{len(bad):,} of {count_text(count)} cannot be used")
    else:
        click.echo(f"{count_text(count)}: all can be used")
    return 2 if bad else 0


def _found(path: Path, key: str, problem: str) -> dict[str, str]:
    """Return a record's key and what is wrong with it, which many messages begin with the key."""
    return {"key": key, "reason": problem.removeprefix(f"{as_named(str(path))}: ").removeprefix(f"{key}: ")}


def checked(reader: Reader) -> Iterator[tuple[int, str]]:
    """Yield for each record its number and what is wrong with it, or ""."""
    check = _Check(reader.fields)
    if reader.count is None:
        yield from _in_order(reader, check)
        return
    size = block_size(reader.fields)
    for first in range(0, reader.count, size):
        last = min(first + size, reader.count)
        try:
            _, rows = next(blocks(reader, first, size))
        except PROBLEMS:  # one of them: each is read alone
            yield from ((number, _alone(reader, check, number)) for number in range(first, last))
        else:
            yield from ((number, check.problem(rows, number - first)) for number in range(first, last))


def _alone(reader: Reader, check: _Check, number: int) -> str:
    try:
        _, rows = next(blocks(reader, number, 1))
    except PROBLEMS as error:
        return _said(error)
    return check.problem(rows, 0)


def _in_order(reader: Reader, check: _Check) -> Iterator[tuple[int, str]]:
    """As `checked`, of records without numbers: behind one that cannot be read there is nothing to be read."""
    rows, number = reader.rows(), 0
    while True:
        try:
            row = next(rows, None)
        except PROBLEMS as error:
            yield number, _said(error)
            return
        if row is None:
            return
        yield number, check.problem({name: [value] for name, value in row.items()}, 0)
        number += 1


class _Check:
    """Says what is wrong with a record that could be read."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.fields = fields
        self.codecs = {name: make_component(Codec, field.codec) for name, field in fields.items() if field.codec}

    def problem(self, rows: Mapping[str, Any], row: int) -> str:
        """Return what is wrong with a record of a block, or ""."""
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
                return _said(error)
        return ""


def _said(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, NacreError) else str(error)
