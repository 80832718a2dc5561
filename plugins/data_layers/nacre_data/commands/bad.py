"""Records that cannot be read: the commands that only look into files name them, and read on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nacre import NacreError, Reader, ReaderWrapper, blocks

from .options import block_size

PROBLEMS = (NacreError, OSError)

Rows = Mapping[str, Any]


def tried(reader: Reader) -> Iterator[tuple[int, Rows | Exception]]:
    """Yield all records in blocks that need little memory, each with the number of its first record.

    A record that cannot be read is its error. Behind one nothing more can be read if records have no numbers.
    """
    size = block_size(reader.fields)
    if reader.count is None:
        before = _UntilProblem(reader)
        end = 0
        for first, rows in blocks(before, size=size):
            yield first, rows
            end = first + len(next(iter(rows.values())))
        if before.problem is not None:
            yield end, before.problem
        return
    for first in range(0, reader.count, size):
        try:
            _, rows = next(blocks(reader, first, size))
        except PROBLEMS:  # one of them: each is read alone
            for number in range(first, min(first + size, reader.count)):
                yield number, _alone(reader, number)
        else:
            yield first, rows


def reason(error: Exception, where: str, key: str) -> str:
    """Return what is wrong with a record, without the file and the key with which many messages begin."""
    said = str(error.args[0]) if isinstance(error, NacreError) else str(error)
    return said.removeprefix(f"{where}: ").removeprefix(f"{key}: ")


def _alone(reader: Reader, number: int) -> Rows | Exception:
    try:
        return next(blocks(reader, number, 1))[1]
    except PROBLEMS as error:
        return error


class _UntilProblem(ReaderWrapper):
    """The records of a reader up to the first that cannot be read, and what is wrong with that."""

    problem: Exception | None = None

    def rows(self, start: int = 0) -> Iterator[Rows]:
        try:
            yield from self.reader.rows(start)
        except PROBLEMS as error:
            self.problem = error
