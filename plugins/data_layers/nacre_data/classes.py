"""Names of classes and their order."""

from __future__ import annotations

import re
from collections.abc import Iterable

WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
"""A whole number that int64 holds."""


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of classes, each once, in the order of code points; if all are whole numbers, by value."""
    once = sorted(set(names))
    return tuple(sorted(once, key=int) if all(map(WHOLE.match, once)) else once)
