"""Policies of the learning rate. The first update sees iteration 0."""

from __future__ import annotations

from typing import Annotated

from nacre import LrPolicy, finite, non_negative, positive


class Fixed(LrPolicy):
    """rate = base."""

    base: Annotated[float, non_negative, "the rate"]

    def rate(self, iteration: int) -> float:
        return self.base


class Step(LrPolicy):
    """rate = base · gamma^floor(iteration / stepsize)."""

    base: Annotated[float, non_negative, "the first rate"]
    gamma: Annotated[float, non_negative, "multiplies the rate at each step"]
    stepsize: Annotated[int, positive, "iterations between steps"]

    def rate(self, iteration: int) -> float:
        return self.base * self.gamma ** (iteration // self.stepsize)


class Inv(LrPolicy):
    """rate = base · (1 + gamma · iteration)^(-power)."""

    base: Annotated[float, non_negative, "the first rate"]
    gamma: Annotated[float, non_negative, "how fast the rate falls"]
    power: Annotated[float, finite, "how steeply it falls"]

    def rate(self, iteration: int) -> float:
        return self.base * (1 + self.gamma * iteration) ** -self.power
