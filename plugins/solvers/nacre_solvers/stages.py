"""Policies that contain other policies: one after the other, or one inside another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from nacre import Component, Converted, LrPolicy, MomentumPolicy, Training, make_component, whole


def _stages(kind: type[Component], value: Any) -> tuple[tuple[int, Any], ...]:
    if isinstance(value, str | Mapping) or not value:
        raise ValueError
    stages: list[tuple[int, Any]] = []
    for count, policy in value:
        if whole(count) <= 0:
            raise ValueError
        stages.append((whole(count), policy if isinstance(policy, kind) else make_component(kind, policy)))
    return tuple(stages)


class LrStages(Converted["Sequence[tuple[int, Any]]", "tuple[tuple[int, LrPolicy], ...]"]):
    """Several learning-rate policies, each with its number of iterations."""

    wants = "a list of pairs: number of iterations (above 0), and a policy or a rate"

    @staticmethod
    def convert(value: Any) -> tuple[tuple[int, LrPolicy], ...]:
        return _stages(LrPolicy, value)


class MomentumStages(Converted["Sequence[tuple[int, Any]]", "tuple[tuple[int, MomentumPolicy], ...]"]):
    """Several momentum policies, each with its number of iterations."""

    wants = "a list of pairs: number of iterations (above 0), and a policy or a momentum"

    @staticmethod
    def convert(value: Any) -> tuple[tuple[int, MomentumPolicy], ...]:
        return _stages(MomentumPolicy, value)


class InnerStates:
    """The states of policies inside another one, with their memory."""

    def __init__(self, policies: Sequence[Any], training: Training) -> None:
        self.states = [policy.start(training) for policy in policies]

    def memory(self) -> Mapping[str, Any]:
        return {f"{index}.{key}": value for index, one in enumerate(self.states) for key, value in one.memory().items()}

    def remember(self, memory: Mapping[str, Any]) -> None:
        for index, state in enumerate(self.states):
            start = f"{index}."
            mine = {key.removeprefix(start): value for key, value in memory.items() if key.startswith(start)}
            if mine:
                state.remember(mine)


class StagedState(InnerStates):
    """Policies of the learning rate or of the momentum, one after the other; the last one is used to the end."""

    def __init__(self, stages: Sequence[tuple[int, Any]], training: Training) -> None:
        super().__init__([policy for _, policy in stages], training)
        self.starts = [0, *accumulate(count for count, _ in stages[:-1])]

    def _at(self, iteration: int) -> Any:
        return self.states[sum(start <= iteration for start in self.starts) - 1]

    def rate(self, iteration: int) -> float:
        """Return the learning rate of an iteration."""
        return self._at(iteration).rate(iteration)

    def momentum(self, iteration: int) -> float:
        """Return the momentum of an iteration."""
        return self._at(iteration).momentum(iteration)
