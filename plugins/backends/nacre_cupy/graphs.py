"""Runs of steps as CUDA graphs, and the numbers of an iteration where such a graph can read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nacre import Array, Scalars, Step

from .memory import Uploads

if TYPE_CHECKING:
    from .backend import CupyBackend

MOST_SCALARS = 256
MOST_GRAPHS = 4
"""Graphs of the same steps for other numbers of rows: a batch, the rest at the end of an epoch, and two more."""


class DeviceScalars:
    """The numbers of a net's `Scalars` in the device's memory: `array`, float64, in the order of `values`."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self._sent: list[float] = []

    def send(self, scalars: Scalars, uploads: Uploads) -> None:
        """Copy the numbers to the device, if they have changed."""
        if scalars.values != self._sent:
            self._sent = list(scalars.values)
            host = np.zeros(self.array.shape)
            host[: len(self._sent)] = self._sent
            uploads.upload(host, self.array)


@dataclass
class Graph:
    """A captured graph, and the attributes that the states have after its steps."""

    graph: Any
    left: list[tuple[Any, dict[str, Any]]]


class Recording:
    """Steps that are called when they run for the first time, captured the second time, and replayed from then on.

    Steps that put something off to their next call (`CupyBackend.put_off`) are called once more.

    The first time kernels are compiled and temporary arrays are made, in a pool that lives as long as the graph:
    nothing else is ever in the memory that the graph writes to. If a state looks at the number of rows, each number has
    a graph of its own, of the last `MOST_GRAPHS` that were captured.
    """

    def __init__(self, backend: CupyBackend, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.pool = backend.cupy.cuda.MemoryPool()
        self._backend = backend
        self._counts = list(filter(_counts_rows, steps))
        self._scalars = scalars_of(self._counts)
        self._ran: set[tuple[float, ...]] = set()
        self._graphs: dict[tuple[float, ...], Graph] = {}

    @property
    def graph(self) -> Any:
        """The graph that was captured last, or None."""
        return next((one.graph for one in reversed(self._graphs.values())), None)

    def __call__(self) -> None:
        rows = tuple(one["rows"] for one in self._scalars)
        found = self._graphs.get(rows)
        if found is None and rows not in self._ran:
            before = self._backend.put_off
            self._call_steps()
            if self._backend.put_off == before:
                self._ran.add(rows)
            return
        if found is None:
            if len(self._graphs) == MOST_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            found = self._graphs[rows] = Graph(self._captured(), self._left())
        for state, left in found.left:  # another graph of these steps may have left its own
            vars(state).update(left)
        found.graph.launch(self._backend.stream)

    def _left(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return what the states have now and may have otherwise later: their losses, or all where rows are counted."""
        counts = [step.state for step in self._counts]
        found = [(state, dict(vars(state))) for state in counts]
        others = [step.state for step in self.steps if step.state not in counts and hasattr(step.state, "loss")]
        return found + [(state, {"loss": state.loss}) for state in others]

    def _call_steps(self) -> None:
        with self._backend.cupy.cuda.using_allocator(self.pool.malloc):
            for step in self.steps:
                step.call()

    def _captured(self) -> Any:
        """Return the graph of the steps; nothing is computed."""
        stream = self._backend.stream
        stream.begin_capture()
        try:
            self._call_steps()
        except BaseException:
            self._backend.drop_capture()
            raise
        return stream.end_capture()


def _counts_rows(step: Step) -> bool:
    return getattr(step.state, "capturable", False) == "rows"


def scalars_of(steps: Sequence[Step]) -> list[Scalars]:
    """Return the scalars of the nets that steps belong to."""
    found = (getattr(getattr(step.worker, "backend", None), "scalars", None) for step in steps)
    return list({id(one): one for one in found if isinstance(one, Scalars)}.values())


def in_order(calls: Sequence[Callable[[], None]], before: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls one after the other, each after `before`."""

    def run() -> None:
        for call in calls:
            before()
            call()

    return run
