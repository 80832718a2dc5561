"""What must be the same in a file that is continued and in the records to come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nacre import DataError, Field

TEXT, NUMBERS = "text", "numbers"
"""What stands for the type of a field in formats of text, which have names of classes, and numbers without a type."""


def check_continued(where: str | Path, before: Mapping[str, Field], fields: Mapping[str, Field]) -> None:
    """Check that the records of a file that is continued have the same fields as those to come.

    Raises:
        DataError: one is only in one of them, or has another shape or type, or other classes.
    """
    for name in (*before, *fields):
        there, mine = before.get(name), fields.get(name)
        told = [_told(there), _told(mine)]
        if there and mine and told[0] == told[1] and there.classes != mine.classes:
            pairs = zip(there.classes, mine.classes, strict=False)
            place = next((place for place, (one, other) in enumerate(pairs) if one != other), -1)
            what = f"class {place} {{!r}}" if place >= 0 else "{} classes"
            told = [
                f"{told[0]} with {what.format(field.classes[place][:40] if place >= 0 else len(field.classes))}"
                for field in (there, mine)
            ]
        if told[0] != told[1]:
            message = f"{where}: '{name}' is {told[0]}, but to be appended is {told[1]}"
            raise DataError(message, "write records with the same fields, or a new file")


def as_text(field: Field, truths: str = NUMBERS) -> Field:
    """Return what a format of text keeps of a field; `truths` is what it has for the type bool."""
    return Field(field.shape, TEXT if field.classes else truths if np.dtype(field.dtype) == bool else NUMBERS)


def _told(field: Field | None) -> str:
    """Return what a field holds, as an error tells it."""
    if field is None:
        return "nothing"
    kind = field.dtype if field.dtype in (TEXT, NUMBERS) else np.dtype(field.dtype).name
    return f"bytes of codec {field.codec}" if field.codec else f"{kind} of shape {field.shape}"
