"""Algorithm: the passes of a net that train one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..fields.component import Component

if TYPE_CHECKING:
    from ..net.net import Net
    from ..protocols.backend import Step


class Algorithm(Component, kind="algorithm"):
    """Trains one batch: defines the passes of a net in an iteration."""

    def train_one_batch(self, net: Net) -> list[Step]:
        """Return the steps that compute the gradients of one batch: `net.steps("feed")`, `"forward"`, `"backward"`.

        Called once; the solver compiles the steps together with its own.
        """
        raise NotImplementedError
