"""Columns of tables: which of them make up which field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nacre import DataError, Field, nearest

from .cells import TEXT, Cells
from .errors import NeedsFields
from .names import DATA, LABEL
from .table_options import TableOptions

NUMBERED = re.compile(r"(.+?)((?:\.[0-9]{1,9})+)", re.DOTALL)
"""What a column with one number of a field is called, such as data.0.2 for a field of two axes."""
BY_PLACE = "rename one, or choose columns by their places, counted from 0: data = [0, 1]"


class Part(NamedTuple):
    """The columns of one field; with the shape () it is one column, of numbers or of texts."""

    columns: tuple[int, ...]
    shape: tuple[int, ...]


def part_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return the names of the columns of a field."""
    return [".".join([name, *map(str, index)]) for index in np.ndindex(shape)]


def columns_of(fields: Mapping[str, Field]) -> tuple[list[str], list[int]]:
    """Return the names of the columns of fields, and the order in which a table has them.

    Names of fields stand for those of columns that are not known, or not different.
    """
    own = [part for name, field in fields.items() for part in part_names(name, field.shape or ())]
    names = [part for name, field in fields.items() for part in (field.columns or part_names(name, field.shape or ()))]
    places = [place for field in fields.values() for place in field.places]
    different = len({*names}) == len(names) == len(own)
    order = sorted(range(len(own)), key=places.__getitem__) if len({*places}) == len(own) else [*range(len(own))]
    return names if different else own, order


def check_names(
    path: Path, names: Sequence[str], columns: Sequence[int] | None = None, remedy: str = "rename them"
) -> None:
    """Raise DataError if two of these columns have one name; by default of all."""
    some = names if columns is None else [names[column] for column in columns]
    for name, count in Counter(some).most_common(1):
        if count > 1:
            raise DataError(f"{path}: {_called_alike(name, names)}", remedy)


def _called_alike(name: str, names: Sequence[str]) -> str:
    """Return which columns have one name, for an error."""
    places = [str(place) for place, other in enumerate(names) if other == name]
    listed = f"{', '.join(places[:4])}{', ...' * (len(places) > 4)}"
    return f"{len(places)} columns are called {name!r}, at the places {listed}, counted from 0"


def check_groups(path: Path, names: Sequence[str], groups: Mapping[str, Part], remedy: str = "rename one") -> None:
    """Raise DataError if a column has the name of a field that several others make up."""
    if both := next((name for name in groups if name in names), None):
        part = names[groups[both].columns[0]]
        raise DataError(f"{path}: the columns {both!r} and {part!r} are both the field {both!r}", remedy)


def groups_of(names: Sequence[str]) -> dict[str, Part]:
    """Return the fields that several columns make up, such as x.0 and x.1; x.0 alone is one, too."""
    groups: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        if found := NUMBERED.fullmatch(name):
            groups.setdefault(found[1], []).append(column)
    parts: dict[str, Part] = {}
    for name, columns in groups.items():
        indexes = [map(int, names[column][len(name) + 1 :].split(".")) for column in columns]
        shape = tuple(1 + max(axis) for axis in zip(*indexes, strict=False))
        if prod(shape) == len(columns) and [names[column] for column in columns] == part_names(name, shape):
            parts[name] = Part(tuple(columns), shape)
    return parts


class Table:
    """What a table has: names of columns, if there is a header, and the line and the cell of each one's first value.

    A first column without a name holds the names of the records.
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        firsts: Sequence[tuple[int, str]],
        cells: Cells,
        options: TableOptions,
    ) -> None:
        self.path = path
        self.names = names
        self.places = dict(zip(names, range(len(names)), strict=True))
        self.counts = Counter(names)
        self.firsts = firsts
        self.cells = cells
        self.options = options
        self.begin = 1 if names and not names[0] else 0
        self.groups = groups_of(names)
        chosen = bool(options.data or options.shape)
        self.by_name = not chosen and (DATA in names or bool(self.groups))
        label = options.label
        absent = label not in names if isinstance(label, str) else label >= len(firsts)
        self.label = None if absent else self.column(label)

    def column(self, wanted: str | int) -> int:
        """Return the number of a column."""
        if isinstance(wanted, int):
            if not 0 <= wanted < len(self.firsts):
                raise DataError(f"{self.path}: there is no column {wanted}: it has {len(self.firsts)}, counted from 0")
            return wanted
        if not self.names:
            message = f"{self.path}: it has no header, so that there is no column {wanted!r}"
            raise DataError(message, "give the column's number, counted from 0, or say header = true")
        if (count := self.counts[wanted]) != 1:
            if count:
                raise DataError(f"{self.path}: {_called_alike(wanted, self.names)}", BY_PLACE)
            near = nearest(wanted, self.names)
            raise DataError(f"{self.path}: there is no column {wanted!r}{near}; {self._known()}")
        return self.places[wanted]

    def _known(self) -> str:
        if not self.names:
            return f"it has no header, and {len(self.firsts)} columns"
        listed = ", ".join(repr(name[:40]) for name in self.names[:20])
        return f"its columns are {listed}{', ...' if len(self.names) > 20 else ''}"

    def called(self, column: int) -> str:
        """Return what a column is called in an error."""
        return f"column {self.names[column][:40]!r}" if self.names else f"column {column} (counted from 0)"

    def names_of(self, part: Part) -> tuple[str, ...]:
        """Return the names of a field's columns; () if there are none, or two that were chosen by place have one."""
        names = tuple(self.names[column] for column in part.columns if self.names)
        return names if len({*names}) == len(names) else ()

    def fields(self, wanted: Sequence[str]) -> dict[str, Part]:
        """Return the columns of each field that is wanted, or of all.

        A field is that of its name. Of the others, the data are `data`, or else the first, and the next is the label.

        Raises:
            DataError: there are no such columns, or the data hold texts.
        """
        if self.label is None and self.options.label not in ("", LABEL) and (len(wanted) != 1 or wanted[0] == LABEL):
            self.column(self.options.label)  # raises an error; only data alone need no label
        if self.by_name:
            check_groups(self.path, self.names, self.groups, BY_PLACE)
        found: dict[str, Part] = {}
        others: list[str] = []
        for name in wanted or self._all():
            if name == LABEL and self.label is not None:
                found[name] = Part((self.label,), ())
            elif name in self.groups and self.by_name:
                found[name] = self.groups[name]
            elif name in self.places and (self.by_name or name != DATA):
                found[name] = Part((self.column(name),), ())
            else:
                others.append(name)
        if others and self.by_name:
            raise DataError(f"{self.path}: it has no field {others[0]!r}; {self._known()}")
        others.sort(key=lambda name: name != DATA)
        for name in others[1:]:
            if self.label is None or len(others) > 2 or LABEL in found:
                raise self._which(name)
            found[name] = Part((self.label,), ())
        if others:
            if others[0] == LABEL:
                raise self._which(LABEL)
            found[others[0]] = self._data(others[0], {column for part in found.values() for column in part.columns})
        return {name: found[name] for name in wanted or self._all()}

    def _all(self) -> list[str]:
        columns = [column for column in range(self.begin, len(self.firsts)) if column != self.label]
        label = [LABEL] if self.label is not None else []
        if self.by_name:
            check_names(self.path, self.names)
            grouped = {column for part in self.groups.values() for column in part.columns}
            return [*self.groups, *(self.names[column] for column in columns if column not in grouped), *label]
        texts = [] if self.options.data or not self.names else self._texts(columns)
        return [DATA] * (len(texts) < len(columns)) + label + [self.names[column] for column in texts]

    def _texts(self, columns: Sequence[int]) -> list[int]:
        return [column for column in columns if self.cells.kind(self.firsts[column][1]) == TEXT]

    def _which(self, name: str) -> DataError:
        message = f"{self.path}: it is not clear which column is {name!r}; {self._known()}"
        return NeedsFields(message, "say label = NAME, or label = NUMBER, counted from 0", ["label"])

    def _data(self, name: str, taken: set[int]) -> Part:
        """Return the columns of the data: those that are chosen, or all that are left."""
        columns, shape = [self.column(one) for one in self.options.data], self.options.shape
        if self.label is not None and self.label in columns:
            message = f"{self.path}: {self.called(self.label)} is the label, but is also among `data`"
            raise DataError(message, "name it in one of the two")
        if not columns:
            others = {*taken, self.label}
            columns = [column for column in range(self.begin, len(self.firsts)) if column not in others]
            check_names(self.path, self.names, columns if self.names else (), BY_PLACE)
        if not columns:
            raise DataError(f"{self.path}: no column is left for {name!r}; {self._known()}")
        if texts := self._texts(columns):
            line, cell = self.firsts[texts[0]]
            raise self.no_number(line, texts[0], cell)
        if shape and prod(shape) != len(columns):
            message = f"{self.path}: shape={shape} are {prod(shape)} numbers, but {name!r} has {len(columns)} columns"
            raise DataError(message, "name them (data), or correct shape")
        return Part(tuple(columns), shape or (len(columns),))

    def no_value(self, line: int, column: int, cell: str, remedy: str, fields: Sequence[str]) -> DataError:
        """Return the error for a missing value."""
        message = f"{self.path}: line {line}: {self.called(column)} has no value ({cell[:40]!r})"
        return NeedsFields(message, remedy, fields)

    def no_number(self, line: int, column: int, cell: str) -> DataError:
        """Return the error for a text where a number must be."""
        comma = "." if self.cells.decimal == "," else ","
        fields = ["data", "label"]
        remedy = 'name the columns of numbers (data = [...]), or the column of the label (label = "...")'
        if Cells("", comma, ()).kind(cell) != TEXT:
            remedy, fields = f'say decimal = "{comma}" if all numbers are written like this', ["decimal"]
        elif self.names:
            remedy += ", or want this column as a field of its own"
        message = f"{self.path}: line {line}: {self.called(column)} is {cell[:40]!r}, which is not a number"
        return NeedsFields(message, remedy, fields)
