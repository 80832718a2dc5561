"""How long a training waits for its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import perf_counter

from ..protocols.backend import Step
from ..protocols.state import SourceState


class Waiting:
    """Adds up the seconds that sources take for their batches. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock = clock
        self.seconds = 0.0

    def measured(self, steps: Iterable[Step]) -> list[Step]:
        """Return the steps, of which those of sources are measured."""
        return [replace(step, call=self._measured(step.call)) if _waits(step) else step for step in steps]

    def _measured(self, call: Callable[[], None]) -> Callable[[], None]:
        def measured() -> None:
            begin = self.clock()
            call()
            self.seconds += self.clock() - begin

        return measured


def _waits(step: Step) -> bool:
    return isinstance(step.state, SourceState) and step.method == "forward"
