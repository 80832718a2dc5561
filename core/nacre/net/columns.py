"""Names of the columns of tables: other columns, or another order of them, are not taken for those of training."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DataError

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
    places = {name: place for place, name in enumerate(known)}
    for place, name in enumerate(names):
        if places.get(name, place) != place:
            raise DataError(
                f"{where}: column {name!r} comes at place {place}, counted from 0, but {those} at place {places[name]}",
                f"name the columns in one order: data = [{_listed(known)}]",
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
