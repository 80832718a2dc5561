"""The losses of a net, and the statistics of its layers."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any, cast

from ..discovery.blame import blaming, wrong
from ..engine.ops import Op
from ..errors import brief
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
        try:
            return {op.name: float(op.state.loss) for op in self._losing}
        except (AttributeError, TypeError, ValueError) as error:
            raise self._no_loss(error) from error

    def count_losses(self) -> float:
        losses = list(self.losses().values())
        if len(losses) > 1:
            rows = int(self._scalars["rows"])
            self._rows += rows
            self._totals = [total + rows * one for total, one in zip(self._totals, losses, strict=True)]
        return sum(losses)

    def statistics(self) -> dict[str, dict[str, float]]:
        found = {op.name: _statistics_of(op) for op in self._counting}
        if len(self._losing) > 1:
            for op, total in zip(self._losing, self._totals, strict=True):
                found[op.name] = {"loss": total / max(self._rows, 1), **found.get(op.name, {})}
        return found

    def reset_statistics(self) -> None:
        self._totals, self._rows = [0.0] * len(self._losing), 0
        for op in self._counting:
            with blaming(op.state):
                op.state.reset_statistics()

    def _no_loss(self, error: Exception) -> Exception:
        for op in self._losing:
            loss = getattr(op.state, "loss", None)
            try:
                float(loss)  # pyright: ignore[reportArgumentType]
            except (TypeError, ValueError):
                reason = f"its loss is {brief(loss)}, but it must be a number, or an array of the backend with one"
                return wrong(op.state, reason, "forward must set self.loss")
        return error


def _statistics_of(op: Op) -> dict[str, float]:
    with blaming(op.state):
        found: Any = op.state.dump_statistics()
    values = list(cast("dict[str, Any]", found).values()) if isinstance(found, dict) else [None]
    if not all(map(_is_number, values)):
        reason = f"dump_statistics returned {brief(cast('object', found))}, but it must return a dict of numbers"
        raise wrong(op.state, reason, 'return {"accuracy": ..., ...}')
    return cast("dict[str, float]", found)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) or getattr(value, "shape", None) == ()
