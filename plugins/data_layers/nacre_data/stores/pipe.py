"""Named pipes and streams such as /dev/stdin, from which records come one after the other."""

from __future__ import annotations

import io
import os
import selectors
import threading
from contextlib import suppress
from pathlib import Path
from stat import S_ISFIFO
from typing import Any

from nacre import DataError
from nacre.files import os_errors


def is_pipe(path: Path) -> bool:
    """Return whether what is read from a path comes from another process, and so only once."""
    try:
        return S_ISFIFO(path.stat().st_mode)
    except OSError:  # told where it is opened
        return False


class Pipe(io.RawIOBase):
    """An open pipe, for which another thread may stop waiting."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        with os_errors(path, "cannot be read", DataError):
            self.file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.wakes, self.wake = os.pipe()
        # not select(), which takes no number above 1023, unless there is nothing else
        self.waiting = getattr(selectors, "PollSelector", selectors.SelectSelector)()
        for file in (self.file, self.wakes):
            self.waiting.register(file, selectors.EVENT_READ)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for bytes, and read what is there; 0: whoever wrote has closed the pipe.

        Raises:
            DataError: `interrupt` was called.
        """
        while True:
            if self.wakes in [key.fd for key, _ in self.waiting.select()]:
                raise DataError(f"{self.path}: it was closed while it was read")
            # another process may have read the bytes, or opened the pipe to write after the last writer closed it
            with os_errors(self.path, "cannot be read", DataError), suppress(BlockingIOError):
                return os.readv(self.file, [buffer])

    def interrupt(self) -> None:
        """End a wait in another thread, now or later."""
        with self.lock:
            if not self.closed:
                os.write(self.wake, b"!")

    def close(self) -> None:
        with self.lock:
            if not self.closed:
                self.waiting.close()
                for file in (self.file, self.wakes, self.wake):
                    os.close(file)
            super().close()
