"""Validators for fields: `positive`, `one_of`, `as_many_as`, ..."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True)
class Check:
    """A validator: `complain(value, configured)` returns None, or a reason, which follows "value, but".

    `words` describe it on the page of the layer (`nacre layers NAME`), such as "above 0". A validator of how many names
    there are says it as numbers too, for layers that are called: `least` and `most`, or usually as many as in the field
    `like`.
    """

    complain: Callable[[Any, Any], str | None]
    words: str = ""
    least: int = 0
    most: int | None = None
    like: str = ""


def every(test: Callable[[Any], bool], words: str) -> Check:
    """Return a validator of every number in a field; `words` follow "must be". A name that stands for one is right."""

    def complain(value: Any, _: Any) -> str | None:
        if isinstance(value, tuple):
            numbers = cast("tuple[Any, ...]", value)
            return None if all(test(number) for number in numbers) else f"every number must be {words}"
        return None if value is None or isinstance(value, str) or test(value) else f"it must be {words}"

    return Check(complain, words)


positive = every(lambda number: number > 0, "above 0")


non_negative = every(lambda number: number >= 0, "0 or more")


non_zero = every(lambda number: number != 0, "different from 0")


fraction = every(lambda number: 0 <= number < 1, "0 or more, and below 1")


finite = every(lambda number: abs(number) < float("inf"), "finite")


same_numbers = Check(lambda value, _: None)
"""Marks a field that may differ when a training is resumed: it decides how fast, how long or with how much memory, but
no number."""


def at_least(count: int) -> Check:
    """Return a validator for `count` names or more."""
    words = f"at least {count}"
    return Check(lambda value, _: None if len(value) >= count else f"{words} must be given", words, count)


def exactly(count: int) -> Check:
    """Return a validator for exactly `count` names."""
    words = f"exactly {count}"
    return Check(lambda value, _: None if len(value) == count else f"{words} must be given", words, count, count)


def as_many_as(other: str) -> Check:
    """Return a validator for as many names as another field has."""

    def complain(value: Any, configured: Any) -> str | None:
        count = len(getattr(configured, other))
        return None if len(value) == count else f"there must be as many as {other}, {count}"

    return Check(complain, f"as many as {other}", like=other)


def one_of(*choices: Any) -> Check:
    """Return a validator for one of a few values."""
    words = f"one of {', '.join(map(repr, choices))}"
    return Check(lambda value, _: None if value in choices else f"it must be {words}", words)
