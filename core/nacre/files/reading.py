"""Files that another program may change while nacre reads them."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

from ..errors import DataError, NacreError, where_it_is
from .durable import explained

REMEDY = "do not change a file while it is read: write a new one, and rename it to this name when it is complete"


def check_file(path: Path, wanted: str, error: type[NacreError] = DataError) -> None:
    """Raise `error` unless `path` is a regular file; `wanted` names what it should be, such as "an HDF5 file"."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise error(f"{path}: no such file", where_it_is(path)) from None
    except OSError as problem:
        raise error(*explained(path, "cannot be read", problem)) from problem
    if not S_ISREG(mode):  # reading a pipe or a device might never end
        raise error(f"{path}: not a file", f"give the path of {wanted}")


class Watched:
    """An open data file; reading it raises an error if it is changed or cut meanwhile.

    A part that was cut off reads as zeros in some formats, and ends the process if the file is mapped into memory. A
    new file that gets the name of this one does no harm: this one stays as it is. `grows` is for a format that may be
    appended to while it is read, and whose reader knows how far it may read.
    """

    def __init__(self, file: int, where: str, *, grows: bool = False) -> None:
        self.file = file
        self.where = where
        self.grows = grows
        self.before = os.fstat(file)

    @contextmanager
    def reading(self, what: str = "") -> Generator[None]:
        """Raise DataError after the block if the file was changed or cut; `what` is read in it, such as "record 12"."""
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
            message = f"{self.where}: the file was cut {when}: {now.st_size:,} of {before.st_size:,} bytes are left"
            raise DataError(message, REMEDY)
        if not self.grows and (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise DataError(f"{self.where}: the file was changed {when}", REMEDY)


@contextmanager
def unchanged(path: Path, *, grows: bool = False) -> Generator[None]:
    """Raise DataError after the block, which reads the whole file, if the file was changed or cut meanwhile."""
    with path.open("rb") as file, Watched(file.fileno(), str(path), grows=grows).reading():
        yield
