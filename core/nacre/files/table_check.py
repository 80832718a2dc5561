"""Collects all mistakes in a TOML file, and reports them in one message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from ..errors import ConfigError, NacreError, brief, nearest

Made = TypeVar("Made")

MOST = 50
"""Most mistakes in one message."""

Known = Mapping[str, tuple[type, str]]
"""The keys of a table, each with its type and the words for it."""


KERNELS = (list, 'a list of distributions like "nacre-fast"')


class Complaints:
    """Collects the mistakes in a file."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._errors: list[tuple[str, str]] = []

    def about(self, sentences: Iterable[tuple[str, str]]) -> None:
        """Add sentences about the file, each with its remedy."""
        self._errors += sentences

    def attempt(self, make: Callable[[], Made], called: str = "", itself: str = "") -> Made | None:
        """Make something and return it; if that fails, keep the error and return None.

        The message begins with `called`, the thing's name in this file, instead of `itself`, the name in its own error.
        """
        try:
            return make()
        except NacreError as error:
            if error.blamed:
                raise  # no mistake of the file's
            for line in str(error.args[0]).split("\n"):
                message = line.removeprefix(f"{itself}: ") if itself else line
                named = not called or message.startswith(f"{called}: ")
                self._errors.append((message if named else f"{called}: {message}", error.remedy))
            return None

    def end(self) -> None:
        """Raise ConfigError if there was any mistake."""
        if self._errors:
            sentences = [s if s.startswith(f"{self._where}: ") else f"{self._where}: {s}" for s, _ in self._errors]
            remedies = dict.fromkeys(remedy for _, remedy in self._errors if remedy)
            lines, rest = list(dict.fromkeys(sentences))[:MOST], len(dict.fromkeys(sentences)) - MOST
            lines += [f"{self._where}: and {rest:,} more mistakes"] if rest > 0 else []
            raise ConfigError("\n".join(lines), "\n  ".join(list(remedies)[:MOST]))


def check_table(
    table: Mapping[str, Any], known: Known, start: str = "", places: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, str]]:
    """Yield a message and a remedy for each unknown key, and for each value of a wrong type.

    `places` has remedies for keys that are known elsewhere.
    """
    for key, value in table.items():
        if key not in known:
            message = f"unknown key '{start}{key}'{nearest(key, known)}; known keys: {', '.join(known)}"
            yield message, places.get(key, f"correct the name '{start}{key}', or remove the line")
            continue
        kind, words = known[key]
        if kind is list and isinstance(value, dict) and "[[" in words:
            yield f"[{start}{key}] must be an array of tables: write [[{start}{key}]]", ""
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            yield f"{start}{key}={brief(cast('object', value))}, but it must be {words}", ""
        elif isinstance(value, list):
            wanted = dict if "[[" in words else str
            if not all(isinstance(one, wanted) for one in cast("list[Any]", value)):
                yield f"{start}{key} must be {words}", ""
