"""How long a training waits for its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter

from ..protocols.backend import Step
from ..protocols.state import SourceState
from ..threads import EndingWaits

WHOLE = nullcontext()
"""That of a wait which does not end before its batch is there."""


class Waiting:
    """Adds up the seconds that sources take for their batches. `clock` returns seconds.

    The wait for the first batch of an iteration ends as soon as `to_end` returns true: nothing is done of it yet.
    """

    def __init__(self, to_end: Callable[[], bool], clock: Callable[[], float] = perf_counter) -> None:
        self.ending = EndingWaits(to_end)
        self.clock = clock
        self.seconds = 0.0
        self.begun = False

    def begin(self) -> None:
        """Begin an iteration."""
        self.begun = False

    def measured(self, steps: Iterable[Step]) -> list[Step]:
        """Return the steps, of which those of sources are measured."""
        return [replace(step, call=self._measured(step.call)) if _waits(step) else step for step in steps]

    def _measured(self, call: Callable[[], None]) -> Callable[[], None]:
        def measured() -> None:
            begin = self.clock()
            with WHOLE if self.begun else self.ending:
                call()
            self.begun = True
            self.seconds += self.clock() - begin

        return measured


def _waits(step: Step) -> bool:
    return isinstance(step.state, SourceState) and step.method == "forward"
