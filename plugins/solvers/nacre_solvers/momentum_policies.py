"""Policies of the momentum. The first update sees iteration 0."""

from __future__ import annotations

from typing import Annotated

from nacre import MomentumPolicy, MomentumState, Training, fraction, non_negative, positive

from .stages import MomentumStages, StagedState


class FixedMomentum(MomentumPolicy):
    """momentum = base; a bare number in place of a policy means this."""

    base: Annotated[float, fraction, "the momentum"]

    @classmethod
    def from_number(cls, number: float) -> FixedMomentum:
        return cls(base=number)

    def momentum(self, iteration: int) -> float:
        return self.base


class StepMomentum(MomentumPolicy):
    """momentum = min(base · gamma^floor(iteration / stepsize), max)."""

    base: Annotated[float, fraction, "the first momentum"]
    gamma: Annotated[float, non_negative, "multiplies the momentum at each step"]
    stepsize: Annotated[int, positive, "iterations between steps"]
    max: Annotated[float, fraction, "the largest momentum"]

    def momentum(self, iteration: int) -> float:
        try:
            grown = self.base * self.gamma ** (iteration // self.stepsize)
        except OverflowError:  # a power that no float can hold is beyond any largest momentum
            grown = self.max if self.base else 0.0
        return min(grown, self.max)


class LinearMomentum(MomentumPolicy):
    """momentum = min(base + gamma · floor(iteration / stepsize), max)."""

    base: Annotated[float, fraction, "the first momentum"]
    gamma: Annotated[float, non_negative, "added to the momentum at each step"]
    stepsize: Annotated[int, positive, "iterations between steps"]
    max: Annotated[float, fraction, "the largest momentum"]

    def momentum(self, iteration: int) -> float:
        return min(self.base + self.gamma * (iteration // self.stepsize), self.max)


class StagedMomentum(MomentumPolicy):
    """One policy after the other: `StagedMomentum(stages=[(1000, 0.5), (1, 0.9)])`; the last one is used to the end.

    Each sees the iteration of the whole training, as in Mocha.jl.
    """

    stages: Annotated[MomentumStages, "(number of iterations, policy or momentum) for each stage"]

    def start(self, training: Training) -> MomentumState:
        return StagedState(self.stages, training)
