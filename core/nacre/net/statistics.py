"""The losses of a net, and the statistics of its layers."""

from __future__ import annotations

from collections.abc import Iterable

from ..engine.ops import Op
from ..protocols.view import Scalars


class Statistics:
    """The losses and statistics of a net; the methods are described in `Net`, where they have the same names.

    Args:
        ops: of the net's layers.
        scalars: hold how many rows of a batch are real.
    """

    def __init__(self, ops: Iterable[Op], scalars: Scalars) -> None:
        ops = list(ops)
        self._scalars = scalars
        self._losing = [op for op in ops if op.node.layer.has_loss]
        self._counting = [op for op in ops if op.node.layer.has_stats]
        self._totals, self._rows = [0.0] * len(self._losing), 0

    def losses(self) -> dict[str, float]:
        return {op.name: float(op.state.loss) for op in self._losing}

    def count_losses(self) -> float:
        losses = list(self.losses().values())
        if len(losses) > 1:
            rows = int(self._scalars["rows"])
            self._rows += rows
            self._totals = [total + rows * one for total, one in zip(self._totals, losses, strict=True)]
        return sum(losses)

    def statistics(self) -> dict[str, dict[str, float]]:
        found = {op.name: op.state.dump_statistics() for op in self._counting}
        if len(self._losing) > 1:
            for op, total in zip(self._losing, self._totals, strict=True):
                found[op.name] = {"loss": total / max(self._rows, 1), **found.get(op.name, {})}
        return found

    def reset_statistics(self) -> None:
        self._totals, self._rows = [0.0] * len(self._losing), 0
        for op in self._counting:
            op.state.reset_statistics()
