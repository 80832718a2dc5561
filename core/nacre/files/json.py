"""Data in the form that JSON can hold."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
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


def json_text(data: Any, *, letters: bool = True, indent: int | None = None) -> str:
    """Return data as JSON, all in ASCII if not `letters`; numbers that are not finite become null.

    Halves of characters, as in names that are not UTF-8, are escaped: no file or stream in UTF-8 holds them.
    """
    text = json.dumps(finite(data), indent=indent, ensure_ascii=not letters)
    return text.encode("utf-8", "backslashreplace").decode()  # a half becomes \udXXX, which is JSON's own escape


def event_line(event: str, data: Mapping[str, Any], begun: float) -> str:
    """Return the line of a log for an event of a training: its name, `clock` (seconds since `begun`), its values."""
    entry = {"event": event, "clock": round(time.perf_counter() - begun, 3), **data}
    return json_text(entry) + "\n"


def begin_line(file: BinaryIO, path: str | Path) -> None:
    """End the last line of a file that is open to append, where whoever wrote it was stopped inside it.

    Raises:
        OSError: nothing can be written.
    """
    about = os.fstat(file.fileno())
    if not S_ISREG(about.st_mode) or not about.st_size or not os.access(path, os.R_OK):
        return
    with open(path, "rb") as written:
        written.seek(-1, os.SEEK_END)
        whole = written.read() == b"\n"
    if not whole:
        file.write(b"\n")
        file.flush()


def is_log(file: BinaryIO) -> bool:
    """Return whether a file begins with a line of `event_line`."""
    return re.match(rb'\{"event": "[^"\n]*", "clock": [0-9.]+[,}]', file.read(200)) is not None
