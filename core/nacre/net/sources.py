"""The sources of a net: their batches, how many rows of these are real, and passes over the data."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property, partial
from numbers import Integral
from typing import Any

from ..discovery.blame import blaming, called, wrong
from ..engine.collectives import Collectives
from ..engine.memory import Memory
from ..engine.ops import Value
from ..engine.shares import Shares, real_rows
from ..errors import ConfigError, DataError, brief
from ..protocols.backend import Step
from ..protocols.part import Part
from ..protocols.state import SourceState
from ..protocols.view import Scalars, has_no_rows, joined_rows, unasked_part
from .blobs import Blobs
from .carried import Carried, remembered
from .finite import bad_records
from .input import InputState
from .statistics import Statistics, Totals, added

Calls = Mapping[str, Callable[[], None]]
"""The compiled passes of a net: "feed" and "forward", and "spread", which copies the batch to other memories."""


class Sources:
    """The sources of a net in one phase; the methods are described in `Net`, where they have the same names.

    `scalars` holds how many rows of a batch are real; `shares` are those of several ranks, and
    `collectives` what the ranks of a divided net have together. `states` are those of the sources.
    """

    def __init__(
        self,
        net: str,
        phase: str,
        memory: Memory,
        scalars: Scalars,
        blobs: Blobs,
        shares: Shares | None = None,
        collectives: Collectives | None = None,
    ) -> None:
        self._shares = shares
        self._collectives = collectives
        self._net = net
        self._phase = phase
        self._memory = memory
        self._scalars = scalars
        self._blobs = blobs
        self._at_work = [(op, op.state) for op in memory.ops if isinstance(op.state, SourceState)]
        self.states = [state for _, state in self._at_work]
        self._ending = [state for state in self.states if not state.endless]
        self._unproven = [state for state in self.states if not isinstance(state, InputState)]
        self._first: list[Mapping[str, Any]] = []

    # Batches

    def rows_step(self) -> Step:
        """Return the step that counts the rows of a batch, after the steps of the sources."""
        return Step("rows", self._net, self._count_rows)

    def _count_rows(self) -> None:
        """Count the rows of the batch that the sources have made, or that was written."""
        if self._at_work:
            # Sources may have batches of different sizes; the one that is not full gives the number.
            short: list[int] = []
            for op, state in self._at_work:
                rows, batch = state.rows, op.outputs[0].shape[0]
                # the type first: to ask an abstract class takes two calls of Python in every batch
                if not ((type(rows) is int or isinstance(rows, Integral)) and 0 <= rows <= batch):
                    reason = f"its rows are {brief(rows)}, but must be how many rows of the batch of {batch} are real"
                    raise wrong(state, reason, "forward must set self.rows")
                if rows < batch:
                    short.append(rows)
            if self._unproven:
                self._refuse_wrong_rows()
            self._scalars["rows"] = 0 if self._empty else min(short) if short else self._largest_batch

    def _refuse_wrong_rows(self) -> None:
        """Raise an error if a source has fed other rows than this rank's; who has asked once which they are, knows."""
        for state in self._unproven:
            if (part := unasked_part(state.backend)) is not None:
                raise _wrong_rows(state, part)
        self._unproven = []

    @cached_property
    def _empty(self) -> bool:
        """Whether there is a source here that feeds no row that counts."""
        return any(has_no_rows(state.backend) for state in self.states)

    @cached_property
    def _largest_batch(self) -> int:
        """The rows of the largest blob that sources feed, directly or through a layer that joins their batches."""
        fed: dict[int, Value] = {}
        for op in self._memory.ops:
            if isinstance(op.state, SourceState) or any(id(value) in fed for value in op.inputs):
                fed |= {id(value): value for value in op.outputs}
        return max(value.shape[0] for value in fed.values() if value.shape)

    def feed(self, calls: Calls) -> None:
        calls["feed"]()
        self._blobs.fresh = False
        if self._blobs.pending:
            if short := self._blobs.put_pending():
                self._scalars["rows"] = min(self._scalars["rows"], short)
            calls["spread"]()

    def unwritten(self) -> list[str]:
        tops = [top for op, state in self._at_work if isinstance(state, InputState) for top in op.layer.tops]
        return [top for top in tops if top not in self._blobs.written]

    def refuse_unwritten(self) -> None:
        read = {value.name for op in self._memory.ops for value in op.inputs}
        if blobs := [blob for blob in self.unwritten() if blob in read]:
            names = ", ".join(map(repr, blobs))
            raise DataError(
                f"net '{self._net}' has no data: nothing was written to {names} of its Input layers",
                f"write it before (net.write({blobs[0]!r}, x)), or use a source with data",
            )

    # Passes over the data

    def note_first(self) -> None:
        """Note what the sources remember before their first batch, with which every `forward_epoch` begins.

        Where all of them are written from outside, count their rows, too.
        """
        if not self._unproven:
            self._count_rows()
        if self._phase != "train" and not self._first:
            for state in self.states:
                with blaming(state):
                    self._first.append(deepcopy(dict(remembered(state))))

    def _begin(self) -> None:
        """Let the sources begin anew: their orders and random numbers are those of the first pass.

        So what a pass finds does not depend on how many this process has made before.
        """
        for state, first in zip(self.states, self._first, strict=True):
            if first:
                state.remember(first)
        for source in self._ending:
            source.rewind()
        if self._collectives is not None:
            self._collectives.agree_on_epoch()

    @property
    def rows(self) -> int:
        return real_rows(self._scalars, self._shares)

    @property
    def batch(self) -> int:
        batches: list[int] = []
        for op, state in self._at_work:
            if op.outputs[0].shape:
                batches.append(joined_rows(state.backend, op.outputs[0].shape[0])[1])
        return max(batches, default=0)

    @property
    def epoch(self) -> int:
        if self._collectives is not None:
            return self._collectives.epoch
        if not self._ending:
            return 0
        if type(epoch := self._ending[0].epoch) is not int and not isinstance(epoch, Integral):
            reason = f"its epoch is {brief(epoch)}, but must be how many passes over the data are complete"
            raise wrong(self._ending[0], reason, "forward must set self.epoch")
        return epoch

    def forward_epoch(
        self,
        calls: Calls,
        statistics: Statistics,
        carried: Carried,
        warn: Callable[[str], object] | None = None,
        each: Callable[[], object] | None = None,
    ) -> float:
        net, phase = f"net '{self._net}'", self._phase
        if phase == "train":
            raise DataError(
                f"{net} is in phase 'train', in which a pass over the data may begin inside a batch",
                "use a net of another phase: net.derive('validation')",
            )
        if not self._ending and self._collectives is None:
            raise DataError(f"{net} has no source whose data have an end, so there are no passes over the data")
        self.refuse_unwritten()
        self._begin()
        carried.rewind()
        start, rows, batches, empty = self.epoch, 0, 0, 0
        totals: Totals = {}
        bad = Counter[str]()
        while self.epoch == start:
            try:
                self.feed(calls)
                bad.update(bad_records(self._memory))
                self._forward(calls, carried)
            except DataError as error:
                self.tell(error, f"phase '{phase}', batch {batches}")
                raise
            if each is not None:
                each()
            batches += 1
            statistics.count_losses()
            totals = added(totals, statistics.losses(), statistics.counts())
            rows += self.rows
            empty = 0 if self.rows else empty + 1
            if empty > 1 or (not rows and self.epoch != start):
                reason = f"{empty} batches after another have no row that counts, in a pass that has to have some"
                raise wrong(self._ending[0], reason, "forward must set self.rows, and self.epoch at the end of a pass")
        if (shares := self._collectives or self._shares) is not None:
            every = shares.communicator.gather(dict(bad))
            bad = Counter({blob: sum(one.get(blob, 0) for one in every) for one in every for blob in one})
        for blob, count in bad.items():
            message = f"{blob}: {count} of {rows} records have numbers that are not finite"
            (warn or partial(warnings.warn, stacklevel=4))(f"{message}, so loss and statistics are not reliable")
        return sum((total / max(count, 1) for total, count in totals.values()), 0.0)

    def _forward(self, calls: Calls, carried: Carried) -> None:
        """Run the layers on a batch; of several ranks, those that have no row of it only tell the others so."""
        if self._shares is not None and not self._scalars["rows"]:
            self._shares.find(empty=True)
        else:
            calls["forward"]()
            carried.advance()

    def tell(self, error: DataError, when: str) -> None:
        names = [f"'{op.name}'" for op in self._memory.ops if op.is_source]
        error.args = (f"{when} of layer{'s' * (len(names) > 1)} {', '.join(names)}: {error.args[0]}",)


def _wrong_rows(state: SourceState, part: Part) -> ConfigError:
    """Return the error of a source that does not ask which rows are its own, where its rank and rows do not tell."""
    return ConfigError(
        f"{called(state)} does not ask which rows of a batch are this rank's, so it would feed wrong ones: "
        f"{part.length} records are not divided evenly among {part.count} ranks",
        f"use a multiple of {part.count} as batch_size; its author should take the rows that backend.joined(rows) says",
    )
