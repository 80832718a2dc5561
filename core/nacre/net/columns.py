"""Names of the columns of tables: records whose columns are in another order are not taken for those of training."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DataError

COLUMNS = "columns"
"""The key of the list of names of columns from which the numbers of a top are."""


def check_columns(where: str, names: Sequence[str], known: Sequence[str], those: str = "in training") -> None:
    """Raise DataError if a column has another place among `names` than among the `known` ones `those`."""
    places = {name: place for place, name in enumerate(known)}
    for place, name in enumerate(names):
        if places.get(name, place) != place:
            order = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
            raise DataError(
                f"{where}: column {name!r} comes at place {place}, counted from 0, but {those} at place {places[name]}",
                f"name the columns in one order: data = [{order}]",
            )
