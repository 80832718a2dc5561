"""Snapshot: arrays and state, the names they have, and the protocol of what writes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import SnapshotError

if TYPE_CHECKING:
    import numpy as np


PARAMETERS, HISTORY, MEMORY = "parameters/", "history/", "memory/"


def below(snapshot: Snapshot, start: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a snapshot whose names begin so, by the rest of their names."""
    return {key[len(start) :]: value for key, value in snapshot.arrays.items() if key.startswith(start)}


MOST = 10**18  # iterations: what a file's name can say

NAMED: dict[Any, Any] = {str: {str: (str, int)}}
TABLES: list[Any] = [{"name": str, "type": str, "exclude": [str]}]
FORMS: dict[str, Any] = {
    "net": str,
    "layers": TABLES,
    "seed": int,
    "dtype": str,
    "backend": str,
    "freeze": [str],
    "solver": str,
    "settings": {"type": str},
    "epochs": int,
    "memory": {str: {str: (str, int, float)}},
    "aliases": {str: str},
    "plan": {str: dict},
    "parts": NAMED,
    "origins": NAMED,
    "environment": dict,
}
"""What there is of these in a state is of this form: a list or a table of so many of one form, or of these keys."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that a training needs to go on, bit for bit.

    `iteration` is the number of batches trained. `arrays` are numbers or booleans under names like
    "history/momentum/ip1/weight": parts joined by "/", and no name may be a folder of another. `state` is what JSON
    can say: numbers, text, None, lists and dicts whose keys are text. `path` is the file that it was read from, or "".
    Raises `SnapshotError` where this does not hold.
    """

    iteration: int
    arrays: dict[str, np.ndarray[Any, Any]]
    state: dict[str, Any]
    path: str = ""

    def __post_init__(self) -> None:
        if type(self.iteration) is not int or not 0 <= self.iteration < MOST:
            raise SnapshotError(f"iteration={self.iteration!r:.40}, but it must be a whole number from 0")
        _check_names(self.arrays)
        for name, array in self.arrays.items():
            if array.dtype.kind not in "biufc":
                raise SnapshotError(f"array {name!r} holds {array.dtype}, but a snapshot holds numbers and booleans")
            if name.startswith(("parameters/", "history/")) and array.dtype.kind == "c":
                raise SnapshotError(f"array {name!r} holds {array.dtype}, but a parameter and its history are real")
        check_state(self.state, "state")
        for key, form in FORMS.items():
            if key in self.state:
                _check_form(self.state[key], form, f"state/{key}")

    def parameters(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the parameters and buffers by name; one that layers shared, by each of its names."""
        saved = below(self, PARAMETERS)
        aliases: dict[str, str] = self.state.get("aliases", {})
        return {**{alias: saved[name] for alias, name in aliases.items() if name in saved}, **saved}


class Store(Protocol):
    """One file format for snapshots."""

    suffix: str

    def encode(self, snapshot: Snapshot) -> bytes:
        """Return the whole file; the same snapshot gives the same bytes."""
        ...

    def decode(self, data: bytes | memoryview, where: str) -> Snapshot:
        """Read a whole file; raise `SnapshotError` beginning with `where` if a single bit of it is wrong."""
        ...


def _check_names(names: Iterable[str]) -> None:
    known = set(names)
    for name in known:
        parts = name.split("/")
        if "\0" in name or not {"", ".", ".."}.isdisjoint(parts) or not name.isprintable():
            raise SnapshotError(f"array name {name!r} must be printable parts joined by '/'")
        for end in range(1, len(parts)):
            if (folder := "/".join(parts[:end])) in known:
                raise SnapshotError(f"array {folder!r} is in the way of array {name!r}", "rename one of the two")


def check_state(value: object, where: str) -> None:
    """Refuse what JSON would refuse, and what it would silently bring back as something else."""
    if isinstance(value, dict):
        for key, entry in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise SnapshotError(f"{where}: key {key!r} is no text", "JSON would bring it back as text")
            check_state(entry, f"{where}/{key}")
    elif isinstance(value, list | tuple):
        for position, entry in enumerate(cast("list[object]", value)):
            check_state(entry, f"{where}/{position}")
    elif not (value is None or isinstance(value, str | int | float)):
        raise SnapshotError(f"{where}: {type(value).__name__} cannot be said in JSON", "make it an array or a number")


def _check_form(value: Any, form: Any, where: str) -> None:
    """Raise a SnapshotError where a value is not of a form of `FORMS`: anybody may write a snapshot."""
    if isinstance(form, list):
        _check_form(value, list, where)
        for position, entry in enumerate(value):
            _check_form(entry, cast("list[Any]", form)[0], f"{where}/{position}")
    elif isinstance(form, dict):
        _check_form(value, dict, where)
        forms = cast("dict[Any, Any]", form)
        for key in value if str in forms else forms:
            if key in value or key == "type":
                _check_form(value.get(key), forms.get(str, forms.get(key)), f"{where}/{key}")
    elif not isinstance(value, form) or (isinstance(value, bool) and form is int):
        kinds = cast("tuple[type, ...]", form if isinstance(form, tuple) else (form,))
        names = " or ".join(WORDS[kind] for kind in kinds)
        raise SnapshotError(f"{where} is {value!r:.60}, but a snapshot says {names} there")


WORDS = {str: "a text", int: "a whole number", float: "a number", dict: "a table", list: "a list"}
