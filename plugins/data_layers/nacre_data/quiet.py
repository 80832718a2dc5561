"""Calls whose warnings are not shown: which ones are shown is a setting of the whole process, not of one thread."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager

from nacre import process_lock

LOCK = process_lock()
"""Else of two threads the second would bring back, at its end, what the first has set, for good."""


@contextmanager
def quiet() -> Generator[None]:
    """Show no warning in the block; one thread at a time."""
    with LOCK, warnings.catch_warnings(action="ignore"):
        yield
