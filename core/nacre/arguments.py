"""Wrong arguments of what people call: a sentence with what to write, in place of Python's TypeError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from .errors import ConfigError, nearest

P = ParamSpec("P")
R = TypeVar("R")


def how_to_call(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: whoever calls the function with wrong arguments is told how to call it, by `text`.

    Raises:
        ConfigError: by the function, where Python would raise a TypeError about its arguments.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError:
                _refuse(function, args, kwargs, text)
                raise

        return call

    return decorate


def _refuse(function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], text: str) -> None:
    """Raise a ConfigError if a function does not take these arguments."""
    import inspect

    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as problem:
        unknown = next((name for name in kwargs if name not in signature.parameters), "")
        near = nearest(unknown, signature.parameters) if f"'{unknown}'" in str(problem) else ""
        raise ConfigError(f"{text.partition('(')[0]}: {problem}{near}", f"write {text}") from None
