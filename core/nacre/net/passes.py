"""The passes of a net, as lists of steps and as compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial

from ..discovery.blame import blamed, wrong
from ..engine.collectives import Collectives
from ..engine.schedule import Schedule, compile_steps, failing_step
from ..engine.target import Target
from ..errors import ConfigError, NacreError, TopologyError, brief, nearest
from ..protocols.backend import Step, wrapped
from ..protocols.parameter import Storage
from ..protocols.state import SourceState
from .input import InputState


class Passes:
    """The passes "feed" (the sources), "forward" and "backward"; methods are described in `Net`, which has the same.

    `net` is the net's name, `rows` the step that counts the rows of a batch, `bp_problem` the reason why there is no
    backward pass, `too_large` what makes an error of a MemoryError, if it can, and `collectives` what several ranks do
    together. With `watch`, which is called after each step, passes run step by step. `done` has the kinds of steps that
    layers other than sources have done: "forward", "backward". `counted` is set by every forward pass.
    """

    def __init__(
        self,
        net: str,
        schedule: Schedule,
        target: Target,
        rows: Step,
        bp_problem: TopologyError | None,
        too_large: Callable[[MemoryError], NacreError | None],
        collectives: Collectives | None = None,
    ) -> None:
        self._net = net
        self._schedule = schedule
        self.watch: Callable[[Step], None] | None = None
        self._target = target
        self._rows = rows
        self._bp_problem = bp_problem
        self._too_large = too_large
        self._collectives = collectives
        self._buffers = [slot.storage for slot in schedule.slots if not slot.trainable]
        self.calls: dict[str, Callable[[], None]] = {}
        self.done: set[str] = set()
        self.counted = False
        self._arranged = 0
        self.arrange()

    def arrange(self) -> None:
        """Make the lists of steps, and again when other layers are frozen, or memory has moved."""
        self._arranged += 1
        self._steps = self._schedule.passes()
        self._steps["feed"].append(self._rows)
        if (ranks := self._collectives) is not None:
            self._steps["forward"] = ranks.forward(self._steps["forward"])
            self._steps["backward"] += ranks.after_backward()

    def compile_all(self) -> None:
        """Make one call of each pass."""
        self.calls = {name: self.compile(steps) for name, steps in self._steps.items()}
        feed = self._steps["feed"]
        if all(map(_is_idle, feed)):
            feed = []  # blobs and rows stay as they were written
        self.calls["feed and forward"] = self.compile([*feed, *self._steps["forward"]])
        spread = [step for step in self._steps["feed"] if step.kind == "copy"]
        self.calls["spread"] = self.compile(spread) if spread else _do_nothing

    def compile(self, steps: Sequence[Step], *, checked: bool = True) -> Callable[[], None]:
        """Return a pass whose errors name the step's layer or component, and which is checked when it runs first."""
        run, made, proven = self._compiled(steps), self._arranged, 0
        devices = self._target.on_devices if checked else []
        forward = any(step.kind == "forward" and not isinstance(step.worker, SourceState) for step in steps)
        trains = self._target.phase == "train" and any(step.kind == "forward" for step in steps)
        written = self._buffers if trains else []  # such as running means

        def answerable() -> None:
            nonlocal run, made, proven
            try:
                if made != self._arranged:  # what a backend has recorded reads what states had before
                    run, made = self._compiled(steps), self._arranged
                run()
                if devices:
                    self._target.check_required()
                if written:
                    Storage.note_changes(written)
            except BaseException as error:
                self._refuse_replaced(error)
                if isinstance(error, MemoryError) and (told := self._too_large(error)) is not None:
                    raise told from error
                step = failing_step(error, steps)
                if (found := blamed(error, step and step.worker)) is not None:
                    raise found from error
                if step is not None and not isinstance(error, NacreError | KeyboardInterrupt):
                    error.add_note(f"net '{self._net}': {step.kind} of {step.name}")
                raise
            if proven != self._arranged:
                self._refuse_replaced(None)
                self.done.update(step.kind for step in steps if not isinstance(step.worker, SourceState))
                proven = self._arranged
            if forward:
                self.counted = True

        return answerable

    def _compiled(self, steps: Sequence[Step]) -> Callable[[], None]:
        try:
            backend = self._target.backend
            busy = [step for step in steps if not isinstance(step.worker, InputState)]  # which does nothing
            run = self._watched(busy) if self.watch else compile_steps(busy)
            return wrapped(backend, run, own=self._are_own(steps))
        finally:
            self._turn(self._target.phase)

    @property
    def computes_alone(self) -> bool:
        """Whether forward passes have only steps of the net's backend, and such as may run beside each other."""
        steps, beside = [*self._steps["feed"], *self._steps["forward"]], self._target.backend.may_run_beside
        return self._are_own(steps) and all(_is_idle(step) or beside(step) for step in steps)

    def _are_own(self, steps: Sequence[Step]) -> bool:
        backend = self._target.backend
        return not self.watch and all(step.own is backend or _is_idle(step) for step in steps)

    def _refuse_replaced(self, error: BaseException | None) -> None:
        """Raise an error about the first state that has put something of its own into the place of the net's."""
        if isinstance(error, NacreError | KeyboardInterrupt):
            return
        for op in self._schedule.ops:
            if what := op.replaced():
                reason = f"it has put another object into the place of {what}, which belongs to the net"
                raise wrong(op.state, reason, "write into the net's arrays: self.blobs[0][...] = ...") from error

    def _watched(self, steps: Sequence[Step]) -> Callable[[], None]:
        watch = self.watch
        assert watch is not None
        runs = [(compile_steps([step]), step) for step in steps]

        def run() -> None:
            for call, step in runs:
                call()
                watch(step)

        return run

    def steps(self, name: str) -> list[Step]:
        if name not in self._steps:
            known = ", ".join(self._steps)
            raise ConfigError(
                f"net '{self._net}' has no pass {brief(name)}{nearest(name, self._steps)}; it has {known}"
            )
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


def _is_idle(step: Step) -> bool:
    """Return whether a step computes nothing with arrays."""
    return step.kind == "rows" or isinstance(step.worker, InputState)


def _do_nothing() -> None:
    """Stand for a pass without steps."""
