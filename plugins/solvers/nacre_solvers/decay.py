"""DecayOnValidation: the learning rate falls when the net gets no better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from nacre import LrPolicy, Training, fraction, non_negative
from nacre.solver import LrState

from .statistic import PHASE, STATISTIC, Judge, loss_complaints


class DecayOnValidation(LrPolicy):
    """rate = base; at each validation that is worse than the one before, rate = gamma · rate.

    The validations are those of a `ValidationPerformance` among the callbacks, but for the one that it makes only
    because the training ends. After Mocha.jl's policy, which then also went back to the newest snapshot; the training
    here goes on from where it is.
    """

    base: Annotated[float, non_negative, "the first rate"]
    gamma: Annotated[float, fraction, "multiplies the rate when the net got worse"] = 0.5
    statistic: Annotated[str, STATISTIC, "what is followed: layer/statistic, or loss"] = "loss"
    higher_better: Annotated[bool, "whether more of it is better"] = False
    phase: Annotated[str, PHASE, "phase of the validations"] = "validation"
    min_n_iter: Annotated[int, non_negative, "iterations that every rate is kept at least"] = 0
    min_rate: Annotated[float, non_negative, "the smallest rate"] = 1e-8

    def complaints(self) -> Iterator[str]:
        yield from loss_complaints("statistic", self.statistic, self.higher_better)

    def start(self, training: Training) -> LrState:
        return DecayOnValidationState(self, training)


class DecayOnValidationState:
    """`DecayOnValidation` in one training."""

    def __init__(self, policy: DecayOnValidation, training: Training) -> None:
        self.policy, self.training = policy, training
        self.current = policy.base
        self.since = 0
        self.last: float | None = None
        Judge(policy, training, self.judge)

    def judge(self, value: float) -> None:
        """Let the rate fall if this value is worse than the last one; one that is no number is."""
        policy, last, iteration = self.policy, self.last, self.training.iteration
        self.last = value if value == value else last
        worse = last is not None and not (value >= last if policy.higher_better else value <= last)
        if worse and iteration - self.since >= policy.min_n_iter:
            self.current, self.since = max(policy.gamma * self.current, min(policy.min_rate, self.current)), iteration

    def rate(self, iteration: int) -> float:
        return self.current

    def memory(self) -> Mapping[str, Any]:
        last = {} if self.last is None else {"last": self.last}
        return {"rate": self.current, "since": self.since, **last}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.current, self.since = float(memory["rate"]), int(memory["since"])
        self.last = float(memory["last"]) if "last" in memory else None
