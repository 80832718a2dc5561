"""The passes of a net, as lists of steps and as compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial

from ..engine.schedule import Schedule, compile_steps
from ..engine.target import Target
from ..errors import TopologyError
from ..protocols.backend import Step


class Passes:
    """The passes "feed" (the sources), "forward" and "backward"; methods are described in `Net`, which has the same.

    `rows` is the step that counts the rows of a batch, and `bp_problem` the reason why there is no backward pass.
    """

    def __init__(self, schedule: Schedule, target: Target, rows: Step, bp_problem: TopologyError | None) -> None:
        self._schedule = schedule
        self._target = target
        self._rows = rows
        self._bp_problem = bp_problem
        self.calls: dict[str, Callable[[], None]] = {}
        self.arrange()

    def arrange(self) -> None:
        """Make the lists of steps, and again when other layers are frozen."""
        self._steps = self._schedule.passes()
        self._steps["feed"].append(self._rows)

    def compile_all(self) -> None:
        """Make one call of each pass."""
        self.calls = {name: self.compile(steps) for name, steps in self._steps.items()}
        self.calls["feed and forward"] = self.compile([*self._steps["feed"], *self._steps["forward"]])
        self.calls["spread"] = self.compile([step for step in self._steps["feed"] if step.kind == "copy"])

    def compile(self, steps: Sequence[Step]) -> Callable[[], None]:
        try:
            return self._target.backend.wrap(compile_steps(steps))
        finally:
            self._turn(self._target.phase)

    def steps(self, name: str) -> list[Step]:
        if name == "backward":
            self.need_backward()
        return list(self._steps[name])

    def need_backward(self) -> None:
        """Raise the error that says why back-propagation is not possible, if it is not."""
        if self._bp_problem is not None:
            raise copy(self._bp_problem)  # what is raised keeps its traceback

    def in_phase(self, phase: str, steps: Iterable[Step]) -> list[Step]:
        own = self._target.phase
        return [
            Step("phase", phase, partial(self._turn, phase)),
            *steps,
            Step("phase", own, partial(self._turn, own)),
        ]

    def _turn(self, phase: str) -> None:
        for view in self._target.views.values():
            view.phase = phase
