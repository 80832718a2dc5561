"""Layers and components as tables that JSON and TOML can hold."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..discovery.registry import registry
from .configured import Configured

Table = dict[str, Any]


ARRAY = "nacre.array"
"""The key of a table that stands for an array: its number among those that are beside the tables."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def table_of(thing: Configured, without: Collection[str] = (), arrays: list[Any] | None = None) -> Table:
    """Return a layer or component as data for JSON: its `type`, and the fields that differ from their defaults.

    An array becomes a short text; with `arrays` it is appended to them, and its number stands in its place. Fields in
    `without` are left out.
    """
    fields = {name: plain(value, thing, arrays) for name, value in thing.given().items() if name not in without}
    return {"type": type_name(type(thing)), **fields}


def type_name(cls: type) -> str:
    """Return the name of a class in a net file: its own if that opens to it, else another name that does."""
    here = registry()
    kind = str(getattr(cls, "nacre_kind", ""))
    own = cls.__name__.removesuffix("Layer") if kind == "layer" else cls.__name__
    found = here.offers_of(cls, kind)
    return here.name_of(min(found, key=lambda offer: offer.name != own)) if found else own


def plain(value: Any, holder: Configured | None = None, arrays: list[Any] | None = None) -> Any:
    """Return a field's value as data for JSON; `holder` is the object with the field. `arrays` as in `table_of`."""
    if isinstance(value, Configured):
        table = table_of(value, holder.implied(value) if holder else (), arrays)
        return table["type"] if len(table) == 1 else table
    if isinstance(value, Mapping):
        return {str(key): plain(entry, holder, arrays) for key, entry in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(entry, holder, arrays) for entry in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if value.shape == () and value.dtype.kind in "iufb":  # a NumPy number
            return value.item()
        if arrays is not None:
            arrays.append(value)
            return {ARRAY: len(arrays) - 1}
        return f"array of shape {tuple(value.shape)}, {value.dtype}"
    return str(cast("Path", value)) if isinstance(value, os.PathLike) else without_addresses(repr(value))


def without_addresses(text: str) -> str:
    """Return the text of objects without their addresses, which differ from process to process."""
    return _ADDRESS.sub("", text)
