"""`feed`: one source for each phase, whose tops are the same blobs."""

from __future__ import annotations

from typing import Any

from ..arguments import how_to_call
from ..errors import ConfigError, TopologyError, brief, nearest
from ..protocols.layer import PHASES, Layer
from .handles import Call, Top, called


@how_to_call("feed(train=..., validation=...)")
def feed(**sources: Layer) -> Any:
    """Return the tops that the sources of several phases have in common.

    Each source, as in `data, label = feed(train=L.HDF5Data(...), validation=L.HDF5Data(...))`, feeds the phase that it
    is given for, and is absent in the others (`exclude`); the sources themselves do not change. A single top is no
    tuple.

    Raises:
        ConfigError: a phase is unknown, or a value is not a source.
        TopologyError: the sources have no top in common.
    """
    if not sources:
        raise ConfigError("feed has no source", "give one for each phase: feed(train=..., validation=...)")
    for phase, source in sources.items():
        if phase not in PHASES:
            known = f"the phases are {', '.join(PHASES)}"
            raise ConfigError(f"feed: unknown phase '{phase}'{nearest(phase, PHASES)}", known)
        _check(phase, source)
    calls = [
        Call(copy, (), len(copy.tops), tuple(copy.tops))
        for source in dict.fromkeys(sources.values())
        for copy in [_only_in(source, [phase for phase, one in sources.items() if one is source])]
    ]
    common = [name for name in calls[0].names if all(name in call.names for call in calls)]
    if not common:
        lists = "; ".join(f"{phase}: {', '.join(source.tops)}" for phase, source in sources.items())
        raise TopologyError(f"feed: the sources have no top in common: {lists}", "give their tops the same names")
    tops = tuple(Top(tuple(calls), calls[0].names.index(name), name) for name in common)
    return tops[0] if len(tops) == 1 else tops


def _check(phase: str, source: Any) -> None:
    if not isinstance(source, Layer) or not source.is_source:
        handles = isinstance(source, Top | tuple)
        remedy = "give the source itself: without () behind it" if handles else "give a source, such as L.HDF5Data(...)"
        raise ConfigError(f"feed: {phase}={brief(source)}, but it must be a source", remedy)
    if not source.tops:
        raise ConfigError(f"feed: {phase}: {called(source)} does not name its tops", 'name them: tops=["data"]')
    if phase in source.exclude:
        raise ConfigError(
            f"feed: {phase}: {called(source)} excludes this phase: exclude={list(source.exclude)}",
            "leave exclude out: feed sets it",
        )


def _only_in(source: Layer, phases: list[str]) -> Layer:
    others = [phase for phase in PHASES if phase not in phases]
    return source.connected(
        source.given_name, (), source.tops, exclude=tuple(dict.fromkeys([*source.exclude, *others]))
    )
