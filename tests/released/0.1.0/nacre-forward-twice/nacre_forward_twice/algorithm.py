"""ForwardTwice: every batch runs forward twice."""

from __future__ import annotations

from nacre import Algorithm, Net
from nacre.schedule import Step


class ForwardTwice(Algorithm):
    """Back-propagation with a second look at every batch."""

    def train_one_batch(self, net: Net) -> list[Step]:
        """Give the passes."""
        return [*net.steps("feed"), *net.steps("forward"), *net.steps("forward"), *net.steps("backward")]
