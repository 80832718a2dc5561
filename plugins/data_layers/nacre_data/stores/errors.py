"""Errors that several stores raise."""

from __future__ import annotations

from collections.abc import Sequence

from nacre import DataError


class NeedsFields(DataError):
    """A file cannot be read before these `fields` of its store are given; the remedy says so in words."""

    def __init__(self, message: str, remedy: str = "", fields: Sequence[str] = ()) -> None:
        super().__init__(message, remedy)
        self.fields = tuple(fields)


class NeedsShape(DataError):
    """A format that holds records of one shape cannot hold a field whose records differ."""
