"""The states of a net that carry something from batch to batch, and what they and others remember."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ..discovery.blame import blaming, wrong
from ..errors import brief
from ..protocols.state import LayerState, SourceState


class Carried:
    """What carries something from batch to batch: states that define `advance` or `rewind`, except for sources.

    `advances` is whether there is a state that defines `advance`.
    """

    def __init__(self, states: Iterable[LayerState]) -> None:
        others = [state for state in states if not isinstance(state, SourceState)]
        self._advancing = [one for one in others if type(one).advance is not LayerState.advance]
        self._rewinding = [one for one in others if type(one).rewind is not LayerState.rewind]
        self.advances = bool(self._advancing)

    def __bool__(self) -> bool:
        return any(remembered(state) for state in self._advancing)

    def advance(self) -> None:
        for state in self._advancing:
            state.advance()

    def rewind(self) -> None:
        for state in self._rewinding:
            state.rewind()


def remembered(owner: Any) -> Mapping[str, Any]:
    """Return the memory of an owner, such as a state. Raises PluginError if it is none."""
    with blaming(owner):
        found: Any = owner.memory()
        if not isinstance(found, Mapping):
            raise wrong(owner, f"memory returned {brief(found)}, but it must return a dict")
    return cast("Mapping[str, Any]", found)
