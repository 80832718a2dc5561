"""Standard streams that are closed, on a full disk, or no longer read."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any


def open_closed_streams() -> None:
    """Replace closed standard streams (`>&-`) by the null device.

    Otherwise the next file that is opened, perhaps a snapshot, would get what libraries print to that stream.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 (it stays open)


def print_every_letter() -> None:
    """Print a question mark for a letter that the encoding of stdout lacks, as that of a file on Windows may."""
    stream: Any = sys.stdout
    if getattr(stream, "errors", "") == "strict" and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


def keep_stdout() -> None:
    """Let only `sys.stdout` reach stdout: what C code or a child process prints there goes to stderr.

    They write to the descriptor, C code perhaps only at exit, when its buffer is flushed.
    """
    before = sys.stdout
    if before is sys.__stdout__:  # else somebody who has imported nacre collects the output
        before.flush()
        sys.stdout = open(os.dup(1), "w", encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115 (it stays open)
        os.dup2(2, 1)


@contextmanager
def stdout_for_children() -> Generator[None]:
    """Let child processes that are started in the block print to stdout also after `keep_stdout`."""
    try:
        ours = sys.stdout.fileno()
    except (OSError, ValueError):  # somebody who has imported nacre collects the output
        yield
        return
    before = os.dup(1)
    os.dup2(ours, 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


def drop(stream: Any) -> None:
    """Discard output that cannot be printed; otherwise Python would try again at exit, and print an error."""
    try:
        stream.flush()
    except OSError:
        _silence(stream)


def _silence(stream: Any) -> None:
    with suppress(OSError):  # a stream that is not a file has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def stdout_is_named() -> Generator[None]:
    """Let the errors of printing in the block say that it is stdout that cannot be written."""
    before, named = sys.stdout, _Named(sys.stdout)
    sys.stdout = named  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        if sys.stdout is named:  # a rank that is not the first has dropped it
            sys.stdout = before


@contextmanager
def work_matters_more() -> Generator[None]:
    """Continue if output cannot be printed (`| head`, or a full disk); a message on stderr says so once."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Lasting(sys.stdout, "stdout"), _Lasting(sys.stderr, "stderr")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Stream:
    """Another stream, whose errors `_lose` gets."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

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
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Named(_Stream):
    """A stream whose errors say that it is stdout."""

    def _lose(self, error: OSError) -> None:
        raise OSError(error.errno, error.strerror, "standard output cannot be written") from error


class _Lasting(_Stream):
    """A stream that can be written to even after an error."""

    def __init__(self, stream: Any, name: str) -> None:
        super().__init__(stream)
        self._name = name

    def _lose(self, error: OSError) -> None:
        _silence(self._stream)
        if self._name == "stdout":
            print(f"warning: nothing more can be printed: {error.strerror}; the work continues", file=sys.stderr)
