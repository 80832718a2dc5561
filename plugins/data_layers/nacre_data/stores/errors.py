"""Errors that several stores raise."""

from __future__ import annotations

from collections.abc import Sequence

from nacre import DataError


class NeedsFields(DataError):
    """A file can be read if `fields` of its store say how, as the remedy says, too."""

    def __init__(self, message: str, remedy: str = "", fields: Sequence[str] = ()) -> None:
        super().__init__(message, remedy)
        self.fields = tuple(fields)
