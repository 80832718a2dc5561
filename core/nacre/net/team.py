"""Nets that predict the records of a batch: one on all threads, or several beside each other, on one thread each."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING

from ..engine.ops import item_size, value_bytes
from ..fields.configured import inside
from ..protocols.backend import Backend, wrapped
from ..protocols.layer import Layer
from .turns import Turns

if TYPE_CHECKING:
    import numpy as np

    from .net import Net

LEAST = 8
"""Records that a net of several takes at a time, at least: with fewer, its products are too small to be fast."""

MOST_BLOBS = 8 << 20
"""Bytes of the blobs of one layer that a cache holds: only batches with larger ones are shared out."""

MOST_PARAMETERS = 16 << 20
"""Bytes of parameters, at most, that several nets read apart from each other, from a cache that they share."""

Derive = Callable[[int, Mapping[str, object]], "Net"]
"""Makes a net for so many records at a time, with some options of `Net` besides."""

Part = tuple[int, int]
"""Some of a batch's records: the number of the first, and of the one behind the last."""


class Team:
    """Predicts batches of `rows` records with nets that share their parameters.

    Args:
        nets: the one that takes whole batches; or those that take parts of one, beside each other.
        backend: that of the net that they are derived from.
    """

    def __init__(self, nets: Sequence[Net], backend: Backend, rows: int) -> None:
        self.nets, self.rows = nets, rows
        self._backend = backend
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, batch: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Run one batch of records, or a part of one; return one row of each output for each record."""
        if len(self.nets) == 1:
            return run(self.nets[0], batch, outputs)
        import numpy as np

        rows = len(next(iter(batch.values())))
        each = self.nets[0].memory.final[outputs[0]].shape[0]
        parts = deque((start, min(start + each, rows)) for start in range(0, rows, each))
        values = ((name, self.nets[0].memory.final[name]) for name in outputs)
        found = {name: np.empty((rows, *value.shape[1:]), value.dtype) for name, value in values}

        def work(net: Net) -> None:
            while (part := _next(parts)) is not None:
                some = slice(*part)
                for name, rows in run(net, {key: array[some] for key, array in batch.items()}, outputs).items():
                    found[name][some] = rows

        wrapped(self._backend, lambda: self._beside(work, parts), own=True)()
        return found

    def _beside(self, work: Callable[[Net], None], parts: deque[Part]) -> None:
        """Let each net work until there are no parts left, the first in this thread; all have ended when it returns."""
        others: list[Future[None]] = [self._threads().submit(work, net) for net in self.nets[1:]]
        try:
            work(self.nets[0])
        finally:
            parts.clear()
            wait(others)
        for one in others:
            one.result()

    def _threads(self) -> ThreadPoolExecutor:
        """Return the threads of all nets but the first: a child of a fork has none of its parent's."""
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(len(self.nets) - 1, "nacre-predict"), os.getpid()
        return self._pool

    def shutdown(self) -> None:
        """Shut down all nets; may be called twice."""
        with ExitStack() as all_of_it:
            for net in self.nets:
                all_of_it.callback(net.shutdown)
            if self._pool is not None and self._process == os.getpid():
                self._pool.shutdown()


def team(net: Net, layers: Sequence[Layer], rows: int, derive: Derive) -> Team:
    """Return a team for batches of so many rows, of nets that `derive` makes of `net`.

    They are several if a cache cannot hold the blobs of a batch, but its parameters, and if no layer needs the records
    of a batch together. That is a rule and not measured, so results have the same bits at every start.

    Args:
        layers: those that `derive` puts into its nets.
        derive: makes the nets from `net`.
    """
    most = _rows_in_a_cache(net)
    by_records = not any(one.not_by_records() for layer in layers for one in inside(layer) if isinstance(one, Layer))
    if most < rows and by_records and net.communicator is None and net.division is None and not net.carries:
        backends = net.backend.beside()[: rows // LEAST]
        size = sum(prod(one.shape) for one in net.parameters.values()) * item_size(net.dtype)
        if len(backends) > 1 and size <= MOST_PARAMETERS:
            turns = -(-rows // (len(backends) * most))
            if (nets := _beside(backends, -(-rows // (len(backends) * turns)), derive)) is not None:
                return Team(nets, net.backend, rows)
    return Team([derive(rows, {})], net.backend, rows)


def _rows_in_a_cache(net: Net) -> int:
    """Return for how many records a cache can hold the blobs of the layer with the largest, or LEAST if for fewer."""
    batch = max((value.shape[0] for op in net.ops if op.is_source for value in op.outputs if value.shape), default=1)
    blobs = max((sum(map(value_bytes, (*op.inputs, *op.outputs))) for op in net.ops), default=0)
    return max(LEAST, MOST_BLOBS * batch // max(blobs, 1))


def _beside(backends: Sequence[Backend], rows: int, derive: Derive) -> list[Net] | None:
    """Return a net on each backend; None if other code than theirs takes part, or a blob has no row for each record."""
    with ExitStack() as stack:
        nets: list[Net] = []
        for backend in backends:
            plan = {"plan": nets[0].plan} if nets else {}
            nets.append(net := derive(rows, {"backend": backend, **plan}))
            stack.callback(net.shutdown)
            net.turns = Turns(net.name)
            if not net.computes_alone or any(one.shape[:1] != (rows,) for op in net.ops for one in op.outputs):
                return None
        stack.pop_all()
    return nets


def run(net: Net, batch: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
    """Run one batch of records, or a part of one, through a net; return one row of each output for each record."""
    for name, records in batch.items():
        net.write(name, records)
    net.forward()
    net.advance()
    rows = len(next(iter(batch.values())))
    return {name: net.blob(name)[:rows] for name in outputs}


def _next(parts: deque[Part]) -> Part | None:
    try:
        return parts.popleft()
    except IndexError:
        return None
