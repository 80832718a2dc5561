"""cuDNN on one device and stream: the plans that compute graphs, chosen once for each shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nacre import Array

from .kept import KeptPlan
from .plans import MOST_WORKSPACE, TENSORS, Plan, build


@dataclass(frozen=True)
class Computation:
    """A graph of cuDNN with the plan that computes it, on the stream of a handle."""

    graph: Any
    plan: Plan
    handle: Any

    def enqueue(
        self,
        arrays: Mapping[str | int, Array],
        workspace: Array,
        numbers: Mapping[str | int, np.ndarray] | None = None,
    ) -> None:
        """Enqueue it on arrays by their tensors' numbers, or names of `TENSORS`, which stand for these.

        `workspace` has `plan.workspace` bytes. `numbers` are those that the graph takes from the host, each an array of
        one; they are read at once.
        """
        given = [(name, array.data.ptr) for name, array in arrays.items()]
        given += [(name, number.ctypes.data) for name, number in (numbers or {}).items()]
        places = {TENSORS[name] if isinstance(name, str) else name: address for name, address in given}
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
        self._made: dict[tuple[Any, ...], Computation | None] = {}

    @property
    def version(self) -> str:
        return self.module.backend_version_string()

    def computation(
        self, graph_of: Callable[..., Any], one: Any, way: str, dtype: str, *, deterministic: bool, **behind: bool
    ) -> Computation | None:
        """Return what computes `graph_of(cudnn, one, way, dtype, **behind)`, or None if cuDNN cannot.

        `graph_of` is that of convolutions.py or of normalisations.py, or anybody's: a function at the top of a module,
        whose graph has a number for each tensor that is not virtual (`set_uid`). `one` has the sizes; it is hashable.
        """
        key = graph_of, one, way, dtype, deterministic, *sorted(behind.items())
        if key not in self._made:
            try:
                self._made[key] = self._chosen(*key[1:4], deterministic, partial(graph_of, **behind))
            except LookupError:
                self._made[key] = None
        return self._made[key]

    def _chosen(self, one: Any, way: str, dtype: str, deterministic: bool, graph_of: Callable[..., Any]) -> Computation:
        """Return what computes a graph, by the plan that was chosen at an earlier start if there was one.

        Raises:
            LookupError: cuDNN cannot compute it.
        """
        cudnn, handle = self.module, self.opened()
        limits = {"deterministic": deterministic, "tensor_cores": dtype != "float32", "most_workspace": self._most}
        draft, graph = (graph_of(cudnn, one, way, dtype, handle=handle) for _ in range(2))
        try:
            draft.validate()
        except cudnn.cudnnGraphNotSupportedError as error:
            raise LookupError(str(error)) from error
        kept = KeptPlan(self.version, cudnn.__version__, self._where, draft.key(), one, way, dtype, limits)
        if (found := kept.read(cudnn, handle)) is not None:
            return Computation(*found, handle)
        plan = build(cudnn, graph, **limits)
        kept.write(cudnn, graph, plan)
        return Computation(graph, plan, handle)

    def opened(self) -> Any:
        """Return cuDNN's handle, on the backend's stream."""
        if self._handle is None:
            self._handle = self.module.create_handle()
            self.module.set_stream(self._handle, self._stream.ptr)
        return self._handle
