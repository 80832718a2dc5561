"""EarlyStopping: ends a training that no longer gets better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Annotated, Any

from nacre import CallbackState, Training, count_in, non_negative, positive

from .listener import Listener
from .statistic import HIGHER, STATISTIC, Judge, Judged, direction_complaints

KEPT = "kept/"


class EarlyStopping(Listener):
    """Ends the training after `patience` validations of which none was better than the best by more than `min_delta`.

    The validations are those of a `ValidationPerformance` among the callbacks. The training ends as at `max_iter`: all
    callbacks finish, and the last snapshot is saved. If it is resumed from there, it ends again at once, unless
    `patience` is larger. With `restore` the net ends with the parameters of the best validation; they are kept in
    memory and in every snapshot, which makes snapshots larger.
    """

    statistic: Annotated[str, STATISTIC, "the statistic to follow: layer/statistic, or loss"] = "loss"
    higher_better: Annotated[bool | None, HIGHER] = None
    phase: Annotated[Judged, "phase of the validations"] = "validation"
    patience: Annotated[int, positive, "number of validations without a better one after which the training ends"] = 10
    min_delta: Annotated[float, non_negative, "a validation counts as better only by more than this"] = 0.0
    restore: Annotated[bool, "whether the net gets back its best parameters when the training has ended"] = False

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        yield from direction_complaints("statistic", self.statistic, self.higher_better)

    def start(self, training: Training) -> CallbackState:
        return EarlyStoppingState(self, training)


class EarlyStoppingState(CallbackState):
    """`EarlyStopping` in one training."""

    def __init__(self, callback: EarlyStopping, training: Training) -> None:
        super().__init__(callback, training)
        self.best: float | None = None
        self.best_iteration = 0
        self.to_beat: float | None = None  # by more than min_delta: the best value when the count last began
        self.waited = 0
        self.kept: dict[str, Any] = {}  # the parameters of the best validation, of the whole net if it is divided
        self.ends_best = False  # whether a validation that runs only because the training ends is the best one
        self.judged = Judge(callback, training, self.judge)
        self.higher_better = self.judged.higher_better
        if callback.restore:
            training.listeners.append(self.restore)

    def judge(self, value: float) -> None:
        """Count this validation; a value that is not finite is not better."""
        if self._better(value, self.best, 0.0):
            self.best, self.best_iteration = value, self.training.iteration
            if self.callback.restore:
                self.kept = self.training.net.parameters.whole()
        if self._better(value, self.to_beat, self.callback.min_delta):
            self.to_beat, self.waited = value, 0
        else:
            self.waited += 1
            self.stop_if_due()

    def _better(self, value: float, other: float | None, by_more_than: float) -> bool:
        if other is None or not isfinite(value):
            return isfinite(value)
        return (value - other if self.higher_better else other - value) > by_more_than

    def stop_if_due(self) -> None:
        if self.waited >= self.callback.patience:
            best = "no value was finite" if self.best is None else f"the best was {self.best:.6g}"
            where = f"{self.callback.statistic} of {self.callback.phase}"
            when = f" in iteration {self.best_iteration}" if self.best is not None else ""
            self.training.stop(f"EarlyStopping ({where}: {best}{when})")

    def begin(self) -> None:
        self.stop_if_due()

    def run(self) -> None:
        """Do nothing at fixed times: this callback acts on validations."""

    def restore(self, event: str, data: Mapping[str, Any]) -> None:
        """Give the net its best parameters back at the end, after all callbacks: a snapshot has the last ones."""
        if event == "validation" and data["phase"] == self.judged.phase and data.get("final"):
            self.ends_best = self._better(self.judged.value(data), self.best, 0.0)
        elif event == "end" and not self.ends_best:
            self.training.net.parameters.write(self.kept)

    def memory(self) -> Mapping[str, Any]:
        kept = {f"{KEPT}{name}": value for name, value in self.kept.items()}
        best = {} if self.best is None else {"best": self.best, "to_beat": self.to_beat}
        return {"waited": self.waited, "best_iteration": self.best_iteration, **best, **kept}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.waited, self.best_iteration = count_in(memory, "waited"), count_in(memory, "best_iteration")
        self.best = float(memory["best"]) if "best" in memory else None
        self.to_beat = float(memory["to_beat"]) if "to_beat" in memory else self.best
        self.kept = {key.removeprefix(KEPT): value for key, value in memory.items() if key.startswith(KEPT)}
