"""Runs of steps as CUDA graphs, and the numbers of an iteration where such a graph can read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nacre import Array, Scalars, Step

from .memory import Uploads

if TYPE_CHECKING:
    from .backend import CupyBackend

MOST_SCALARS = 256


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


class Recording:
    """Steps that are called when they run for the first time, captured the second time, and replayed from then on.

    The first time kernels are compiled and temporary arrays are made, in a pool that lives as long as the graph:
    nothing else is ever in the memory that the graph writes to.
    """

    def __init__(self, backend: CupyBackend, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.pool = backend.cupy.cuda.MemoryPool()
        self.graph: Any = None
        self._backend = backend
        self._ran = False
        self._losses: list[tuple[Any, Any]] = []

    def __call__(self) -> None:
        if self.graph is None and not self._ran:
            self._call_steps()
            self._ran = True
            return
        if self.graph is None:
            self.graph = self._captured()
            states = [step.state for step in self.steps]
            self._losses = [(state, state.loss) for state in states if hasattr(state, "loss")]
        for state, loss in self._losses:  # another recording of these steps may have left its own
            state.loss = loss
        self.graph.launch(self._backend.stream)

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
