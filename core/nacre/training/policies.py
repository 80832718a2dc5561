"""Policies: the learning rate and the momentum of each iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..discovery.fitting import required
from ..errors import ConfigError, brief
from ..fields.component import Component, Written
from ..fields.types import amount

if TYPE_CHECKING:
    from .training import Training


class LrState(Protocol):
    """A learning-rate policy at work in one training."""

    def rate(self, iteration: int) -> float:
        """Return the learning rate of an iteration, counted from 0."""
        ...

    def memory(self) -> Mapping[str, Any]:
        """Return what must survive a restart, as arrays, numbers and strings."""
        ...

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned."""
        ...


class LrPolicy(Component, kind="lr_policy"):
    """Gives the learning rate of an iteration."""

    if TYPE_CHECKING:

        def __set__(self, thing: object, value: LrPolicy | Written | float) -> None: ...

    def start(self, training: Training) -> LrState:
        """Return what computes the rates of one training: this policy itself, unless it has a memory."""
        return self

    @required("start")
    def rate(self, iteration: int) -> float:
        """Return the learning rate of an iteration, counted from 0."""
        raise NotImplementedError


GIVEN = "(given)"  # no policy's memory has this name


class Rate:
    """The learning rate of a training: that of its policy, or the one that somebody has `given`."""

    acts_for: ClassVar[str] = "policy"

    def __init__(self, policy: LrState) -> None:
        self.policy = policy
        self.given: float | None = None

    def set(self, rate: float | None) -> None:
        """Use a rate from now on; None gives it back to the policy."""
        try:
            self.given = None if rate is None else amount(rate)
        except ValueError:
            raise ConfigError(
                f"lr={brief(rate)}, but it must be a finite number, 0 or more",
                "set a number; a policy is a field of the solver: Solver(..., lr_policy=...)",
            ) from None

    def rate(self, iteration: int) -> float:
        """Return the learning rate of an iteration, counted from 0."""
        return self.policy.rate(iteration) if self.given is None else self.given

    def memory(self) -> Mapping[str, Any]:
        """Return what must survive a restart."""
        return {**self.policy.memory(), **({} if self.given is None else {GIVEN: self.given})}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned."""
        self.given = float(memory[GIVEN]) if GIVEN in memory else None
        if policys := {key: value for key, value in memory.items() if key != GIVEN}:
            self.policy.remember(policys)


class MomentumState(Protocol):
    """A momentum policy at work in one training."""

    def momentum(self, iteration: int) -> float:
        """Return the momentum of an iteration, counted from 0."""
        ...

    def memory(self) -> Mapping[str, Any]:
        """Return what must survive a restart, as arrays, numbers and strings."""
        ...

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned."""
        ...


class MomentumPolicy(Component, kind="momentum_policy"):
    """Gives the momentum of an iteration."""

    if TYPE_CHECKING:

        def __set__(self, thing: object, value: MomentumPolicy | Written | float) -> None: ...

    def start(self, training: Training) -> MomentumState:
        """Return what computes the momenta of one training: this policy itself, unless it has a memory."""
        return self

    @required("start")
    def momentum(self, iteration: int) -> float:
        """Return the momentum of an iteration, counted from 0."""
        raise NotImplementedError
