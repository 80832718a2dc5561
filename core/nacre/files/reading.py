"""Files that somebody may change while nacre reads them."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DataError

REMEDY = "write a new file beside one that is read, and give it that name when it is whole"


class Watched:
    """An open file of data: whoever reads it learns when it was changed or cut meanwhile.

    What is cut off reads as zeros in some formats, and a map of it in memory ends the process. A file that takes the
    name of this one is another file: this one stays as it is. `grows` is for a format that is appended to while it is
    read, and whose reader knows by itself how far it may read.
    """

    def __init__(self, file: int, where: str, *, grows: bool = False) -> None:
        self.file = file
        self.where = where
        self.grows = grows
        self.before = os.fstat(file)

    @contextmanager
    def reading(self, what: str = "") -> Generator[None]:
        """Read in here `what`, such as "record 12"; afterwards raise DataError if the file was changed or cut."""
        try:
            yield
        except DataError:  # of what was read, which the change explains
            self._check(what)
            raise
        self._check(what)

    def _check(self, what: str) -> None:
        before, now = self.before, os.fstat(self.file)
        when = f"while {what or 'it'} was read"
        if now.st_size < before.st_size:
            told = f"{self.where}: cut {when}: {now.st_size:,} of {before.st_size:,} bytes are left"
            raise DataError(told, REMEDY)
        if not self.grows and (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise DataError(f"{self.where}: changed {when}", REMEDY)


@contextmanager
def unchanged(path: Path, *, grows: bool = False) -> Generator[None]:
    """Read a whole file in here, by whatever means; afterwards raise DataError if it was changed or cut meanwhile."""
    with path.open("rb") as file, Watched(file.fileno(), str(path), grows=grows).reading():
        yield
