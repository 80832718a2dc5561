"""Whose code works in a net and its training: what snapshots record, compare on resuming, and tell who lacks it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from ..discovery.kernels import Choice
from ..discovery.registry import registry
from ..fields.configured import inside
from ..fields.tables import type_name

Part = dict[str, str]
"""`type`, `distribution` and `version` of a thing, `file` where it has no version; of its kernel `kernel` (the class),
`kernel_distribution` and `kernel_version`."""

_NAME, _VERSION = re.compile(r"[a-z0-9][a-z0-9-]*"), re.compile(r"[A-Za-z0-9.!+-]*")


Working = Mapping[str, tuple[Any, Choice | None]]
"""What works in a net or a training, by name, with the choice of its kernel where there was one to make: "layer.ip1",
"neuron.ip1", "regularizer.ip1/weight", "constraint.ip1/weight", "solver", "algorithm", "lr_policy", "momentum_policy"
and "callback.Snapshot"."""


def parts_of(working: Working) -> dict[str, Part]:
    """Return for all that works whose code it is, and whose its kernel."""
    part = _Parts()
    return {name: part(thing, choice) for name, (thing, choice) in working.items()}


class _Parts:
    """Makes parts; asks the registry once for each class, of which a net has few."""

    def __init__(self) -> None:
        self.known: dict[type, Part] = {}

    def __call__(self, thing: Any, choice: Choice | None) -> Part:
        cls = cast("type[Any]", type(thing))
        if cls not in self.known:
            self.known[cls] = {"type": type_name(cls), **_origin(cls)}
        part = dict(self.known[cls])
        if choice is not None and choice.offer is not None:
            whose = choice.offer.provenance
            part |= {"kernel": choice.offer.target}
            part |= {"kernel_distribution": whose.distribution, "kernel_version": whose.version}
        return part


def _origin(cls: type) -> Part:
    owner = registry().owner(cls)
    if owner is None:
        return {"distribution": "", "version": "", "file": cls.__module__}
    origin = {"distribution": owner.distribution, "version": owner.version}
    return origin if owner.version else origin | {"file": owner.file}


def part_differences(then: Mapping[str, Part], now: Mapping[str, Part]) -> list[str]:
    """Return where a thing of the same type is another's code, or of another version, or runs on another kernel."""
    versions: dict[str, tuple[str, str]] = {}
    changed: dict[str, list[str]] = {}
    for name, part in now.items():
        before = then.get(name)
        if before is None or before.get("type") != part["type"]:
            continue  # fields tell of it
        for kind in ("", "kernel_"):
            whose = part.get(f"{kind}distribution", "")
            was, is_now = before.get(f"{kind}version", ""), part.get(f"{kind}version", "")
            if whose == before.get(f"{kind}distribution", "") and was != is_now:
                versions[whose] = (was, is_now)
        for was, is_now in ((_code(before), _code(part)), (_kernel(before), _kernel(part))):
            if was != is_now:
                changed.setdefault(f"was {was}, is {is_now}", []).append(name)
    told = [f"{whose} was {was or 'without version'}, is {now}" for whose, (was, now) in versions.items()]
    return [*told, *(f"{', '.join(names)} {change}" for change, names in changed.items())]


def _code(part: Part) -> str:
    return f"{part.get('type')} of {part.get('distribution') or part.get('file', '')}"


def _kernel(part: Part) -> str:
    """Return who runs a thing: the kernel by its class, whichever module of its distribution that stands in."""
    if "kernel" not in part:
        return "run by itself"
    return f"run by {part['kernel'].rpartition(':')[2]} of {part.get('kernel_distribution')}"


def origins_of(things: Iterable[Any]) -> dict[str, Part]:
    """Return who offers each layer, solver and component in them: {"layer Swirl": {...}}."""
    classes = {type(one): None for thing in things for one in inside(thing)}
    named = {f"{kind} {type_name(cls)}": cls for cls in classes if (kind := str(getattr(cls, "nacre_kind", "")))}
    return {name: _origin(cls) for name, cls in named.items()}


def remedies(origins: Any, wanted: Collection[str]) -> list[str]:
    """Return how to get the `wanted` names that nobody offers here, by a snapshot's `origins`."""
    found: dict[str, list[str]] = {}
    for key, origin in cast("dict[str, Part]", origins).items() if isinstance(origins, dict) else ():
        kind, _, name = key.partition(" ")
        short = name.rpartition(":")[2]
        asked = [form for form in wanted if form.rpartition(":")[2] == short]
        if any(not registry().offers(kind, form) for form in asked) and (remedy := _remedy(origin)):
            found.setdefault(remedy, []).append(f"{kind} '{short}'")
    return [f"{remedy} (the snapshot had {', '.join(names)} from there)" for remedy, names in found.items()]


def _remedy(origin: Part) -> str:
    """Return how to get a distribution or a plugin file; "" where that cannot be told, or a snapshot says nonsense."""
    if not isinstance(origin, dict):  # pyright: ignore[reportUnnecessaryIsInstance] (anybody may write a snapshot)
        return ""
    distribution, version, file = (str(origin.get(key, "")) for key in ("distribution", "version", "file"))
    if not (_NAME.fullmatch(distribution) and _VERSION.fullmatch(version) and file.isprintable()):
        return ""
    if version:
        here = {(plugin.provenance.distribution, plugin.provenance.version) for plugin in registry().plugins()}
        # installed, but switched off or broken: the error says so
        return "" if (distribution, version) in here else f'pip install "{distribution}=={version}"'
    return f"give the file again: --plugin {shlex.quote(file)}" if file else ""
