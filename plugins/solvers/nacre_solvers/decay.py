"""DecayOnValidation: the learning rate falls when a validation is worse than the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Annotated, Any

from nacre import LrPolicy, LrState, Snapshot, Training, count_in, fraction, non_negative

from .statistic import HIGHER, STATISTIC, Judge, Judged, direction_complaints


class DecayOnValidation(LrPolicy):
    """rate = base; at each validation that is worse than the one before, rate = gamma · rate.

    The validations are those of a `ValidationPerformance` among the callbacks, except the one that runs only because
    the training ends. With `go_back` the training then continues from the last validation that was not worse, with the
    new rate. That state is kept in memory and in every snapshot, which makes snapshots twice as large. After Mocha.jl's
    policy, which went back to the newest snapshot in `load_from`.
    """

    base: Annotated[float, non_negative, "the first rate"]
    gamma: Annotated[float, fraction, "multiplies the rate when the net got worse"] = 0.5
    statistic: Annotated[str, STATISTIC, "the statistic to follow: layer/statistic, or loss"] = "loss"
    higher_better: Annotated[bool | None, HIGHER] = None
    phase: Annotated[Judged, "phase of the validations"] = "validation"
    min_n_iter: Annotated[int, non_negative, "number of iterations to keep each rate, at least"] = 0
    min_rate: Annotated[float, non_negative, "the smallest rate"] = 1e-8
    go_back: Annotated[bool, "when the rate falls, go back to the last validation that was not worse"] = False

    def complaints(self) -> Iterator[str]:
        yield from direction_complaints("statistic", self.statistic, self.higher_better)

    def start(self, training: Training) -> LrState:
        return DecayOnValidationState(self, training)


class DecayOnValidationState:
    """`DecayOnValidation` in one training."""

    def __init__(self, policy: DecayOnValidation, training: Training) -> None:
        self.policy, self.training = policy, training
        self.current = policy.base
        self.since = 0
        self.last: float | None = None
        self.held: Snapshot | None = None
        self.holds = False  # whether it is asked for, but other callbacks of the iteration have still to run
        self.falling = False
        self.higher_better = Judge(policy, training, self.judge).higher_better

    def judge(self, value: float) -> None:
        """Lower the rate if this value is worse than the last one; a value that is not finite is worse."""
        policy, last, iteration = self.policy, self.last, self.training.iteration
        finite = isfinite(value)
        self.last = value if finite else last
        better = finite and (last is None or (value >= last if self.higher_better else value <= last))
        worse = last is not None and not better
        if worse and iteration - self.since >= policy.min_n_iter:
            rate = max(policy.gamma * self.current, min(policy.min_rate, self.current))
            if self.held is not None and rate < self.current:
                self.falling, iteration = True, self.held.iteration
                message = f"{policy.statistic} of {policy.phase} got worse: going back to iteration {iteration}"
                self.training.warn(f"{message}, with the rate {rate:.6g}")
                self.training.go_back(self.held)
            self.current, self.since = rate, iteration
        elif policy.go_back and not worse:
            self._hold()

    def _hold(self) -> None:
        """Keep the training as it is when all that judge this validation have done so."""
        self.holds = True
        self.training.hold(self._keep)

    def _keep(self, snapshot: Snapshot) -> None:
        self.held, self.holds = _copy(snapshot), False

    def rate(self, iteration: int) -> float:
        return self.current

    def memory(self) -> Mapping[str, Any]:
        last = {} if self.last is None else {"last": self.last}
        held = {NEXT: True} if self.holds else {} if self.held is None else _pack(self.held)
        return {"rate": self.current, "since": self.since, **last, **held}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.last = float(memory["last"]) if "last" in memory else None
        self.holds = False
        if self.falling:  # the training is back where it was held; the rate stays what it has become
            self.falling = False
            return
        self.current, self.since = float(memory["rate"]), count_in(memory, "since")
        self.held = None if NEXT in memory else _unpack(memory)
        if NEXT in memory:
            self._hold()


HELD = "(held)/"  # no layer can have this name
NEXT = f"{HELD}next"
"""What a snapshot remembers instead that is saved before the training is held: itself."""


def _copy(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as if it had been saved and read, without the snapshots that policies hold."""
    arrays = {name: array.copy() for name, array in snapshot.arrays.items() if HELD not in name}
    state = json.loads(json.dumps(snapshot.state))
    for memory in state["memory"].values():
        for key in [key for key in memory if HELD in key]:
            del memory[key]
    return Snapshot(snapshot.iteration, arrays, state)


def _pack(snapshot: Snapshot) -> dict[str, Any]:
    arrays = {f"{HELD}{name}": array for name, array in snapshot.arrays.items()}
    return {f"{HELD}iteration": snapshot.iteration, f"{HELD}state": json.dumps(snapshot.state), **arrays}


def _unpack(memory: Mapping[str, Any]) -> Snapshot | None:
    held = {key.removeprefix(HELD): value for key, value in memory.items() if key.startswith(HELD)}
    return Snapshot(held.pop("iteration"), state=json.loads(held.pop("state")), arrays=held) if held else None
