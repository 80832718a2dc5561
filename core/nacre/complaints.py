"""What is wrong with a TOML file, gathered and told all in one message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from .errors import ConfigError, NacreError, brief, nearest

Made = TypeVar("Made")

MOST = 50
"""Complaints of a file that are told."""

Known = Mapping[str, tuple[type, str]]
"""The keys of a table: the type of each, and the words for it."""

_PIN_KEYS = re.compile(r"kernel:[^@:]+(:[^@:]+)?@[^@:]+|(?!kernel:)[a-z_]+:[^@:]+(:[^@:]+)?")


KERNELS = (list, 'a list of distributions like "nacre-fast"')


PIN = (dict, 'a table like { "kernel:Pooling@numpy" = "nacre-numba" }')


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


def check_pins(plugins: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Complain about pins of a table [plugins] whose key is no such thing, or that name no distribution."""
    pins: Any = plugins.get("pin", {})
    if isinstance(pins, dict):
        for key, value in cast("dict[str, Any]", pins).items():
            if not _PIN_KEYS.fullmatch(key):
                remedy = 'write a key like "layer:Gain", "kernel:Pooling@numpy" or "kernel:neuron/ReLU@numpy"'
                yield f"plugins.pin: '{key}' is no key: it must be kind:Name, or kernel:Name@backend", remedy
            if not isinstance(value, str):
                yield f"plugins.pin: '{key}'={brief(value)}, but it must be the name of a distribution", ""
