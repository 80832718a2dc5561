"""Collective steps of a net that is divided among ranks: what all ranks do together before and after its passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from ..errors import ConfigError, DataError
from ..protocols.array import Array
from ..protocols.backend import Step
from ..protocols.communicator import Communicator
from ..protocols.parameter import Storage
from ..protocols.part import BATCH, Part, part_of
from ..protocols.state import SourceState
from ..protocols.view import ROWS_OF_PART, View
from .ops import Op
from .parameters import Slot
from .schedule import compile_steps
from .shares import Shares, count_of, share_of_part


class Collectives(Shares):
    """What the ranks of a divided net do together; `losses` and `counting` are the names of all layers of the whole
    net with a loss, and of those with statistics, in order. Several losses may be of parts of the batches: each has the
    name of the one of all.

    Before forward they agree on how many rows of the batch are real, after it on the losses; after backward, the
    gradients of the parameters that every rank has are added up, and buffers by records are averaged. `loss_values` and
    `counts` are those of the last batch, by the names of whole batches, and `epoch` is how many passes over the data
    the sources of all ranks have completed. Losses that are divided by records have a share, as in `Shares`; others are
    on one rank. `view` is the net's, of its own backend.
    """

    def __init__(
        self,
        net: str,
        communicator: Communicator,
        view: View,
        ops: Sequence[Op],
        slots: Sequence[Slot],
        losses: Mapping[str, str],
        counting: Sequence[str],
    ) -> None:
        super().__init__(communicator, ops, view)
        self._net, self._slots = net, slots
        view.scalars.declare(ROWS_OF_PART)
        self._own_losses = {op.name: op for op in self.losing}
        self.losing = [op for op in self.losing if by_records(op.node.part)]
        self._sources = [
            (op.node.part, op.outputs[0].shape[0], op.state) for op in ops if isinstance(op.state, SourceState)
        ]
        parts = [op.node.part for op in ops if op.node.part is not None and by_records(op.node.part)]
        self._batch = max((part.length for part in parts), default=0)
        self.counting = counting
        own = [op for op in ops if op.neuron is None and (op.layer.has_loss or op.layer.has_stats)]
        self._counting = [op.name for op in own if by_records(op.node.part)]
        for op in self.losing:
            if op.node.micro is not None and op.state.divided_by == "count":
                raise ConfigError(
                    f"{op.node.whole_name}: it divides by what it counts, so its micro-batches cannot be divided by "
                    "records, too",
                    "set its partition_dim to -1, or let it divide by rows",
                )
        self._losses = losses
        self.loss_values = dict.fromkeys(losses.values(), 0.0)
        self.counts = dict.fromkeys(self.loss_values, 0)
        self.epoch = 0

    def forward(self, steps: Sequence[Step]) -> list[Step]:
        """Return the steps of forward, from those of the layers.

        Outside of training, losses and statistics by records are left out where this rank has no real row.
        """
        if self.view.phase != "train":
            counting = set(self._counting)
            counts = [one.kind == "forward" and one.name in counting for one in steps]
            steps = [self._if_any_row(one) if some else one for one, some in zip(steps, counts, strict=True)]
        return [Step("rows", self._net, self._share_rows), *steps]

    def _if_any_row(self, step: Step) -> Step:
        compiled: list[Callable[[], None]] = []

        def call() -> None:
            if self.scalars[ROWS_OF_PART]:
                if not compiled:
                    compiled.append(compile_steps([step]))
                compiled[0]()

        return replace(step, call=call, own=None)

    def agree_on_epoch(self) -> None:
        """Find out how many passes over the data are complete, which only the ranks with sources know."""
        import numpy as np

        epochs = np.array([max((source.epoch for _, _, source in self._sources), default=0)])
        self.communicator.allreduce(epochs, "max")
        self.epoch = int(epochs[0])

    def find(self, *, empty: bool = False) -> None:
        """Find the losses of all ranks, and this one's shares in them."""
        import numpy as np

        self.batch += 1
        found = np.zeros((3, len(self._losses)))  # sums, what they are divided by, and what they count
        counts: dict[str, int] = {}
        for place, name in enumerate(self._losses):
            if (op := self._own_losses.get(name)) is not None:
                rows = int(self.scalars[ROWS_OF_PART])
                if op in self.losing and not rows:  # it was not run
                    continue
                counted = op in self.losing and op.state.divided_by != "nothing"
                counts[name] = count_of(op, rows) if counted else 0
                loss = float(share_of_part(op, self._own_losses.values())) * float(op.state.loss)
                counts_here = count_of(op, rows if op in self.losing else self.rows)
                found[:, place] = loss * max(counts[name], 1), counts[name], counts_here
        self.communicator.allreduce(found, ordered=True)
        totals = np.maximum(found[1], 1)
        self.loss_values = dict.fromkeys(self.loss_values, 0.0)
        for name, loss in zip(self._losses.values(), (found[0] / totals).tolist(), strict=True):
            self.loss_values[name] += loss
        self.counts = dict.fromkeys(self.loss_values, 0)
        for name, count in zip(self._losses.values(), found[2].tolist(), strict=True):
            self.counts[name] += int(count)
        total = dict(zip(self._losses, totals.tolist(), strict=True))
        self.of = {name: max(count, 1) / total[name] for name, count in counts.items()}

    def after_backward(self) -> list[Step]:
        """Return the steps that add up gradients: one for all that lie one behind the other in an arena."""
        steps: list[Step] = []
        run: list[Slot] = []
        for slot in [*(one for one in self._slots if one.placed and one.everywhere and not one.frozen), None]:
            if run and (slot is None or not _follows(run[-1], slot)):
                steps.append(Step("all-reduce", run[0].name, partial(self.view.add_up, _span(run))))
                run = []
            run += [slot] if slot else []
        return [*steps, *self._averages()]

    def _averages(self) -> list[Step]:
        """Return the steps that replace buffers of layers by records by their means over ranks, weighed by rows."""
        return [
            Step("all-reduce", slot.name, partial(self._average, slot.storage, (part.stop - part.start) / part.length))
            for slot in self._slots
            if not slot.trainable and (part := slot.uses[0].op.node.part) is not None and by_records(part)
        ]

    def _average(self, storage: Storage, share: float) -> None:
        self.view.xp.multiply(storage.array, share, out=storage.array)
        self.view.add_up(storage.array)
        storage.version += 1

    def _share_rows(self) -> None:
        """Count the real rows of the joined batch and those of this rank's part, and the passes over the data.

        Raises:
            DataError: a rank has no real row in training, where it has to give the gradient of a loss.
        """
        import numpy as np

        own = [inf, inf, 0.0]  # rows of the sources that are divided by records, and of those on one rank; the epoch
        for divided in (True, False):
            here = [(rows, source) for part, rows, source in self._sources if by_records(part) is divided]
            if here:  # the net has counted the rows of all
                own[0 if divided else 1] = min(self.scalars["rows"], max(rows for rows, _ in here))
                own[2] = max(own[2], *(source.epoch for _, source in here))
        every = np.empty((self.communicator.size, 3))
        self.communicator.allgather(np.array(own), every)
        rows = min(every[:, 0].sum(), every[:, 1].min())
        self.epoch = int(every[:, 2].max())
        parts = [part_of(self._batch, rank, self.communicator.size) for rank in range(self.communicator.size)]
        counts = [min(max(rows - start, 0), stop - start) for start, stop in parts]
        if self._counting and not min(counts) and self.view.phase == "train":
            raise DataError(
                f"net '{self._net}': {int(rows)} real records of a batch of {self._batch} are too few for "
                f"{self.communicator.size} ranks, among which '{self._counting[0]}' is divided by records",
                "use a batch_size that divides the number of records, or set its partition_dim to -1",
            )
        self.rows = int(rows)
        self.scalars["rows"], self.scalars[ROWS_OF_PART] = rows, counts[self.communicator.rank]


def by_records(part: Part | None) -> bool:
    """Return whether a rank has a part of a layer's records."""
    return part is not None and part.dim == BATCH


def _follows(one: Slot, other: Slot) -> bool:
    """Return whether a slot's gradient lies behind another's in one arena, with nothing between but its padding."""
    first, second = one.placed, other.placed
    assert first is not None and second is not None
    between = second.offset - first.offset - one.storage.size
    return first.arena is not None and first.arena is second.arena and 0 <= between < _PADDED


_PADDED = 64


def _span(slots: Sequence[Slot]) -> Array:
    """Return the flat array of the gradients of slots that lie one behind the other."""
    first, last = slots[0].placed, slots[-1].placed
    assert first is not None and last is not None
    return first.arena[first.offset : last.offset + slots[-1].storage.size]
