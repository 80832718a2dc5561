"""The file of a saved net: the text of a net file, parameters, and what is known of the training data.

It is written as a snapshot is, so that a file with one wrong byte is not read; what belongs to a training is not in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import NacreError, SnapshotError
from ..fields.tables import ARRAY
from ..files.toml import parse_toml
from ..protocols.backend import open_backend
from ..snapshots.folder import default_snapshot_store, load_snapshot
from ..snapshots.snapshot import below

if TYPE_CHECKING:
    from ..snapshots.snapshot import Snapshot

FORM = 1
"""The form of these files; a nacre that reads it may not know later ones."""

FIELDS = "fields/"
"""Where the arrays in fields of layers are."""


def read_saved(path: Path) -> Snapshot:
    """Return the content of a saved net. Raises SnapshotError if the file cannot be read, or is none."""
    return checked_form(load_snapshot(path, default_snapshot_store()), str(path))


def decoded(data: bytes, where: str) -> Snapshot:
    """Return the content of a saved net that was a file's bytes."""
    return checked_form(replace(default_snapshot_store().decode(data, where), path=where), where)


def checked_form(found: Snapshot, where: str) -> Snapshot:
    """Raise a SnapshotError unless a snapshot is a saved net, of a form that can be read here."""
    form = found.state.get("saved")
    if form is None or "net_file" not in found.state:
        raise SnapshotError(
            f"{where}: this is a snapshot of a training, not a saved net",
            "give it beside its net file; Net.save writes a saved net",
        )
    if form > FORM:
        raise SnapshotError(f"{where}: saved in form {form}, but this nacre reads only up to {FORM}", "upgrade nacre")
    return found


def table_in(saved: Snapshot, where: str) -> dict[str, Any]:
    """Return the net file in a saved net as a table, with its arrays.

    Raises:
        SnapshotError: it cannot be read.
    """
    try:
        return _with_arrays(parse_toml(saved.state["net_file"]), below(saved, FIELDS))
    except (ValueError, RecursionError, LookupError) as error:
        raise SnapshotError(f"{where}: its net file cannot be read: {error!r}") from error


def _with_arrays(value: Any, arrays: Mapping[str, Any]) -> Any:
    """Return a value of a table with the arrays in place of their numbers."""
    if isinstance(value, list):
        return [_with_arrays(one, arrays) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, Any]", value)
    if [*table] == [ARRAY]:
        return arrays[str(table[ARRAY])]
    return {key: _with_arrays(one, arrays) for key, one in table.items()}


def usable_backend(name: str, where: str) -> str:
    """Return the backend that a net was saved on, or "" with a warning if it cannot be used on this machine."""
    try:
        return open_backend(name).name
    except NacreError as error:
        message = f"{where}: its backend cannot be used, so another one is: {error.args[0]}"
        warnings.warn(message, stacklevel=4)
        return ""
