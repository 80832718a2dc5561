"""Overrides of a net file from the command line: `--set solver.max_iter=100`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ..errors import ConfigError, NacreError, brief, nearest
from ..fields.types import Said
from ..files.toml import SHALLOWER, TooDeep, hint, parse_toml
from ..protocols.layer import layer_type, name_from
from ..protocols.making import layer_maker

Table = dict[str, Any]


def apply_override(table: Table, override: str) -> None:
    """Change a net file's table by an override such as "solver.max_iter=100", "layer.conv1.n_filter=30" or "seed=3".

    Values are TOML; a bare word or path, such as ReLU, is a string. Layers are named by name, callbacks by type; a
    layer in a container by its full name, without the numbers of repetitions: "layer.block1/conv1.n_filter=30".

    Raises:
        ConfigError: there is no such name, or the value cannot be read.
    """
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.strip().split(".")]
    if not equals or not all(parts):
        raise ConfigError(f"--set {override}: it must be like solver.max_iter=100, layer.conv1.n_filter=30 or seed=3")
    value = _said(_override_value(override, text.strip()))
    target: Any = table
    rest = parts
    if parts[0] in ("layer", "callback"):
        target, rest = _named(table, parts, override)
    elif parts[0] not in table and any(layer_name(layer) == parts[0] for layer in table.get("layer", [])):
        raise ConfigError(
            f"--set {override}: '{parts[0]}' is a layer, not a key of the net file",
            f"write --set layer.{override}",
        )
    while len(rest) > 1:
        below: Any = target.setdefault(rest[0], {})
        if isinstance(below, str):  # a component by its name alone
            below = target[rest[0]] = {"type": below}
        if not isinstance(below, dict):
            raise ConfigError(
                f"--set {override}: '{rest[0]}' is {brief(below)}, so it has no field '{rest[1]}'",
                f"set the whole value: --set {'.'.join(parts[: -len(rest) + 1])}='{{ type = ..., {rest[1]} = ... }}'",
            )
        target, rest = cast("Table", below), rest[1:]
    target[rest[0]] = value


def _named(table: Table, parts: list[str], override: str) -> tuple[Table, list[str]]:
    """Find the layer or callback that an override names; names of layers may contain dots."""
    kind = parts[0]
    named = list(entries(table.get(kind, []), kind))
    names = [name for name, _ in named]
    tables = [entry for _, entry in named]
    for end in range(len(parts) - 1, 1, -1):
        name = ".".join(parts[1:end])
        if names.count(name) == 1:
            return tables[names.index(name)], parts[end:]
        if name in names:
            raise ConfigError(
                f"--set {override}: there are {names.count(name)} {kind}s '{name}': change them in the file"
            )
    if len(parts) < 3:
        raise ConfigError(f"--set {override}: it must be like {kind}.NAME.FIELD=VALUE")
    known = f"{nearest(parts[1], names)}; there are: {', '.join(name for name in names if name) or 'none'}"
    what = "a layer's name" if kind == "layer" else "a callback's type"
    raise ConfigError(
        f"--set {override}: there is no {kind} '{parts[1]}'{known}", f"write {kind}.NAME.FIELD, with {what}"
    )


def entries(given: Any, kind: str, before: str = "") -> Iterator[tuple[str, Table]]:
    """Yield the tables of layers, or callbacks, with their names; of a layer in a container it is the full name.

    Layers in another field than `layer` have the field's name in theirs, "res/projection/conv", as Residual's do; those
    with a name of their own are found without it, too, since other containers may use it as it is.
    """
    kinds = Counter[str]()
    several = cast("list[Any]", given) if isinstance(given, list) else []
    for entry in several if any(isinstance(one, dict) for one in several) else ():  # not words of a vocabulary
        found = cast("Table", entry if isinstance(entry, dict) else {"type": entry})
        if kind != "layer":
            name = str(found.get("type", ""))
        elif before:
            name = _inner_name(found, kinds)
        else:
            name = layer_name(found)
        if not isinstance(entry, dict):
            continue
        yield before + name, found
        for key, value in found.items() if kind == "layer" else ():
            if key == "layer":
                yield from entries(value, kind, f"{before}{name}/")
            else:
                yield from entries(value, kind, f"{before}{name}/{key}/")
                yield from (one for one in entries(value, kind, f"{before}{name}/") if one[1].get("name"))


def _inner_name(table: Table, kinds: Counter[str]) -> str:
    """Return the name of a layer in a container: its own, its first top's, or its type with a number, which counts."""
    try:
        kind = layer_type(layer_maker(table)[0])
    except NacreError:  # making the layer says why
        kind = ""
    kinds[kind] += 1
    given = table.get("name") or next(iter(_names(table.get("tops"))), "") or (kind and f"{kind}{kinds[kind]}")
    return given if isinstance(given, str) else ""


def _override_value(override: str, text: str) -> Any:
    try:
        read = parse_toml(f"value = {text}")
    except ValueError as error:
        if re.fullmatch(r"([A-Za-z]|\.{0,2}/|~/)[\w.:/~-]*", text):
            return text
        quoted = f"a text needs both pairs of quotes: --set '{override.partition('=')[0]}=\"TEXT\"'"
        remedy = SHALLOWER if isinstance(error, TooDeep) else hint(f"value = {text}", str(error)) or quoted
        raise ConfigError(f"--set {override}: {brief(text)} is not a TOML value: {error}", remedy) from error
    if list(read) != ["value"]:
        raise ConfigError(f"--set {override}: it must be one value")
    return read["value"]


def _said(value: Any) -> Any:
    """Return a value with all strings in it marked as given by the user."""
    if isinstance(value, str):
        return Said(value)
    if isinstance(value, list):
        return [_said(entry) for entry in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _said(entry) for key, entry in cast("Table", value).items()}
    return value


def layer_name(table: Mapping[str, Any]) -> str:
    """Return the name of the layer that a table describes, as the layer itself would choose it, or "" if unknown."""
    if name := table.get("name"):
        return name if isinstance(name, str) else ""
    if "tops" in table:
        return next(iter(_names(table["tops"])), "")
    try:
        cls = layer_maker(table)[0]
    except NacreError:  # making the layer says why
        return ""
    fields = {known.name: known for known in cls.fields()}
    usual = fields.get("tops")
    if usual is not None and usual.required:
        return ""
    return name_from(cls, _names(usual.default) if usual else (), _names(table.get("bottoms")))


def _names(given: Any) -> list[str]:
    some: Sequence[Any] = cast("Sequence[Any]", given) if isinstance(given, list | tuple) else [given]
    return [one for one in some if isinstance(one, str)]
