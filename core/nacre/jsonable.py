"""Data as JSON can say it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast


def finite(data: Any) -> Any:
    """Give the same data with None for every number that JSON cannot say."""
    if isinstance(data, Mapping):
        return {str(key): finite(value) for key, value in cast("Mapping[Any, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in cast("Sequence[Any]", data)]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
