"""Data in the form that JSON can hold."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, cast


def finite(data: Any) -> Any:
    """Return the same data with None for every number that JSON cannot hold (NaN and infinities)."""
    if isinstance(data, Mapping):
        return {str(key): finite(value) for key, value in cast("Mapping[Any, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in cast("Sequence[Any]", data)]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data


def event_line(event: str, data: Mapping[str, Any], begun: float) -> str:
    """Return the line of a log for an event of a training: its name, `clock` (seconds since `begun`), its values."""
    entry = {"event": event, "clock": round(time.perf_counter() - begun, 3), **data}
    return json.dumps(finite(entry), ensure_ascii=False) + "\n"


def is_log(file: BinaryIO) -> bool:
    """Return whether a file begins with a line of `event_line`."""
    return re.match(rb'\{"event": "[^"\n]*", "clock": [0-9.]+[,}]', file.read(200)) is not None
