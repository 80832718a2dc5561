"""Policies of the learning rate. The first update sees iteration 0."""

from __future__ import annotations

from itertools import accumulate
from math import cos, pi, tanh
from typing import Annotated

from nacre import LrPolicy, LrState, Sizes, Training, finite, fraction, non_negative, positive

from .stages import InnerStates, LrStages, StagedState


class Fixed(LrPolicy):
    """rate = base; a bare number in place of a policy means this."""

    base: Annotated[float, non_negative, "the rate"]

    @classmethod
    def from_number(cls, number: float) -> Fixed:
        return cls(base=number)

    def rate(self, iteration: int) -> float:
        return self.base


class Step(LrPolicy):
    """rate = base · gamma^floor(iteration / stepsize). SINGA's kStep."""

    base: Annotated[float, non_negative, "the first rate"]
    gamma: Annotated[float, non_negative, "multiplies the rate at each step"]
    stepsize: Annotated[int, positive, "iterations between steps"]

    def rate(self, iteration: int) -> float:
        return self.base * self.gamma ** (iteration // self.stepsize)


class Iterations(Sizes):
    """Numbers of iterations, in order."""

    wants = "a list of iterations"


class MultiStep(LrPolicy):
    """rate = base · gamma^(how many of the steps were taken, this iteration included).

    The steps are taken in order, at most one per iteration: a step that is not above the one before it comes one
    iteration after that. A step 0 is taken before the first update. Caffe's multistep.
    """

    base: Annotated[float, non_negative, "the first rate"]
    gamma: Annotated[float, non_negative, "multiplies the rate at each step"]
    steps: Annotated[Iterations, non_negative, "iterations at which the rate is multiplied"]

    def rate(self, iteration: int) -> float:
        taken = accumulate(self.steps, lambda before, step: max(before + 1, step))
        return self.base * self.gamma ** sum(step <= iteration for step in taken)


class Exp(LrPolicy):
    """rate = base · gamma^iteration. SINGA's kExponential with change_freq f is gamma = 2^(-1/f)."""

    base: Annotated[float, non_negative, "the first rate"]
    gamma: Annotated[float, non_negative, "multiplies the rate in each iteration"]

    def rate(self, iteration: int) -> float:
        return self.base * self.gamma**iteration


class Inv(LrPolicy):
    """rate = base · (1 + gamma · iteration)^(-power).

    SINGA's kInverse; its kInverseT with final_lr f is gamma = 1/f and power = 1.
    """

    base: Annotated[float, non_negative, "the first rate"]
    gamma: Annotated[float, non_negative, "how fast the rate falls"]
    power: Annotated[float, finite, "how steeply it falls"]

    def rate(self, iteration: int) -> float:
        return self.base * (1 + self.gamma * iteration) ** -self.power


class Poly(LrPolicy):
    """rate = base · (1 - iteration / n_iter)^power, and 0 from n_iter on. Caffe's poly, whose n_iter is max_iter.

    With power 0 the rate is always base.
    """

    base: Annotated[float, non_negative, "the first rate"]
    power: Annotated[float, non_negative, "how steeply it falls"]
    n_iter: Annotated[int, positive, "iterations until the rate is 0: usually the solver's max_iter"]

    def rate(self, iteration: int) -> float:
        return self.base * (1 - min(iteration, self.n_iter) / self.n_iter) ** self.power


class Sigmoid(LrPolicy):
    """rate = base / (1 + exp(-gamma · (iteration - stepsize))). It falls where gamma is below 0. Caffe's sigmoid."""

    base: Annotated[float, non_negative, "the rate on the upper side"]
    gamma: Annotated[float, finite, "how fast it changes; below 0 it falls, above 0 it rises"]
    stepsize: Annotated[int, non_negative, "the iteration at which it is half of base"]

    def rate(self, iteration: int) -> float:
        return self.base * (1 + tanh(self.gamma * (iteration - self.stepsize) / 2)) / 2  # this form never overflows


class Linear(LrPolicy):
    """rate = base + (final - base) · iteration / n_iter, and final from n_iter on. SINGA's kLinear (without end)."""

    base: Annotated[float, non_negative, "the first rate"]
    final: Annotated[float, non_negative, "the last rate"] = 0.0
    n_iter: Annotated[int, positive, "iterations from the first rate to the last: usually the solver's max_iter"]

    def rate(self, iteration: int) -> float:
        done = min(iteration, self.n_iter) / self.n_iter
        return (1 - done) * self.base + done * self.final


class Cosine(LrPolicy):
    """rate = final + (base - final) · (1 + cos(π · iteration / n_iter)) / 2, and final from n_iter on.

    By Loshchilov and Hutter (arXiv 1608.03983), as PyTorch's CosineAnnealingLR.
    """

    base: Annotated[float, non_negative, "the first rate"]
    final: Annotated[float, non_negative, "the last rate"] = 0.0
    n_iter: Annotated[int, positive, "iterations from the first rate to the last: usually the solver's max_iter"]

    def rate(self, iteration: int) -> float:
        return self.final + (self.base - self.final) * (1 + cos(pi * min(iteration, self.n_iter) / self.n_iter)) / 2


class Staged(LrPolicy):
    """One policy after the other: `Staged(stages=[(60000, 0.001), (5000, 0.0001)])`; the last one is used to the end.

    Each sees the iteration of the whole training, as in Mocha.jl. SINGA's kFixedStep.
    """

    stages: Annotated[LrStages, "(number of iterations, policy or rate) for each stage"]

    def start(self, training: Training) -> LrState:
        return StagedState(self.stages, training)


class WarmUp(LrPolicy):
    """Another policy's rate · (first + (1 - first) · iteration / n_iter), and that rate itself from n_iter on.

    The other policy sees the iteration of the whole training. As PyTorch's LinearLR.
    """

    policy: Annotated[LrPolicy, "the policy of the full rate"]
    n_iter: Annotated[int, positive, "iterations until the full rate"]
    first: Annotated[float, fraction, "share of the full rate in iteration 0"] = 0.1

    def start(self, training: Training) -> LrState:
        return WarmUpState(self, training)


class WarmUpState(InnerStates):
    """`WarmUp` in one training."""

    def __init__(self, policy: WarmUp, training: Training) -> None:
        super().__init__([policy.policy], training)
        self.policy = policy

    def rate(self, iteration: int) -> float:
        n_iter, first, rate = self.policy.n_iter, self.policy.first, self.states[0].rate(iteration)
        return rate * (first + (1 - first) * iteration / n_iter) if iteration < n_iter else rate
