"""Progress: shows a training to a person who started it from Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from nacre import CallbackState, Training
from nacre.cli import Screen, end_line

from .listener import Listener

LINES = 10
"""Summaries of a training that get lines, if nobody has said how many: evenly over the whole training."""
REWRITTEN = 0.5
"""Seconds, at least, between two changes of the line in a notebook."""


class Progress(Listener):
    """Shows a training: a bar in a terminal, one line that is rewritten in a notebook; elsewhere plain lines only.

    The lines are those of `nacre train`, for what `TrainingSummary` and `ValidationPerformance` report. `Solver.solve`
    and `net.fit` use it unless they are `quiet`, with some 10 lines at most if the solver itself has no
    `TrainingSummary`.
    """

    on_every_rank = False

    def start(self, training: Training) -> CallbackState:
        return ProgressState(self, training)


class ProgressState(CallbackState):
    """`Progress` in one training: holds the screen."""

    def __init__(self, callback: Progress, training: Training) -> None:
        super().__init__(callback, training)
        self.screen = Notebook() if in_notebook() else Lines()
        self.screen.training = training
        self.every = any(one.summarises for one in training.solver.callbacks)
        self.broken = False
        self.part, self.shown, self.late = 0, -1, list[tuple[str, Mapping[str, Any]]]()
        training.listeners.append(self.on_event)

    def begin(self) -> None:
        self.screen.__enter__()

    def on_event(self, event: str, data: Mapping[str, Any]) -> None:
        """Show an event; warnings are Python's own. If that fails, as behind `| head`, the training goes on unseen."""
        if not self.broken:
            try:
                self.show(event, data)
            except OSError:
                self.broken = True

    def show(self, event: str, data: Mapping[str, Any]) -> None:
        """Show an event."""
        if event == "end":
            for one in self.late:
                self.screen.report(*one)
            self.shutdown()
            self.screen.report(event, data)
        elif event in ("summary", "validation") and not self.gets_lines(data["iteration"]):
            self.late = [*(one for one in self.late if one[1]["iteration"] == data["iteration"]), (event, data)]
        elif event != "warning":
            self.screen.report(event, data)

    def gets_lines(self, iteration: int) -> bool:
        """Return whether what is reported in this iteration gets its lines now."""
        training, limits = self.training, self.training.solver.limits()
        done = {"max_iter": iteration, "max_epoch": training.epochs}
        part = max(LINES * done[name] // limit for name, limit in limits.items())
        if self.every or part > self.part or iteration == self.shown:
            self.part, self.shown, self.late = part, iteration, []
            return True
        return False

    def run(self) -> None:
        """Do nothing at fixed times: this callback acts on events."""

    def shutdown(self) -> None:
        self.screen.__exit__()


class Lines(Screen):
    """Shows a training in a terminal, or where there is none."""

    def line(self, event: str, data: Mapping[str, Any]) -> str:
        return end_line(self.training) if event == "end" and self.training else super().line(event, data)


class Notebook(Lines):
    """Shows a training in one line, which is rewritten."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, str] = {}
        self.width, self.last = 0, -REWRITTEN

    def __enter__(self) -> Screen:
        return self

    def report(self, event: str, data: Mapping[str, Any]) -> None:
        due = event == "end" or time.perf_counter() - self.last >= REWRITTEN
        if event == "step":
            super().report(event, data)
        if event == "step" and due and self.training:
            self.parts["summary"] = self.line("summary", {**data, "loss": self.training.loss})
        elif event != "step" and (line := self.line(event, data)):
            self.parts[event] = line
        if due and self.parts:
            self.last = time.perf_counter()
            text = " \N{MIDDLE DOT} ".join(self.parts.values())
            sys.stdout.write(f"\r{text:<{self.width}}" + "\n" * (event == "end"))
            sys.stdout.flush()
            self.width = len(text)


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
