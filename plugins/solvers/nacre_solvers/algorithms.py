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


class BPTT(BP):
    """Back-propagation through time: forward over all steps of the sequences, and backward over all of them.

    For recurrent nets, whose sequences are whole in a layer, or unrolled (`Unroll`); all steps' gradients are added up.
    """
