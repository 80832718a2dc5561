"""The losses of a net, and the statistics of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, cast

from ..discovery.blame import blaming, wrong
from ..engine.collectives import Collectives, by_records
from ..engine.ops import Op
from ..engine.shares import Shares, count_of, share_of_part
from ..errors import brief
from ..protocols.communicator import Communicator, any_rank
from ..protocols.view import ROWS_OF_PART, Scalars

Totals = dict[str, tuple[float, float]]
"""Of each loss the sum over batches of the loss times what it has counted, and the sum of what it has counted."""


def added(totals: Mapping[str, tuple[float, float]], losses: Mapping[str, float], counts: Mapping[str, int]) -> Totals:
    """Return totals with those of one more batch."""
    found: Totals = {}
    for name, loss in losses.items():
        total, count = totals.get(name, (0.0, 0.0))
        found[name] = total + loss * counts[name], count + counts[name]
    return found


class Statistics:
    """The losses and statistics of a net; the methods are described in `Net`, where they have the same names.

    Args:
        ops: of the net's layers.
        scalars: hold how many rows of a batch are real.
        shares: of the losses, of several ranks.
        collectives: know the losses of all ranks, if the net is divided among them.
        communicator: connects the ranks whose statistics are joined.
        apart: whether these train in groups, each with losses of its own.
    """

    def __init__(
        self,
        ops: Iterable[Op],
        scalars: Scalars,
        shares: Shares | None = None,
        collectives: Collectives | None = None,
        communicator: Communicator | None = None,
        *,
        apart: bool = False,
    ) -> None:
        ops = list(ops)
        self._scalars = scalars
        self._shares = shares
        self._joined: tuple[int, dict[str, float]] | None = None
        self._losing = [op for op in ops if op.node.layer.has_loss]
        self._counting = [op for op in ops if op.node.layer.has_stats]
        self._collectives = collectives
        self._communicator, self._apart = communicator, apart
        self._own = "rows" if collectives is None else ROWS_OF_PART
        self._parts: dict[str, list[Op]] = {}
        for op in self._counting:
            self._parts.setdefault(op.node.whole_name, []).append(op)
        whole = [op.node.whole_name for op in self._losing] if collectives is None else collectives.loss_values
        names = [*dict.fromkeys(whole)]
        self._totals, self._own_rows = dict.fromkeys(names, (0.0, 0.0)), 0

    def losses(self) -> dict[str, float]:
        if self._collectives is not None:
            return dict(self._collectives.loss_values)
        shares = self._shares
        found: dict[str, float] = {}
        try:
            for op in self._losing:
                if shares is None or shares.of[op.name]:  # else this rank had no row, and the loss was not run
                    found[op.name] = float(share_of_part(op, self._losing)) * float(op.state.loss)
        except (AttributeError, TypeError, ValueError) as error:
            raise self._no_loss(error) from error
        every = found if shares is None else self._of_all_ranks(found, shares)
        losses: dict[str, float] = {}
        for op in self._losing:
            if op.name in every:
                name = op.node.whole_name
                losses[name] = losses.get(name, 0.0) + every[op.name]
        return losses

    def _of_all_ranks(self, losses: dict[str, float], shares: Shares) -> dict[str, float]:
        """Return the losses of the batch of all ranks. They talk once about each batch, the first time."""
        import numpy as np

        if self._joined is None or self._joined[0] != shares.batch:
            names = [op.name for op in self._losing]
            parts = np.array([shares.of[name] * losses.get(name, 0.0) for name in names])
            shares.communicator.allreduce(parts, ordered=True)
            self._joined = shares.batch, dict(zip(names, parts.tolist(), strict=True))
        return dict(self._joined[1])

    def counts(self) -> dict[str, int]:
        """Return what each loss of the last batch has counted: its rows, or the labels that it does not ignore."""
        if self._collectives is not None:
            return dict(self._collectives.counts)
        shares, counts = self._shares, dict[str, int]()
        for op in self._losing:
            count = count_of(op, int(self._scalars["rows"])) if shares is None else shares.counts[op.name]
            counts[op.node.whole_name] = counts.get(op.node.whole_name, 0) + count
        return counts

    def count_losses(self) -> float:
        losses = self.losses()
        if self._communicator is not None:
            self._own_rows += int(self._scalars[self._own])
        if len(losses) > 1:
            self._totals = added(self._totals, losses, self.counts())
        return sum(losses.values())

    def any_counted(self, here: bool) -> bool:
        """Return whether a rank has counted anything, of those that would join their statistics now."""
        counting, communicator = self._counting, self._communicator
        if self._collectives is not None:
            counting, communicator = self._collectives.counting, self._collectives.communicator
        if communicator is None:
            return here
        return any_rank(communicator, here) if counting or len(self._totals) > 1 else True

    def statistics(self) -> dict[str, dict[str, float]]:
        found = {name: self._statistics_of(ops) for name, ops in self._parts.items()}
        if self._collectives is not None:  # each rank has those of its own layers
            every = self._collectives.communicator.gather(found)
            found = {name: next(one[name] for one in every if name in one) for name in self._collectives.counting}
        if len(self._totals) > 1:
            for name, (total, count) in self._sums().items():
                found[name] = {"loss": total / max(count, 1), **found.get(name, {})}
        return found

    def _sums(self) -> Totals:
        """Return the totals of the losses of all groups; each rank of a group has those of its group."""
        if not self._apart or self._communicator is None:
            return self._totals
        import numpy as np

        sums = np.array([*self._totals.values()], np.float64)
        self._communicator.allreduce(sums, ordered=True)
        return {name: (total, count) for name, (total, count) in zip(self._totals, sums.tolist(), strict=True)}

    def reset_statistics(self) -> None:
        self._totals, self._own_rows = dict.fromkeys(self._totals, (0.0, 0.0)), 0
        for op in self._counting:
            with blaming(op.state):
                op.state.reset_statistics()

    def _statistics_of(self, ops: Sequence[Op]) -> dict[str, float]:
        """Return the statistics of a layer: of all ranks, and of all parts of the batches, each of which has an op."""
        communicator, op = self._communicator, ops[0]
        if self._collectives is not None and by_records(op.node.part):
            communicator = self._collectives.communicator
        if communicator is None and len(ops) == 1:
            return _statistics_of(op)
        import numpy as np

        own: list[dict[str, Any]] = []
        for one in ops:
            with blaming(one.state):
                if (found := one.state.collected()) is None:
                    return self._mean(communicator, ops)
                own.append({name: np.array(array) for name, array in found.items()})  # what it returned is its own
        state = op.state
        with blaming(state):
            try:
                state.reset_statistics()
                for arrays in own:
                    for other in [arrays] if communicator is None else communicator.gather_arrays(arrays):
                        state.join(other)
                return _statistics_of(op)
            finally:
                state.reset_statistics()
                state.join(own[0])

    def _mean(self, communicator: Communicator | None, ops: Sequence[Op]) -> dict[str, float]:
        """Return the mean of the statistics of all ranks, by the rows that each has counted, and of equal parts."""
        parts = [_statistics_of(op) for op in ops]
        found = {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
        if communicator is None:
            return found
        every = communicator.gather([self._own_rows, found])
        total = sum(rows for rows, _ in every) or 1
        return {name: sum(rows * other[name] for rows, other in every if rows) / total for name in found}

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
