"""Layers as tables of a net file, and the distributions that they need."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..discovery.offers import FIRST_PARTY, normalised
from ..discovery.registry import registry
from ..discovery.requirements import release
from ..errors import ConfigError
from ..fields.configured import Configured, inside
from ..fields.tables import table_of
from ..fields.types import Pair, Paths, Sizes, change_paths
from ..files.remote import is_url
from ..protocols.making import Layers

if TYPE_CHECKING:
    from ..fields.tables import Table
    from ..protocols.layer import Layer


def file_table(layer: Layer, base: Path, without: Collection[str] = (), arrays: list[Any] | None = None) -> Table:
    """Return a layer's table for a net file in the folder `base`: without None, with relative paths.

    Fields in `without` are left out. With `arrays` the table may have arrays, which are appended to them.

    Raises:
        ConfigError: the layer holds an array or another object, or is of a class that no plugin offers.
    """
    lists = {field.name for field in type(layer).fields() if field.takes(Layers)}
    inner = {
        name: [file_table(one, base, layer.implied(one), arrays) for one in value]
        for name, value in layer.given().items()
        if name in lists
    }
    table = table_of(layer, lists, arrays)
    here = registry()
    if not here.offers_of(type(layer), "layer"):  # another class may have this name
        raise ConfigError(
            f"{layer.name}: no plugin offers {type(layer).__name__}, so no net file can name it",
            f"offer it (hook offer_layers), or nacre.register({type(layer).__name__})",
        )
    paths = [known.name for known in type(layer).fields() if known.takes(Paths) and known.name in table]
    for name, value in layer.given().items():
        if name not in inner and (kind := _unwritable(value, arrays is not None)):
            problem = f"{layer.name}: {name} is {kind}, which a net file cannot hold"
            raise ConfigError(problem, "write it to a file, and read the file with a data source")
    for name in paths:
        table[name] = change_paths(table[name], lambda path: _relative(path, base))
    for field in type(layer).fields():
        if field.name in table and (field.takes(Pair) or field.takes(Sizes)):
            table[field.name] = _shortest(table[field.name], field.convert)
    table |= inner
    table = {name: value for name, value in table.items() if name not in without}
    first = [name for name in ("type", "name", "bottoms", "tops", "exclude") if name in table]
    return {name: "none" if table[name] is None else table[name] for name in dict.fromkeys([*first, *table])}


def _shortest(numbers: Any, convert: Callable[[Any], Any]) -> Any:
    """Return one number in place of numbers for which a field takes it, as a person writes them."""
    if not isinstance(numbers, list):
        return numbers
    several = cast("list[Any]", numbers)
    return several[0] if convert(several[0]) == convert(several) else several


def requirements(given: Iterable[str], things: Iterable[Configured]) -> list[str]:
    """Return a net file's requirements, with the distributions other than nacre that offer the classes in `things`.

    A requirement that is there already stays as it is; a file, or a class registered by hand, has no version.
    """
    required = list(given)
    named = {normalised(found[0]) for one in required if (found := re.match(r"\s*[A-Za-z0-9][\w.-]*", one))}
    owners = [registry().owner(cls) for cls in dict.fromkeys(type(part) for thing in things for part in inside(thing))]
    found = {one.distribution: one.version for one in owners if one is not None and one.version}
    return required + [f"{name}>={release(found[name])}" for name in sorted(set(found) - named - {FIRST_PARTY})]


def _unwritable(value: Any, with_arrays: bool) -> str:
    """Return what a value is, or holds, that no net file can hold; "" if there is nothing."""
    if isinstance(value, Mapping):
        return _first_unwritable(cast("Mapping[Any, Any]", value).values(), with_arrays)
    if isinstance(value, list | tuple):
        return _first_unwritable(cast("Sequence[Any]", value), with_arrays)
    if isinstance(value, Configured):
        return _first_unwritable(value.given().values(), with_arrays)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return "" if with_arrays or value.shape == () else "an array"
    if value is None or isinstance(value, str | bool | int | float | os.PathLike):
        return ""
    return f"an object ({type(value).__name__})"


def _first_unwritable(values: Iterable[Any], with_arrays: bool) -> str:
    return next((found for value in values if (found := _unwritable(value, with_arrays))), "")


def _relative(path: str, base: Path) -> str:
    if is_url(path):
        return path
    absolute = Path(path).absolute()
    return absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else path
