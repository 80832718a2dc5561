"""Policies of the momentum."""

from __future__ import annotations

from typing import Annotated

from nacre import MomentumPolicy, fraction


class FixedMomentum(MomentumPolicy):
    """momentum = base."""

    base: Annotated[float, fraction, "the momentum"]

    def momentum(self, iteration: int) -> float:
        return self.base
