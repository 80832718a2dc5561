"""Provenance: which distribution and version each layer, kernel and component of a training comes from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from ..discovery.kernels import Choice
from ..discovery.registry import registry
from ..fields.configured import inside
from ..fields.tables import type_name

Origin = dict[str, str]
"""`type`, `distribution` and `version` of an object, `file` if it has no version; `definition`, the `version` on its
class line, if that is not 1; `kernel` (the class), `kernel_distribution` and `kernel_version` of its kernel."""

_NAME, _VERSION = re.compile(r"[a-z0-9][a-z0-9-]*"), re.compile(r"[A-Za-z0-9.!+-]*")


Working = Mapping[str, tuple[Any, Choice | None]]
"""The objects at work in a net or a training, each with the choice of its kernel, if any. Their names: "layer.ip1",
"neuron.ip1", "regularizer.ip1/weight", "constraint.ip1/weight", "solver", "algorithm", "lr_policy", "momentum_policy"
and "callback.Snapshot"."""


def parts_of(working: Working) -> dict[str, Origin]:
    """Return the origin of each object at work, and of its kernel."""
    origin_of = _Origins()
    return {name: origin_of(thing, choice) for name, (thing, choice) in working.items()}


class _Origins:
    """Finds origins; asks the registry once for each class, of which a net has few."""

    def __init__(self) -> None:
        self.known: dict[type, Origin] = {}

    def __call__(self, thing: Any, choice: Choice | None) -> Origin:
        cls = cast("type[Any]", type(thing))
        if cls not in self.known:
            self.known[cls] = {"type": type_name(cls), **_origin(cls)}
            if (number := getattr(cls, "nacre_version", 1)) != 1:
                self.known[cls]["definition"] = str(number)
        origin = dict(self.known[cls])
        if choice is not None and choice.offer is not None:
            whose = choice.offer.provenance
            origin |= {"kernel": choice.offer.target}
            origin |= {"kernel_distribution": whose.distribution, "kernel_version": whose.version}
        return origin


def _origin(cls: type) -> Origin:
    owner = registry().owner(cls)
    if owner is None:
        return {"distribution": "", "version": "", "file": cls.__module__}
    origin = {"distribution": owner.distribution, "version": owner.version}
    return origin if owner.version else origin | {"file": owner.file}


def part_differences(then: Mapping[str, Origin], now: Mapping[str, Origin]) -> list[str]:
    """Return sentences on each object of the same type whose distribution, version or kernel has changed."""
    versions: dict[str, tuple[str, str]] = {}
    changed: dict[str, list[str]] = {}
    for name, origin in now.items():
        before = then.get(name)
        if before is None or before.get("type") != origin["type"]:
            continue  # `field_differences` reports it
        for kind in ("", "kernel_"):
            whose = origin.get(f"{kind}distribution", "")
            was, is_now = before.get(f"{kind}version", ""), origin.get(f"{kind}version", "")
            if whose == before.get(f"{kind}distribution", "") and was != is_now:
                versions[whose] = (was, is_now)
        pairs = [(_code(before), _code(origin)), (_kernel(before), _kernel(origin))]
        for was, is_now in (*pairs, (_definition(before), _definition(origin))):
            if was != is_now:
                changed.setdefault(f"was {was}, is {is_now}", []).append(name)
    sentences = [f"{whose} was {was or 'without version'}, is {now}" for whose, (was, now) in versions.items()]
    return [*sentences, *(f"{', '.join(names)} {change}" for change, names in changed.items())]


def _code(origin: Origin) -> str:
    return f"{origin.get('type')} of {origin.get('distribution') or origin.get('file', '')}"


def _definition(origin: Origin) -> str:
    return f"version {origin.get('definition', '1')} of {origin.get('type')}"


def _kernel(origin: Origin) -> str:
    """Return what runs an object: its own code, or a kernel, by its class; the module may change."""
    if "kernel" not in origin:
        return "run by its own code"
    return f"run by {origin['kernel'].rpartition(':')[2]} of {origin.get('kernel_distribution')}"


def origins_of(things: Iterable[Any]) -> dict[str, Origin]:
    """Return the origin of each layer, solver and component in `things`: {"layer Swirl": {...}}."""
    classes = {type(one): None for thing in things for one in inside(thing)}
    named = {f"{kind} {type_name(cls)}": cls for cls in classes if (kind := str(getattr(cls, "nacre_kind", "")))}
    return {name: _origin(cls) for name, cls in named.items()}


def remedies(origins: Any, wanted: Collection[str]) -> list[str]:
    """Return how to get the `wanted` names that no plugin offers here, by a snapshot's `origins`."""
    found: dict[str, list[str]] = {}
    for key, origin in cast("dict[str, Origin]", origins).items() if isinstance(origins, dict) else ():
        kind, _, name = key.partition(" ")
        short = name.rpartition(":")[2]
        asked = [form for form in wanted if form.rpartition(":")[2] == short]
        if any(not registry().offers(kind, form) for form in asked) and (remedy := _remedy(origin)):
            found.setdefault(remedy, []).append(f"{kind} '{short}'")
    return [f"{remedy} (the snapshot used its {', '.join(names)})" for remedy, names in found.items()]


def _remedy(origin: Origin) -> str:
    """Return how to get a distribution or a plugin file; "" if that is not known, or the snapshot is not valid."""
    if not isinstance(origin, dict):  # pyright: ignore[reportUnnecessaryIsInstance] (anybody may write a snapshot)
        return ""
    distribution, version, file = (str(origin.get(key, "")) for key in ("distribution", "version", "file"))
    if not (_NAME.fullmatch(distribution) and _VERSION.fullmatch(version) and file.isprintable()):
        return ""
    if version:
        here = {(plugin.provenance.distribution, plugin.provenance.version) for plugin in registry().plugins()}
        # installed, but disabled or broken: the error says so
        return "" if (distribution, version) in here else f'pip install "{distribution}=={version}"'
    return f"load the file again: --plugin {shlex.quote(file)}" if file else ""
