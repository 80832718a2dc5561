"""Wrong arguments of what people call: a sentence with what to write, in place of Python's TypeError."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Integral
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from .errors import ConfigError, ContractError, brief, nearest

P = ParamSpec("P")
R = TypeVar("R")


def how_to_call(text: str = "", **elsewhere: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: whoever calls the function with wrong arguments is told how to call it.

    Args:
        text: how to call it; by default its name and its parameters.
        elsewhere: names that other libraries have for parameters: theirs, and ours.

    Raises:
        ConfigError: by the function, where Python would raise a TypeError about its arguments.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError:
                refuse_call(function, args, kwargs, text, elsewhere)
                raise

        return call

    return decorate


def refuse_call(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    text: str = "",
    elsewhere: Mapping[str, str] | None = None,
    owner: str = "",
) -> None:
    """Raise a ConfigError if a function does not take these arguments; `owner` is what a method is called on."""
    import inspect

    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as problem:
        unknown = next((name for name in kwargs if name not in signature.parameters), "")
        meant = (elsewhere or {}).get(unknown, unknown)
        near = nearest(meant, signature.parameters) if f"'{unknown}'" in str(problem) else ""
        if not text:
            parameters = [*signature.parameters.values()][1 if owner else 0 :]
            parts = [one.name if one.default is one.empty else f"{one.name}=..." for one in parameters]
            text = f"{owner}{'.' if owner else ''}{function.__name__}({', '.join(parts)})"
        raise ConfigError(f"{text.partition('(')[0]}: {problem}{near}", f"write {text}") from None


def check_class_line(cls: type, given: Mapping[str, object], made_by: str = "") -> None:
    """Raise a ContractError if a class line has an argument that `__init_subclass__` does not name.

    `made_by` says what makes objects of a class that takes none, for those who expected to say it there.
    """
    if not given:
        return
    import inspect

    said = inspect.signature(cls.__init_subclass__).parameters.values()
    known = [one.name for one in said if one.kind is one.KEYWORD_ONLY]
    name, value = next(iter(given.items()))
    found = f"its class line has {name}={brief(value)}"
    raise ContractError(
        f"{cls.__name__}: {found}, but there is no such argument{nearest(name, known)}",
        f"it may have {', '.join(known)}" if known else f"leave it out: {made_by}",
    )


def path_of(given: object, name: str = "path", remedy: str = "") -> Path:
    """Return the path that somebody gives. Raises ConfigError if it is none."""
    if isinstance(given, str | os.PathLike) and _can_be_path(path := cast("os.PathLike[str]", given)):
        return Path(path)
    raise ConfigError(f"{name}={brief(cast('object', given))}, but it must be a path", remedy)


def paths_of(given: object, name: str, least: int = 0) -> list[str | os.PathLike[str]]:
    """Return the paths that somebody gives, one or a list. Raises ConfigError for anything else, or for too few."""
    found = _several(given, (str, os.PathLike))
    if found is None or len(found) < least or not all(map(_can_be_path, found)):
        raise ConfigError(f"{name}={brief(given)}, but it must be a path, or a list of paths")
    return found


def _can_be_path(given: str | os.PathLike[str]) -> bool:
    """Return whether a file can have this path: no system knows one with a NUL."""
    return "\0" not in os.fspath(given)


def texts_of(given: object, name: str, such_as: str) -> list[str]:
    """Return the texts that somebody gives, one or a list. Raises ConfigError for anything else."""
    if (found := _several(given, (str,))) is None:
        raise ConfigError(f"{name}={brief(given)}, but it must be a list of texts, such as {such_as}")
    return found


def _several(given: object, kinds: tuple[type, ...]) -> list[Any] | None:
    """Return objects of some kinds that are given in a list, or one without a list; None if anything else is given."""
    many = [given] if isinstance(given, kinds) else given
    found = list(cast("Iterable[object]", many)) if isinstance(many, Iterable) else [many]
    return found if all(isinstance(one, kinds) for one in found) else None


def check_count(name: str, value: object, least: int) -> None:
    """Raise a ConfigError if a value is not a whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ConfigError(f"{name}={brief(value)}, but it must be a whole number, {least} or more")
