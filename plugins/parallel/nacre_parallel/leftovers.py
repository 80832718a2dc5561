"""Leftovers: shared memory that no process uses any more."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

NEW = 60  # seconds
PROCESSES = Path("/proc")


def unused(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files of this user in a folder that have such names, and that no process has open or mapped.

    A file may be new, and not yet opened by those that it was made for: one of the last minute is left out.
    """
    if not folder.is_dir() or not PROCESSES.is_dir():
        return []
    named = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    before = time.time() - NEW
    ours = [path for path in named if path.is_file() and path.stat().st_uid == os.getuid()]
    ours = [path for path in ours if path.stat().st_mtime < before]
    used = _used() if ours else set()
    return [path for path in ours if str(path) not in used]


def _used() -> set[str]:
    """Return the files that the processes have open or mapped, as far as this user may see."""
    found: set[str] = set()
    for process in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            for line in (process / "maps").read_text().splitlines():
                found.add(line.partition("/")[1] + line.partition("/")[2])
        with suppress(OSError):
            for opened in (process / "fd").iterdir():
                with suppress(OSError):
                    found.add(str(opened.readlink()))
    return found
