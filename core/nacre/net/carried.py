"""The states of a net that carry something from batch to batch."""

from __future__ import annotations

from collections.abc import Iterable

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
        return any(state.memory() for state in self._advancing)

    def advance(self) -> None:
        for state in self._advancing:
            state.advance()

    def rewind(self) -> None:
        for state in self._rewinding:
            state.rewind()
