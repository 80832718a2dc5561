"""What stands beside a field: the checks of its value, and the field types, which `nacre.checks` gives too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True)
class Check:
    """What a field's value must be: `complain(value, configured)` gives None, or the end of `..., but ...`.

    `words` say the same on the page of the layer (`nacre layers NAME`): "above 0".
    """

    complain: Callable[[Any, Any], str | None]
    words: str = ""


def every(test: Callable[[Any], bool], words: str) -> Check:
    """Check every number of a field: `words` follow "must be"."""

    def complain(value: Any, _: Any) -> str | None:
        if isinstance(value, tuple):
            numbers = cast("tuple[Any, ...]", value)
            return None if all(test(number) for number in numbers) else f"every number must be {words}"
        return None if value is None or test(value) else f"it must be {words}"

    return Check(complain, words)


positive = every(lambda number: number > 0, "above 0")


non_negative = every(lambda number: number >= 0, "0 or more")


non_zero = every(lambda number: number != 0, "different from 0")


fraction = every(lambda number: 0 <= number < 1, "0 or more, and below 1")


finite = every(lambda number: abs(number) < float("inf"), "finite")


def at_least(count: int) -> Check:
    """Demand `count` names or more."""
    words = f"at least {count}"
    return Check(lambda value, _: None if len(value) >= count else f"{words} must be given", words)


def exactly(count: int) -> Check:
    """Demand `count` names."""
    words = f"exactly {count}"
    return Check(lambda value, _: None if len(value) == count else f"{words} must be given", words)


def as_many_as(other: str) -> Check:
    """Demand as many names as another field has."""

    def complain(value: Any, configured: Any) -> str | None:
        count = len(getattr(configured, other))
        return None if len(value) == count else f"there must be as many as {other}, {count}"

    return Check(complain, f"as many as {other}")


def one_of(*choices: Any) -> Check:
    """Demand one of a few values."""
    words = f"one of {', '.join(map(repr, choices))}"
    return Check(lambda value, _: None if value in choices else f"it must be {words}", words)
