"""Matches values in snapshots with the parameters of a net, by name: how fine-tuning begins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, SnapshotError, nearest
from ..protocols.parameter import fits
from ..text import with_containers
from .snapshot import PARAMETERS, below

if TYPE_CHECKING:
    import numpy as np


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass
class Loaded:
    """The result of `Net.load`; printed, it is a table.

    `loaded` is {parameter of the net: where its value comes from}, `unfit` {parameter: why the value that was found
    could not be loaded}; `missing` are parameters without a value, `left_over` values without a parameter.
    `iterations` is how many the parameters were trained for, if all of them are from one snapshot.
    """

    loaded: dict[str, str] = field(default_factory=dict[str, str])
    unfit: dict[str, str] = field(default_factory=dict[str, str])
    missing: list[str] = field(default_factory=list[str])
    left_over: list[str] = field(default_factory=list[str])
    iterations: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every parameter was loaded, and every value used."""
        return not (self.unfit or self.missing or self.left_over)

    def rows(self) -> list[tuple[str, str]]:
        """Return (parameter, result) for each parameter and value."""
        return [
            *((name, f"loaded from {source}") for name, source in self.loaded.items()),
            *self.unfit.items(),
            *((name, "missing: it keeps its first values") for name in self.missing),
            *((name, "left over: the net has no such parameter") for name in self.left_over),
        ]

    def __str__(self) -> str:
        from ..text import align

        return "\n".join(align(("parameter", ""), self.rows()))


Arrays = dict[str, "np.ndarray[Any, Any]"]


def match_weights(
    net: str,
    shapes: Mapping[str, tuple[int, ...]],
    sharers: Mapping[str, Sequence[str]],
    former: Mapping[str, Sequence[str]],
    paths: Paths,
    *,
    strict: bool = True,
    rename: Mapping[str, str] | None = None,
) -> tuple[Loaded, Arrays]:
    """Return the result of matching values in snapshots with a net's parameters, and the values; see `Net.load`.

    `shapes` are those of the net's parameters and buffers, by name; `sharers` are all names of each of them, and
    `former` those that it had in older versions of its layer.
    """
    from .folder import load_snapshot

    try:
        files = [Path(one) for one in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
        rename = dict(rename or {})
    except (TypeError, ValueError) as error:
        wanted = "a path must be a snapshot's file or folder, or a list of them, and rename must be {there: here}"
        remedy = "nacre.load_parameters(net, snapshot) takes a snapshot that has been read"
        raise ConfigError(f"net.load: path={paths!r}, rename={rename!r}: {wanted}", remedy) from error
    _check_names(net, sharers, rename)
    done, values = Loaded(), Arrays()
    for file in files:
        snapshot = load_snapshot(file)
        saved = below(snapshot, PARAMETERS)
        aliases = {alias: name for alias, name in snapshot.state.get("aliases", {}).items() if name in saved}
        names = _renamed({**{name: name for name in saved}, **aliases}, rename, file)
        used: set[str] = set()
        for name, shape in shapes.items():
            found = _sources(names, sharers[name]) or _sources(names, former[name])
            used.update(found)
            _take(done, values, Path(snapshot.path or file), saved, name, shape, found)
        asked_for = set(names.values())
        done.left_over += [name for name in saved if name in asked_for and name not in used]
        done.iterations = snapshot.iteration if len(files) == 1 else None
    done.missing = [name for name in shapes if name not in done.loaded and name not in done.unfit]
    done.iterations = done.iterations if done.complete else None
    if not done.loaded or (strict and not done.complete):
        raise SnapshotError(
            f"{', '.join(map(str, files))} does not fit net '{net}':\n{done}",
            "rename layers or parameters (rename={'there': 'here'}), or load only what fits (strict=False)",
        )
    return done, values


def _check_names(net: str, sharers: Mapping[str, Sequence[str]], rename: Mapping[str, str]) -> None:
    """Raise SnapshotError if `rename` gives a name that the net does not have."""
    known = {one for names in sharers.values() for one in names}
    known |= {layer for name in known for layer in with_containers(name)}
    for there, here in rename.items():
        if here and here not in known:
            raise SnapshotError(
                f"rename: '{there}' cannot become '{here}': net '{net}' has no such layer or parameter"
                f"{nearest(here, known)}",
                f"names that can be loaded: {', '.join(sorted(known)) or 'none'}",
            )


def _sources(names: Mapping[str, str], wanted: Iterable[str]) -> list[str]:
    """Return the names in a file of what has one of the wanted names here."""
    return sorted({names[one] for one in wanted if one in names})


def _take(
    done: Loaded,
    values: Arrays,
    file: Path,
    saved: Mapping[str, np.ndarray[Any, Any]],
    name: str,
    shape: tuple[int, ...],
    found: Sequence[str],
) -> None:
    """Use the value in one file for a parameter, if it fits; `found` are its names in the file."""
    if not found:
        return
    if len(found) > 1:
        reason = f"shared here, but not in {file}: {', '.join(found)}"
    elif not fits(there := saved[found[0]].shape, shape):
        reason = f"its shape is {there} in {file}, but {shape} here"
    else:
        values[name] = saved[found[0]]
        done.loaded[name] = str(file) if found[0] == name else f"{file}, where its name is {found[0]}"
        done.unfit.pop(name, None)
        return
    if name not in done.loaded:
        done.unfit[name] = reason


def _renamed(known: Mapping[str, str], rename: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return {name in the net: name in the file}, without the names that are renamed to ""."""
    layers = {layer for name in known for layer in with_containers(name)}
    for name in rename:
        if name not in layers:
            raise SnapshotError(f"{file} has no layer or parameter '{name}'{nearest(name, layers)}")
    found: dict[str, str] = {}
    for name, source in known.items():
        there = next((one for one in with_containers(name) if one in rename), "")
        new = name if not there else rename[there] and rename[there] + name[len(there) :]
        if new in found and found[new] != source:
            raise SnapshotError(
                f"{file}: both '{found[new]}' and '{source}' would be renamed to '{new}'", "rename only one of them"
            )
        if new:
            found[new] = source
    return found
