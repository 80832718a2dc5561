"""Calls code of plugins, and turns whatever it raises into an error that names the plugin; only Ctrl-C ends nacre."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any, TypeGuard, TypeVar

from ..text import plain
from ..threads import process_lock

Given = TypeVar("Given")

LONGEST = 200
"""Most characters of a plugin's value that an error repeats."""


class ForeignError(Exception):
    """Raised for code of plugins that raised `error`, which may be any exception except that of Ctrl-C."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def guarded(call: Callable[..., Given], *arguments: Any) -> Given:
    """Call a function of a plugin, and return what it returns.

    Raises:
        ForeignError: it raised something, even if it is not an `Exception`: SystemExit, GeneratorExit, a Rust panic.
    """
    try:
        return call(*arguments)
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise ForeignError(error) from error


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an exception is Python's or nacre's for Ctrl-C; a plugin may have classes that derive from it."""
    home = type.__dict__["__module__"].__get__(type(error))
    return isinstance(error, KeyboardInterrupt) and home.partition(".")[0] in ("builtins", "nacre")


@contextmanager
def prints_aside() -> Generator[None]:
    """Send what plugins print in the block, while they are imported, to stderr: a program may read stdout."""
    with _aside.lock:
        _aside.depth += 1
        if _aside.depth == 1:
            _aside.stream, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        with _aside.lock:
            _aside.depth -= 1
            if not _aside.depth:
                sys.stdout = _aside.stream


class _Aside:
    """How many blocks of `prints_aside` run, in all threads, and the stream that comes back after the last."""

    def __init__(self) -> None:
        self.lock = process_lock()
        self.depth = 0
        self.stream: Any = None


_aside = _Aside()


def described(error: BaseException) -> str:
    """Return the class and text of an exception in one line, even if its `str` raises."""
    kind = _class_name(error)
    try:
        text = guarded(lambda: plain(" ".join(str(error).split())))
    except ForeignError:
        text = "(its text cannot be read)"
    return f"{kind}: {text}" if text else kind


def shown(value: object) -> str:
    """Return the `repr` of a plugin's value, shortened; if that raises, the name of its class."""
    try:
        text = guarded(repr, value)
    except ForeignError:
        return f"an object of {_class_name(value)}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def is_class(value: object) -> TypeGuard[type[Any]]:
    """Return whether a value is a class, without code of the value itself, which may raise."""
    return issubclass(type(value), type)


def _class_name(value: object) -> str:
    return type.__dict__["__name__"].__get__(type(value))  # not what a metaclass returns


def place_of(error: BaseException, module: str) -> tuple[str, int]:
    """Return file and line where `error` left the package of `module`, or ("", 0)."""
    if isinstance(error, SyntaxError) and isinstance(error.filename, str):
        return error.filename, error.lineno if isinstance(error.lineno, int) else 0
    place, step = ("", 0), error.__traceback__
    while step is not None:
        frame = step.tb_frame
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and name.partition(".")[0] == module.partition(".")[0]:
            place = (frame.f_code.co_filename, step.tb_lineno)
        step = step.tb_next
    return place


def place_of_function(function: object) -> tuple[str, int]:
    """Return file and first line of a function, or ("", 0)."""
    try:
        code = guarded(getattr, function, "__code__", None)
    except ForeignError:
        return "", 0
    return (code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else ("", 0)


def place_of_thing(thing: object) -> tuple[str, int]:
    """Return the file of a class or a function, or ("", 0)."""
    if not is_class(thing):
        return place_of_function(thing)
    module = type.__dict__["__module__"].__get__(thing)
    file = getattr(sys.modules.get(module), "__file__", None) if isinstance(module, str) else None
    return (file, 0) if isinstance(file, str) else ("", 0)


def place_text(file: str | Path, line: int) -> str:
    """Return a place as people and editors read it: `file:line`, or the file alone where no line is known."""
    return f"{file}:{line}" if line else str(file)
