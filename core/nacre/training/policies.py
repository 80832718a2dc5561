"""Policies: the learning rate and the momentum of each iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..fields.component import Component, Written

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

    def rate(self, iteration: int) -> float:
        """Return the learning rate of an iteration, counted from 0."""
        raise NotImplementedError


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

    def momentum(self, iteration: int) -> float:
        """Return the momentum of an iteration, counted from 0."""
        raise NotImplementedError
