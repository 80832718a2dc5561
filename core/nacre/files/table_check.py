"""What is wrong with a TOML file, gathered and told all in one message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from ..errors import ConfigError, NacreError, brief, nearest

Made = TypeVar("Made")

MOST = 50
"""Complaints of a file that are told."""

Known = Mapping[str, tuple[type, str]]
"""The keys of a table: the type of each, and the words for it."""


KERNELS = (list, 'a list of distributions like "nacre-fast"')


class Complaints:
    """Gathers what is wrong with a file."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._errors: list[tuple[str, str]] = []

    def about(self, sentences: Iterable[tuple[str, str]]) -> None:
        """Add sentences about the file, each with its remedy."""
        self._errors += sentences

    def attempt(self, make: Callable[[], Made], called: str = "", itself: str = "") -> Made | None:
        """Make something; keep what is wrong with it and give None.

        A complaint begins with what the thing is `called` here, instead of what it calls `itself`.
        """
        try:
            return make()
        except NacreError as error:
            for line in str(error.args[0]).split("\n"):
                told = line.removeprefix(f"{itself}: ") if itself else line
                self._errors.append(
                    (told if told.startswith(f"{called}: ") or not called else f"{called}: {told}", error.remedy)
                )
            return None

    def end(self) -> None:
        """Raise ConfigError if there was anything."""
        if self._errors:
            sentences = [s if s.startswith(f"{self._where}: ") else f"{self._where}: {s}" for s, _ in self._errors]
            remedies = dict.fromkeys(remedy for _, remedy in self._errors if remedy)
            told, rest = list(dict.fromkeys(sentences))[:MOST], len(dict.fromkeys(sentences)) - MOST
            told += [f"{self._where}: and {rest:,} complaints more"] if rest > 0 else []
            raise ConfigError("\n".join(told), "\n  ".join(list(remedies)[:MOST]))


def check_table(table: Mapping[str, Any], known: Known, start: str = "") -> Iterator[tuple[str, str]]:
    """Complain about unknown keys, and about values of another type."""
    for key, value in table.items():
        if key not in known:
            told = f"unknown key '{start}{key}'{nearest(key, known)}; known: {', '.join(known)}"
            yield told, f"correct the name '{start}{key}', or take the line out"
            continue
        kind, words = known[key]
        if kind is list and isinstance(value, dict) and "[[" in words:
            yield f"it says [{start}{key}], but there may be several: write [[{start}{key}]]", ""
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            yield f"{start}{key}={brief(cast('object', value))}, but it must be {words}", ""
        elif isinstance(value, list):
            wanted = dict if "[[" in words else str
            if not all(isinstance(one, wanted) for one in cast("list[Any]", value)):
                yield f"{start}{key} must be {words}", ""
