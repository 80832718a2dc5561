"""Snapshot: arrays and state of a training, their names, and the protocol of a file format (SnapshotStore)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import SnapshotError
from ..text import counted, with_article

if TYPE_CHECKING:
    import numpy as np

    from ..protocols.view import Fitted


PARAMETERS, HISTORY, MEMORY, FITTED = "parameters/", "history/", "memory/", "fitted/"


def below(snapshot: Snapshot, start: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a snapshot whose names begin with `start`, by the rest of their names."""
    return {key[len(start) :]: value for key, value in snapshot.arrays.items() if key.startswith(start)}


SAVED = ".nacre"
"""How the name of a saved net ends: it is a file of parameters too."""

MOST = 10**18  # iterations: the file's name has room for no more

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
    "fitted": {str: dict},
    "aliases": {str: str},
    "plan": {str: dict},
    "ranks": int,
    "saved": int,
    "net_file": str,
    "options": {"phase": str, "keep": [str], "input_gradients": [str], "algorithm": dict},
    "parts": NAMED,
    "origins": NAMED,
    "environment": dict,
}
"""The form of each entry of a state: [form] is a list of it, {type: form} a table of it, {key: form} these keys."""


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """Everything that a training needs to continue, bit for bit.

    `iteration` is the number of batches trained. `arrays` are numbers or booleans under names like
    "history/momentum/ip1/weight": words joined by "/", and no name may be a folder of another. `state` is what JSON can
    hold: numbers, strings, None, lists and dicts whose keys are strings. `path` is the file that it was read from, or
    "". Raises `SnapshotError` if this is not so.
    """

    iteration: int
    arrays: dict[str, np.ndarray[Any, Any]]
    state: dict[str, Any]
    path: str = ""

    def __post_init__(self) -> None:
        if type(self.iteration) is not int or not 0 <= self.iteration < MOST:
            raise SnapshotError(f"iteration={self.iteration!r:.40}, but it must be a whole number, 0 or more")
        _check_names(self.arrays)
        for name, array in self.arrays.items():
            if array.dtype.kind not in "biufc":
                raise SnapshotError(f"array {name!r} is of type {array.dtype}, but it must hold numbers or booleans")
            if name.startswith((PARAMETERS, HISTORY, FITTED)) and array.dtype.kind == "c":
                raise SnapshotError(f"array {name!r} is of type {array.dtype}, but its numbers must be real")
        check_state(self.state, "state")
        for key, form in FORMS.items():
            if key in self.state:
                _check_form(self.state[key], form, f"state/{key}")

    def __repr__(self) -> str:
        net = f" of net '{self.state['net']}'" if "net" in self.state else ""
        return f"<Snapshot{net} after {counted(self.iteration, 'iteration')}, {counted(len(self.arrays), 'array')}>"

    def parameters(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the parameters and buffers by name; one that layers shared, by each of its names."""
        saved = below(self, PARAMETERS)
        aliases: dict[str, str] = self.state.get("aliases", {})
        return {**{alias: saved[name] for alias, name in aliases.items() if name in saved}, **saved}

    def fitted(self) -> dict[str, dict[str, Any]]:
        """Return what sources had learned from the training data: {top: {key: value}}, for `Net(fitted=...)`.

        Nothing is known from snapshots of versions that did not save it.
        """
        found = {top: dict(values) for top, values in self.state.get("fitted", {}).items()}
        for name, array in below(self, FITTED).items():
            top, _, key = name.partition("/")
            found.setdefault(top, {})[key] = array
        return found


def split_fitted(fitted: Fitted) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what is known of the training data as a snapshot has it: arrays by their names in it, and the rest."""
    import numpy as np

    arrays: dict[str, Any] = {}
    rest: dict[str, dict[str, Any]] = {}
    for top, values in fitted.items():
        for key, value in values.items():
            if isinstance(value, np.ndarray):
                arrays[f"{FITTED}{top}/{key}"] = value
            else:
                rest.setdefault(top, {})[key] = value
    return arrays, rest


class SnapshotStore(Protocol):
    """One file format for snapshots."""

    suffix: str

    def encode(self, snapshot: Snapshot) -> bytes:
        """Return the bytes of the whole file; they are the same for the same snapshot."""
        ...

    def decode(self, data: bytes | memoryview, where: str) -> Snapshot:
        """Return the snapshot in a file; raise SnapshotError, beginning with `where`, if one bit of it is wrong."""
        ...


def _check_names(names: Iterable[str]) -> None:
    known = set(names)
    for name in known:
        parts = name.split("/")
        if "\0" in name or not {"", ".", ".."}.isdisjoint(parts) or not name.isprintable():
            raise SnapshotError(f"array name {name!r} must consist of printable words joined by '/'")
        for end in range(1, len(parts)):
            if (folder := "/".join(parts[:end])) in known:
                message = f"array {folder!r} has the name of a folder of array {name!r}"
                raise SnapshotError(message, "rename one of the two")


def check_state(value: object, where: str) -> None:
    """Raise SnapshotError for a value that JSON cannot hold, or that it would return as something else."""
    if isinstance(value, dict):
        for key, entry in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                remedy = "use a string: JSON would turn the key into one"
                raise SnapshotError(f"{where}: key {key!r} is not a string", remedy)
            check_state(entry, f"{where}/{key}")
    elif isinstance(value, list | tuple):
        for position, entry in enumerate(cast("list[object]", value)):
            check_state(entry, f"{where}/{position}")
    elif not (value is None or isinstance(value, str | int | float)):
        found = with_article(type(value).__name__)
        raise SnapshotError(f"{where}: JSON cannot hold {found}", "make it an array or a number")


def _check_form(value: Any, form: Any, where: str) -> None:
    """Raise a SnapshotError if a value is not of its form in `FORMS`: anybody may write a snapshot."""
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
        raise SnapshotError(f"{where} is {value!r:.60}, but in a snapshot it must be {names}")


WORDS = {str: "a string", int: "a whole number", float: "a number", dict: "a table", list: "a list"}
