"""Standard streams that are closed, full, or that nobody reads any more."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any


def open_closed_streams() -> None:
    """Let what is closed of the standard streams (`>&-`) be the null device.

    Else Python has none, and the next file that is opened, a snapshot maybe, would get what libraries print there.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 (it stays open)


def drop(stream: Any) -> None:
    """Forget what cannot be printed, or Python would try it once more at its end, and complain."""
    try:
        stream.flush()
    except OSError:
        _silence(stream)


def _silence(stream: Any) -> None:
    with suppress(OSError):  # one that is no file has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def work_matters_more() -> Generator[None]:
    """Go on where nobody reads what is printed (`| head`), or its disk is full; that is told once on stderr."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Lasting(sys.stdout, "stdout"), _Lasting(sys.stderr, "stderr")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Lasting:
    """A stream that can be written to whatever happens to it."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        _silence(self._stream)
        if self._name == "stdout":
            print(f"warning: nothing more can be printed: {error.strerror}; the work goes on", file=sys.stderr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
