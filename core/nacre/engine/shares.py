"""Shares: what the losses of several ranks, and of parts of a batch, count in the loss of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..protocols.backend import Own, Step
from ..protocols.communicator import Communicator
from ..protocols.view import Scalars, View
from .ops import Op


def real_rows(scalars: Scalars, shares: Shares | None) -> int:
    """Return how many rows of the last batch are real, on all ranks that have shares of it."""
    return int(scalars["rows"]) if shares is None else shares.rows


class Shares:
    """The share of this rank's losses in those of all ranks.

    A loss is a sum, divided by a count of this rank (`LayerState.divided_by`). Multiplied by this count, divided by
    that of all ranks, the losses of all ranks add up to that of one process with the rows of all; and so do the
    gradients, if what a loss hands down is multiplied too.

    `of` are the shares in the last batch, of each loss by the name of its op, and `counts` what each counted on all
    ranks; `rows` are those that count on all ranks, and `batch` is the number of the batch.
    """

    def __init__(self, communicator: Communicator, ops: Sequence[Op], view: View) -> None:
        self.communicator, self.view, self.scalars = communicator, view, view.scalars
        self.losing = [op for op in ops if op.neuron is None and op.node.layer.has_loss]
        self.of: dict[str, float] = {op.name: 1 / communicator.size for op in self.losing}
        self.counts: dict[str, int] = dict.fromkeys(self.of, 0)
        self.rows = self.batch = 0
        self.steady = view.phase == "train" and all(op.state.divided_by != "count" for op in self.losing)
        """Whether they are always the same: in training every rank has a full batch."""

    def step(self) -> Step:
        """Return the step that finds the shares of a batch, after its forward pass."""
        return Step("share", "losses", self.find)

    def find(self, *, empty: bool = False) -> None:
        """Find the shares of a batch; `empty` says that this rank has no row, so its layers were not run."""
        import numpy as np

        self.batch += 1
        rows = int(self.scalars["rows"])
        empty = empty or not rows
        counts = [rows, *(0 if empty else count_of(op, rows) for op in self.losing)]
        if self.steady:
            self.rows = self.view.together(rows)
            totals = [self.rows] * len(counts)
        else:
            summed = np.array(counts, np.int64)
            self.communicator.allreduce(summed)
            self.rows, *_ = totals = summed.tolist()
        for op, count, total in zip(self.losing, counts[1:], totals[1:], strict=True):
            nothing = op.state.divided_by == "nothing"
            self.counts[op.name] = total
            self.of[op.name] = 0.0 if empty else 1.0 if nothing else max(count, 1) / max(total, 1)

    def backward_step(self, op: Op) -> Step:
        """Return the step that multiplies the gradients that a loss has written."""
        return _scaling(op, lambda: self.of[op.name])


def count_of(op: Op, rows: int) -> int:
    """Return what a loss has counted in the last batch: the rows, unless it is divided by a count of its own."""
    if op.state.divided_by != "count":
        return rows
    count: Any = op.state.n_counted
    backend = op.state.backend.backend
    known = backend.on_host or isinstance(count, int)
    return int(count if known else backend.to_host(count))  # for which it waits


def share_of_part(op: Op, ops: Iterable[Op]) -> Any:
    """Return what the loss of an op counts in that of the whole batch, of which its node may have a part.

    Those of the other parts are among `ops`, and have run: one that is divided by a count of its own counts so much. On
    a device that is an array of one, for which nobody has waited.
    """
    if (micro := op.node.micro) is None or op.state.divided_by == "nothing":
        return 1.0
    if op.state.divided_by == "rows":
        return 1 / micro.count
    parts = [one for one in ops if one.neuron is None and one.node.micro and one.node.micro.name == micro.name]
    own: Any = op.state.n_counted
    every: Any = sum(one.state.n_counted for one in parts)
    if op.state.backend.backend.on_host or isinstance(every, int):
        return max(int(own), 1) / max(int(every), 1)
    xp = op.state.backend.xp
    return xp.maximum(own, 1) / xp.maximum(every, 1)


def part_steps(op: Op, ops: Sequence[Op]) -> list[Step]:
    """Return the step that multiplies the gradients of a loss of a part of the batch, if they have to be."""
    is_loss = op.neuron is None and op.node.layer.has_loss
    if not is_loss or op.node.micro is None or op.state.divided_by == "nothing":
        return []
    return [_scaling(op, lambda: share_of_part(op, ops))]


def _scaling(op: Op, share: Callable[[], Any]) -> Step:
    backend, xp, scratch = op.backend, op.backend.xp, op.state.backend.scratch
    trained = [one for one in op.state.parameters if one.trainable]

    def scale() -> None:
        factor = share()
        gradients = [one.gradient for one in trained if not one.frozen]
        for gradient in [*op.given_diffs, *gradients]:
            array: Any = backend.elements(gradient) if isinstance(gradient, Own) else gradient
            if array is not None:
                xp.multiply(array, factor, out=array)
            elif gradient is not None:  # its memory holds something else than its numbers, such as bits of bf16
                array = scratch(gradient.shape)
                backend.unpack(gradient, array)
                xp.multiply(array, factor, out=array)
                backend.pack(array, gradient)

    return Step("share", op.name, scale)
