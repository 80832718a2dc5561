"""Algorithms: how the gradients of one batch are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import Algorithm, Net

if TYPE_CHECKING:
    from nacre import Step


class BP(Algorithm):
    """Back-propagation: forward once, backward once."""

    def train_one_batch(self, net: Net) -> list[Step]:
        return [*net.steps("feed"), *net.steps("forward"), *net.steps("backward")]
