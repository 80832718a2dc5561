"""Policies by passes over the data, in place of iterations."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import ConfigError, LrPolicy, LrState, MomentumPolicy, MomentumState, Training

from .stages import InnerStates


class ByEpoch(LrPolicy):
    """Another policy, which counts complete passes over the data where it would count iterations.

    `ByEpoch(policy=Step(base=0.1, gamma=0.5, stepsize=10))` halves the rate after every tenth pass.
    """

    policy: Annotated[LrPolicy, "the policy, whose iterations are passes over the data"]

    def start(self, training: Training) -> LrState:
        return ByEpochState(self, training)


class MomentumByEpoch(MomentumPolicy):
    """Another policy, which counts complete passes over the data where it would count iterations."""

    policy: Annotated[MomentumPolicy, "the policy, whose iterations are passes over the data"]

    def start(self, training: Training) -> MomentumState:
        return ByEpochState(self, training)


class ByEpochState(InnerStates):
    """`ByEpoch` in one training, of the learning rate or of the momentum."""

    def __init__(self, policy: Any, training: Training) -> None:
        super().__init__([policy.policy], training)
        if training.endless:
            name = training.net.name
            raise ConfigError(
                f"ByEpoch: no source of net '{name}' has an end, so there are no passes over its data",
                "use the policy in it alone, which counts iterations",
            )
        self.training = training

    def rate(self, iteration: int) -> float:
        """Return the learning rate."""
        return self.states[0].rate(self.training.epochs)

    def momentum(self, iteration: int) -> float:
        """Return the momentum."""
        return self.states[0].momentum(self.training.epochs)
