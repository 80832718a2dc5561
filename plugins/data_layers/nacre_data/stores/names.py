"""Names of fields, for formats that hold pictures and labels but no names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nacre import DataError

DATA, LABEL = "data", "label"


def parts_of(fields: Sequence[str]) -> dict[str, str]:
    """Return which part of a file each of these fields is, "data" or "label"; "" if there is no part for it.

    The two names themselves mean their parts, wherever they stand; other names are given to what is left, in order.
    """
    free = iter([part for part in (DATA, LABEL) if part not in fields])
    return {name: name if name in (DATA, LABEL) else next(free, "") for name in fields}


def data_and_label(where: str | Path, fields: Sequence[str]) -> dict[str, str]:
    """Return the wanted name of each part of a file, as `parts_of` finds them; by default of both.

    Raises:
        DataError: more than two names are wanted.
    """
    if len(fields) > 2:
        message = f"{where}: it holds pictures and labels, but {len(fields)} fields are wanted: {', '.join(fields)}"
        raise DataError(message, "name two fields at most")
    return {part: name for name, part in parts_of(fields or (DATA, LABEL)).items()}
