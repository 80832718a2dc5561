"""Names of fields, for formats that hold pictures and labels but no names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nacre import DataError

DATA, LABEL = "data", "label"


def data_and_label(path: Path, fields: Sequence[str]) -> dict[str, str]:
    """Return the wanted name of each part of a file, "data" or "label"; by default of both.

    The two names themselves mean their parts; other names are given in this order.

    Raises:
        DataError: more than two names are wanted.
    """
    if len(fields) > 2:
        message = f"{path}: it holds pictures and labels, but {len(fields)} fields are wanted: {', '.join(fields)}"
        raise DataError(message, "name two fields at most")
    if set(fields) <= {DATA, LABEL}:
        return {name: name for name in fields or (DATA, LABEL)}
    return dict(zip((DATA, LABEL), fields, strict=False))
