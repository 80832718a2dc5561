"""Joined: the records of several files, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any, cast

import numpy as np

from ..errors import DataError
from ..protocols.data_store import Field, Reader, Rows, located
from .classes import renumbered
from .columns import check_columns, check_own_column

OPEN_FILES = 64  # at a time: a process may have only some hundreds


class Joined(Reader):
    """The records of files, of which only some are open at a time; each of `openers` opens the file of its path.

    Classes are those of the first file, and then those that others have besides; the numbers of all become those.

    Raises:
        DataError: a file cannot be read, or does not match the first one.
    """

    def __init__(self, paths: Sequence[str], openers: Sequence[Callable[[], Reader]]) -> None:
        self.paths = paths
        self.openers = openers
        self.opened: dict[int, Reader] = {}
        self.interrupted = False
        self.counts: list[int | None] = []
        self.found: list[Mapping[str, Field]] = []
        self.known: dict[str, dict[str, int]] = {}
        """The number of each class, by field."""
        try:
            for place in range(len(paths)):
                self._look_into(place, self._reader(place))
        except BaseException:
            self.close()
            raise
        self.changes = [*map(self._numbers, self.found)]
        self.count = None if None in self.counts else sum(cast("list[int]", self.counts))
        self.file_starts = (*accumulate((count or 0 for count in self.counts), initial=0),)

    def _look_into(self, place: int, reader: Reader) -> None:
        """Note what has to be known of a file, which must match the first one."""
        if not place:
            self.fields: Mapping[str, Field] = reader.fields
        fields: dict[str, Field] = {}
        for name, field in self.fields.items():
            self._check(self.paths[place], name, reader.fields.get(name), field)
            known = self.known.setdefault(name, {})
            new = [one for one in reader.fields[name].classes if one not in known]
            for number, one in enumerate(new, len(field.classes) if place else 0):
                known.setdefault(one, number)
            fields[name] = replace(field, classes=(*field.classes, *new)) if place else field
        self.fields = fields
        self.counts.append(reader.count)
        self.found.append(reader.fields)
        self.named |= reader.named

    def _numbers(self, found: Mapping[str, Field]) -> dict[str, np.ndarray]:
        """Return for the fields of a file that number classes otherwise the number of each of its classes here."""
        return {
            name: np.array([self.known[name][one] for one in found[name].classes], np.int64)
            for name, field in self.fields.items()
            if found[name].classes != field.classes
        }

    def _check(self, path: str, name: str, there: Field | None, here: Field) -> None:
        if there is None:
            raise DataError(f"{path}: it has no field '{name}', but {self.paths[0]} has it")
        if there.codec != here.codec:
            kinds = [field.codec or "numbers" for field in (there, here)]
            raise DataError(f"{path}: '{name}' is stored as {kinds[0]}, but in {self.paths[0]} as {kinds[1]}")
        if there.shape != here.shape or there.dtype != here.dtype:
            raise DataError(
                f"{path}: '{name}' has records of shape {there.shape} and type {there.dtype}, but in {self.paths[0]} "
                f"they have shape {here.shape} and type {here.dtype}"
            )
        check_own_column(str(path), name, there.columns, here.columns, f"in {self.paths[0]}")
        check_columns(f"{path}: '{name}'", there.columns, here.columns, f"in {self.paths[0]}")
        if bool(there.classes) != bool(here.classes):
            has = f"{path}: '{name}' has {'' if there.classes else 'no '}names of classes, unlike {self.paths[0]}"
            raise DataError(has, "name the classes in all files, or in none")

    def _reader(self, place: int) -> Reader:
        """Return the reader of a file; open it if needed, and close another one if too many are open."""
        reader = self.opened.pop(place, None)
        if reader is None:
            closable = [one for one, other in self.opened.items() if other.count is not None]
            if len(closable) >= OPEN_FILES:
                self.opened.pop(closable[0]).close()  # the one that was not used for the longest time
            if self.interrupted:
                raise DataError(f"{self.paths[place]}: it was closed while it was read")
            reader = self.openers[place]()
            if place < len(self.found) and (reader.fields, reader.count) != (self.found[place], self.counts[place]):
                reader.close()
                message = f"{self.paths[place]}: its records are others than when it was opened first"
                raise DataError(message, "do not change files while they are read")
        self.opened[place] = reader
        return reader

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        if len(self.paths) == 1:
            self._reader(0).read(numbers, out)
            return
        places = np.searchsorted(self.file_starts, numbers, "right") - 1
        for place in cast("list[int]", np.unique(places).tolist()):
            rows = np.flatnonzero(places == place)
            part = {name: _places(values, rows) for name, values in out.items()}
            self._reader(place).read(numbers[rows] - self.file_starts[place], part)
            for name, values in part.items():
                if isinstance(values, list):
                    for row, value in zip(rows.tolist(), cast("list[Any]", values), strict=True):
                        out[name][row] = value
                elif name in self.changes[place]:
                    out[name][rows] = self._changed(place, name, values)
                elif values.base is not out[name]:
                    out[name][rows] = values

    def rows(self, start: int = 0) -> Iterator[Rows]:
        if len(self.paths) == 1:
            yield from self._reader(0).rows(start)
            return
        if self.count is not None:
            yield from super().rows(start)
            return
        for place, changes in enumerate(self.changes):
            reader = self._reader(place)
            if reader.count is None:  # how many of its records are skipped is known only when they are read
                rows = reader.rows()
                start -= sum(1 for _ in islice(rows, start))
            else:
                rows, start = reader.rows(start), max(0, start - reader.count)
            for row in rows:
                yield {
                    name: self._changed(place, name, value) if name in changes else value for name, value in row.items()
                }

    def _changed(self, place: int, name: str, values: Any) -> np.ndarray:
        known = len(self.fields[name].classes)
        return renumbered(values, self.changes[place][name], known, f"{self.paths[place]}: '{name}': ")

    def key(self, number: int) -> str:
        if len(self.paths) == 1:
            return self._reader(0).key(number)
        if self.count is None:
            return super().key(number)
        place = int(np.searchsorted(self.file_starts, number, "right")) - 1
        return located(self.paths[place], self._reader(place).key(number - self.file_starts[place]))

    def pause(self) -> None:
        for place in [place for place, reader in self.opened.items() if reader.count is not None]:
            self.opened.pop(place).close()

    def interrupt(self) -> None:
        self.interrupted = True
        for reader in list(self.opened.values()):
            reader.interrupt()

    def close(self) -> None:
        with ExitStack() as all_of_them:
            while self.opened:
                all_of_them.callback(self.opened.popitem()[1].close)


def _places(values: Any, rows: np.ndarray) -> Any:
    """Return places for these rows of a field: those in `values`, if the rows follow each other."""
    if isinstance(values, list):
        return [None] * len(rows)
    if rows[-1] - rows[0] == len(rows) - 1:
        return values[rows[0] : rows[-1] + 1]
    return np.empty((len(rows), *values.shape[1:]), values.dtype)
