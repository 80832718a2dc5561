"""Where a file of records is written: beside its place until it is complete, or in its place, so that it goes on."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from nacre import DataError
from nacre.files import NewFile, hold, os_errors

OTHERS = "another writer"
"""What errors call those that have locked a file."""


class Beside(NewFile):
    """A new file, which gets its name when it is complete; its bytes are written to `stream`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, DataError)
        with self.writing():
            self.stream = io.BufferedRandom(io.FileIO(self.temporary, "r+"))

    def flush(self) -> None:
        """Do nothing: before it is complete, the file has no name."""

    def commit(self) -> None:
        with self.writing():
            self.stream.close()
        super().commit()

    def drop(self) -> None:
        discard(self.stream)
        super().drop()


class InPlace:
    """A file that is continued, or begun, in its place, by one writer at a time; its bytes are written to `stream`.

    What was flushed survives a crash. `drop` leaves what was there before, and so does a `commit` that fails.

    Attributes:
        start: where what was there before ends.
    """

    def __init__(self, path: Path, where: Path | None = None) -> None:
        """Open the file; messages begin with `where`, if it is given.

        Raises:
            DataError: another writer continues it, or it cannot be written.
        """
        self.path = path
        self.where = where or path
        with self.writing():
            file, was_there = open_alone(path, self.where)
            self.stream = io.BufferedRandom(io.FileIO(file, "r+"))
            self.start = self.stream.seek(0, os.SEEK_END)
        self.was_there = was_there or self.start > 0  # another writer may have made it meanwhile

    @contextmanager
    def writing(self) -> Generator[None]:
        """Turn an OSError into a DataError."""
        with os_errors(self.where, "cannot be written", DataError):
            yield

    def cut(self, end: int) -> None:
        """Keep only so many bytes of what was there before."""
        with self.writing():
            self.start = end
            self.stream.truncate(end)
            self.stream.seek(end)

    def flush(self) -> None:
        """Make sure that what was written survives a crash."""
        with self.writing():
            self.stream.flush()
            os.fsync(self.stream.fileno())

    def commit(self) -> None:
        """Complete the file; durable on return."""
        try:
            self.flush()
        except BaseException:
            self.drop()
            raise
        with self.writing():
            self.stream.close()

    def drop(self) -> None:
        """Leave what was there before; nothing if there was no file. After `commit`, do nothing."""
        if self.stream.closed:
            return
        with self.writing():
            try:
                self.stream.raw.truncate(self.start)  # the stream would first write what it holds: the disk may be full
            finally:
                discard(self.stream)
            if not self.was_there:
                self.path.unlink()


def open_alone(path: Path, where: Path) -> tuple[int, bool]:
    """Open a file that only this writer continues until it is closed; return also whether it was there.

    Raises:
        DataError: another writer has it, in this process or another; the message begins with `where`.
        OSError: it cannot be opened.
    """
    while True:
        was_there = path.exists()
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            hold(file, where, DataError, OTHERS)
            removed = not os.fstat(file).st_nlink  # just now, by a writer that had begun it
        except BaseException:
            os.close(file)
            raise
        if not removed:
            return file, was_there
        os.close(file)


def discard(stream: io.BufferedRandom) -> None:
    """Close a file without writing what is still in memory."""
    stream.raw.close()
    stream.close()
