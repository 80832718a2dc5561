"""cuDNN on one device and stream: the plans that compute graphs, chosen once for each shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from nacre import Array, ConfigError

from .kept import KeptPlan
from .plans import MOST_WORKSPACE, TENSORS, NoPlanError, Plan, build, plans

TRIED = 6
"""How many plans are timed for a graph: cuDNN's rules have the best one among the first, but seldom as the first."""
LONG = 1e-3
"""Seconds of a call beside which what it takes to start one counts for nothing."""
CALLS = 20
"""How many shorter calls are timed together."""
APART = 3e-5
"""How far the results of exact plans may be from each other, as a share of their norm: sums in another order."""
SAMPLE = 1 << 16
"""How many numbers of them are compared."""


@dataclass
class Computation:
    """A graph of cuDNN with the plan that computes it, on the stream of a handle.

    `choose`, if there is one, chooses a plan when it is enqueued, the first time that its results show something: by
    what it is executed on, the arrays by their names, and memory. Until then plans may need up to `room` bytes of
    memory, and it is not captured, but at most `left` times.
    """

    graph: Any
    plan: Plan
    handle: Any
    choose: Callable[[Computation, dict[int, int], Mapping[str | int, Array], Array], None] | None = None
    room: int = 0
    left: int = 8

    @property
    def workspace(self) -> int:
        """The bytes of memory that it needs besides the arrays."""
        return self.plan.workspace if self.choose is None else max(self.plan.workspace, self.room)

    def enqueue(
        self,
        arrays: Mapping[str | int, Array],
        workspace: Array,
        numbers: Mapping[str | int, np.ndarray] | None = None,
    ) -> None:
        """Enqueue it on arrays by their tensors' numbers, or names of `TENSORS`, which stand for these.

        `workspace` has as many bytes as that property says. `numbers` are those that the graph takes from the host,
        each an array of one; they are read at once.
        """
        given = [(name, array.data.ptr) for name, array in arrays.items()]
        given += [(name, number.ctypes.data) for name, number in (numbers or {}).items()]
        places = {TENSORS[name] if isinstance(name, str) else name: address for name, address in given}
        if self.choose is not None:
            self.choose(self, places, arrays, workspace)
        self.graph.execute(places, workspace.data.ptr, handle=self.handle)


class Dnn:
    """cuDNN, by its frontend (the module `cudnn`), for a backend's device and stream.

    A plan may need 1 GiB of memory besides the arrays, or an eighth of what the device has if that is less. `where`
    says which device and driver it is: plans are kept for the next start with the same.
    """

    def __init__(self, cudnn: Any, stream: Any, total: int, where: Sequence[Any]) -> None:
        self.module, self._stream, self._where = cudnn, stream, (*where,)
        self._most = min(MOST_WORKSPACE, total // 8)
        self._handle: Any = None
        self.put_off = 0
        """How many times a computation has chosen no plan, and will the next time."""
        self._made: dict[tuple[Any, ...], Computation | None] = {}

    @property
    def version(self) -> str:
        return self.module.backend_version_string()

    def computation(
        self,
        graph_of: Callable[..., Any],
        one: Any,
        way: str,
        dtype: str,
        *,
        deterministic: bool,
        room: int = 0,
        result: str | int = "",
        **behind: bool,
    ) -> Computation | None:
        """Return what computes `graph_of(cudnn, one, way, dtype, **behind)`, or None if cuDNN cannot.

        `graph_of` is that of convolutions.py or of normalisations.py, or anybody's: a function at the top of a module,
        whose graph has a number for each tensor that is not virtual (`set_uid`). `one` has the sizes; it is hashable.

        With `room`, bytes of memory, it is first computed several times, by several plans that need no more, so it may
        not read what it writes. Of those that write the same into the array `result`, up to roundings, if exact float32
        is asked for, the fastest one is taken; if it is to be deterministic, nothing is timed, for another start might
        find another one the fastest.
        """
        chooses = room and (not deterministic or dtype == "float32")
        room = min(room, self._most) if chooses else 0
        key = graph_of, one, way, dtype, deterministic, room, *sorted(behind.items())
        if key not in self._made:
            made = partial(graph_of, **behind)
            try:
                self._made[key] = self._chosen(one, way, dtype, deterministic, room, result, made)
            except NoPlanError:
                self._made[key] = None
        return self._made[key]

    def _chosen(
        self,
        one: Any,
        way: str,
        dtype: str,
        deterministic: bool,
        room: int,
        result: str | int,
        graph_of: Callable[..., Any],
    ) -> Computation:
        """Return what computes a graph, by the plan that was chosen at an earlier start if there was one.

        Raises:
            NoPlanError: cuDNN cannot compute it.
        """
        cudnn, handle = self.module, self.opened()
        limits = {"deterministic": deterministic, "tensor_cores": dtype != "float32", "most_workspace": self._most}
        draft, graph = (graph_of(cudnn, one, way, dtype, handle=handle) for _ in range(2))
        try:
            draft.validate()
        except cudnn.cudnnGraphNotSupportedError as error:
            raise NoPlanError(str(error)) from error
        kept = KeptPlan(self.version, cudnn.__version__, self._where, draft.key(), one, way, dtype, limits, room)
        if (found := kept.read(cudnn, handle)) is not None:
            return Computation(*found, handle)
        plan = build(cudnn, graph, **limits)
        if not room:
            kept.write(cudnn, graph, plan)
            return Computation(graph, plan, handle)
        again = partial(graph_of, cudnn, one, way, dtype, handle=handle)
        return Computation(graph, plan, handle, partial(self._choose, again, limits, kept, result), room)

    def _choose(
        self,
        graph_of: Callable[[], Any],
        limits: Mapping[str, Any],
        kept: KeptPlan,
        result: str | int,
        computation: Computation,
        places: dict[int, int],
        arrays: Mapping[str | int, Array],
        workspace: Array,
    ) -> None:
        """Give a computation one of a graph's first plans, by what they do on these arrays."""
        if self._stream.is_capturing():
            return
        timed, exact = not limits["deterministic"], not limits["tensor_cores"]
        if exact and result not in arrays:
            names = ", ".join(map(str, arrays))
            raise ConfigError(
                f"cuDNN: result={result!r} of a computation in float32 is none of its arrays {names}",
                "give the array that it writes: dnn.computation(..., room=..., result='y')",
            )
        computation.left -= 1
        graph, found, seconds, samples = graph_of(), list[Plan](), list[float](), list[np.ndarray]()
        limits = {**limits, "most_workspace": min(computation.workspace, workspace.nbytes)}
        for plan in islice(plans(self.module, graph, **limits), TRIED):
            run = partial(graph.execute, places, workspace.data.ptr, handle=computation.handle)
            found.append(plan)
            if not timed:
                run()
            seconds.append(self._seconds(run) if timed else 0.0)
            samples.append(arrays[result].ravel()[:SAMPLE].get().astype(np.float64) if exact else np.ones(1))
        if not any(one.any() and np.isfinite(one).all() for one in samples):  # they show nothing
            self.put_off += computation.left > 0
            return
        best = min(alike(samples), key=lambda number: seconds[number])
        graph.build_plan_at_index(found[best].index)
        kept.write(self.module, graph, found[best])
        computation.graph, computation.plan, computation.choose = graph, found[best], None

    def _seconds(self, run: Callable[[], None]) -> float:
        """Return the seconds of a call on the stream: the mean of some that follow each other, once it has run."""
        stream = self._stream
        run()
        stream.synchronize()
        begin = time.perf_counter()
        run()
        stream.synchronize()
        if (once := time.perf_counter() - begin) > LONG:
            return once
        stream.begin_capture()  # what it takes to start one counts for nothing in a captured iteration
        for _ in range(CALLS):
            run()
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
        begin = time.perf_counter()
        graph.launch(stream)
        stream.synchronize()
        return (time.perf_counter() - begin) / CALLS

    def opened(self) -> Any:
        """Return cuDNN's handle, on the backend's stream."""
        if self._handle is None:
            self._handle = self.module.create_handle()
            self.module.set_stream(self._handle, self._stream.ptr)
        return self._handle


def alike(samples: Sequence[np.ndarray]) -> list[int]:
    """Return the numbers of those samples that most others are near to; of two that are not near, both.

    cuDNN notes most of what makes results inexact, but not all: of the plans for the gradient of filters of 5 x 5 that
    were seen on an H200, one was off by 4e-4, and the others by 1e-6 at most.
    """
    with np.errstate(all="ignore"):
        near = [[np.linalg.norm(one - other) <= APART * np.linalg.norm(other) for other in samples] for one in samples]
    counts = [sum(row) for row in near]
    return [number for number, count in enumerate(counts) if count == max(counts)]
