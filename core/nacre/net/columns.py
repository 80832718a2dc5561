"""Columns of tables: joined by their names; others, or another order, are not taken for those of training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from ..protocols.data_store import Field, Reader, ReaderWrapper, Rows, empty_rows

COLUMNS = "columns"
"""The key of the list of names of columns from which the numbers of a top are."""


def check_own_column(
    where: str, own: str, names: Sequence[str], known: Sequence[str], those: str = "in training"
) -> None:
    """Check that a field which was the column of its `own` name is it again: another column would be a guess.

    `names` are those of the field's columns, `known` those that it had.

    Raises:
        DataError: other columns stand for it.
    """
    if names and [*known] == [own] != [*names]:
        found = f"another would be taken: {names[0]!r}" if len(names) == 1 else f"there are {_listed(names)}"
        raise DataError(f"{where}: there is no column {own!r}, which was one {those}; {found}", f"add a column {own}")


def check_columns(where: str, names: Sequence[str], known: Sequence[str], those: str = "in training") -> None:
    """Raise DataError if a column has another place among `names` than among the `known` ones `those`."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(known):
        places.setdefault(name, []).append(place)
    for place, name in enumerate(names):
        there = places.get(name, [place])
        if place not in there:
            raise DataError(
                f"{where}: column {name!r} comes at place {place}, counted from 0, but {those} at place {there[0]}",
                f"name the columns in one order: data = [{_listed(known)}]",
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")


def columns_in(fields: Mapping[str, Field]) -> dict[str, tuple[str, int | None]]:
    """Return where each column of a file is: its field, and its place there, None in a field of one number."""
    found: dict[str, tuple[str, int | None]] = {}
    for name, field in fields.items():
        if field.columns and field.shape:
            found |= {column: (name, place) for place, column in enumerate(field.columns)}
        elif _is_one(field):
            found |= dict.fromkeys((*field.columns, name)[:1], (name, None))
    return found


def as_table(fields: Mapping[str, Field], own: Collection[str]) -> dict[str, Field]:
    """Return fields as a table has them: all of one number are the columns of one field, but for texts and `own` names.

    Such a field has the names of all, as messages list them.
    """
    loose = {
        name: None
        for name, field in fields.items()
        if _is_one(field) and not field.columns and not field.classes and name not in own
    }
    if len(loose) < 2:
        return {**fields}
    kind = np.result_type(*(fields[name].dtype for name in loose))
    rest = {name: field for name, field in fields.items() if name not in loose}
    return {"', '".join(loose): Field((len(loose),), str(kind), columns=tuple(loose)), **rest}


def columns_of(fields: Mapping[str, Field], name: str) -> tuple[str, ...]:
    """Return the names of a field's columns: its own, if it is one beside others of one number each."""
    field = fields[name]
    beside = len(as_table(fields, {name})) < len(fields)
    return tuple(field.columns) or ((name,) if _is_one(field) and beside else ())


class Columns(ReaderWrapper):
    """Some columns of a file as one field: of a table, or fields of one number each, as in lines of JSON.

    Raises:
        DataError: a column holds texts; the message begins with `where`.
    """

    def __init__(self, reader: Reader, where: str, name: str, columns: Sequence[str]) -> None:
        super().__init__(reader)
        self.name = name
        places = columns_in(reader.fields)
        self.places = [places[column] for column in columns]
        self.wanted = {field: reader.fields[field] for field, _ in self.places}
        for column, (field, _) in zip(columns, self.places, strict=True):
            if classes := self.wanted[field].classes:
                message = f"{where}: column {column!r} holds texts, such as {classes[0]!r}, but must hold numbers"
                raise DataError(message, "write numbers there")
        kind = np.result_type(*(field.dtype for field in self.wanted.values()))
        self.fields: Mapping[str, Field] = {name: Field((len(columns),), str(kind), columns=tuple(columns))}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        if self.name in out:
            rows = empty_rows(self.wanted, len(numbers))
            self.reader.read(numbers, rows)
            for column, (field, place) in enumerate(self.places):
                out[self.name][:, column] = rows[field].reshape(len(numbers), -1)[:, place or 0]

    def rows(self, start: int = 0) -> Iterator[Rows]:
        for row in self.reader.rows(start):
            yield {self.name: np.array([np.ravel(row[field])[place or 0] for field, place in self.places])}


def _is_one(field: Field) -> bool:
    return field.shape in ((), (1,)) and not field.codec
