"""OnednnBackend: plain arrays are NumPy's; own blobs have the layouts that are fastest for oneDNN."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakValueDictionary

from nacre import (
    Array,
    HostMemory,
    LayerState,
    NacreError,
    Own,
    Step,
    Storage,
    after_fork,
    number_of_threads,
    open_backend,
)

from .dnnl.library import RUNTIMES, advice, find, library
from .dnnl.primitives import PLAIN, TYPES, Call, describe, into, plain, reorder
from .helper.native import VERSION, helper
from .kernels.base import OnednnKernel, stays_plain
from .kernels.element_wise import add_up
from .record import Copies, Narrow, Packing, Record, Scratch, sizes_of
from .rewrite import batch_norm_behind_filters, relu_behind_max_pooling, sums_behind_batch_norm
from .tuning.search import decide


class _Here(threading.local):
    """The record of the run that a thread is recording, or None."""

    recording: Record | None = None


class _Forks:
    """How many forks lie between the process that has imported this and this one.

    To ask the system for this one's number in every pass takes longer.
    """

    count = 0

    @classmethod
    def note(cls) -> None:
        cls.count += 1


after_fork(_Forks.note)


def _is_captured(step: Step) -> bool:
    """Return whether a step only adds to the record: those of this package, and of kernels that say so.

    What a kernel has of a layer's own state, which works on arrays, does not count.
    """
    worker = step.worker
    if worker is None or type(worker).__module__.partition(".")[0] == __package__:
        return True
    kinds = (one for one in type(worker).__mro__ if not one.__module__.startswith("nacre_layers."))
    return bool(vars(worker).get("capturable") or any(vars(one).get("capturable") is True for one in kinds))


class OnednnBackend(HostMemory):
    """oneDNN on the processor. Own blobs are images in channels-last or blocked layout; all others are plain.

    Blobs of four axes are images for every kernel, those of three or five for kernels that read them by their channels,
    and for those behind. In a net that computes in bf16, nearly all blobs of its kernels are own ones.

    A run of its steps is recorded when it is first called, and replayed afterwards.
    """

    name = "onednn"
    lineage = ("onednn", "numpy")
    auto = 2
    elementwise = True

    @classmethod
    def unusable(cls) -> str | None:
        found, reason = find()
        return None if found is not None else f"{reason}: {advice()}"

    def __init__(self) -> None:
        super().__init__()
        self.numpy: Any = open_backend("numpy")
        self.turn = self.numpy.turn
        self.xp = self.numpy.xp  # the own code of layers uses all threads too
        self.library = library()
        self.computes = ("bf16",) if self.library.narrow else ()
        self.lacks = {} if self.library.narrow else {"bf16": "bf16 needs a processor with avx512_bf16 or AMX"}
        self.threads = number_of_threads()
        self.scratch = Scratch()
        self._here = _Here()
        self._narrow: WeakValueDictionary[int, Narrow] = WeakValueDictionary()  # each keeps its storage
        self._forks = _Forks.count

    def beside(self) -> Sequence[OnednnBackend]:
        if self.threads == 1 or helper() is None:
            return ()
        return [OneThread(self) for _ in range(self.threads)]

    def may_run_beside(self, step: Step) -> bool:
        """Return whether a step is recorded: any other code has the turn of the process."""
        return _is_captured(step)

    def environment(self) -> dict[str, Any]:
        return {
            "threads": self.threads,
            "library": f"oneDNN {self.library.version}",
            "runtime": RUNTIMES[self.library.runtime],
            "instructions": self.library.instructions,
            "helper": f"version {VERSION}" if helper() is not None else "none",
        }

    # Memory

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return dtype not in TYPES or stays_plain(shape, dtype) or (dtype == "float32" and len(shape) != 4)

    def gives_own(self, kernel: LayerState, shape: tuple[int, ...], dtype: str, *, below: bool) -> bool:
        if dtype == "bf16" and not isinstance(kernel, OnednnKernel):
            return "bf16" in kernel.dtypes
        if not self.layout_is_plain(shape, dtype):
            return True
        lies = kernel.LIES if isinstance(kernel, OnednnKernel) else "in order"
        wanted = lies == "by channels" or (below and lies == "as below")
        return wanted and dtype in TYPES and not stays_plain(shape, dtype)

    def elements(self, blob: Own) -> Array | None:
        return blob.memory if blob.dtype == "float32" else None

    def arrange(self, kernels: Sequence[LayerState], blobs: Sequence[Own], plan: dict[str, Any]) -> None:
        ours = [kernel for kernel in kernels if isinstance(kernel, OnednnKernel)]

        def decided() -> None:
            with self.on_threads():
                decide(ours, blobs, plan, self.environment())

        self.wrap(decided)()

    def storage(self, blob: Own) -> tuple[int, str]:
        return blob.size, "uint16" if blob.dtype == "bf16" else blob.dtype

    def place(self, blob: Own, array: Array) -> None:
        blob.memory = array[: blob.size]

    def pack(self, array: Array, blob: Own) -> None:
        plain_desc, desc = plain(*blob.shape), describe(blob.shape, blob.layout or PLAIN, blob.dtype)
        self.enqueue(reorder("array", plain_desc, "blob", desc), {"array": array, "blob": blob.memory})

    def unpack(self, blob: Own, array: Array) -> None:
        plain_desc, desc = plain(*blob.shape), describe(blob.shape, blob.layout or PLAIN, blob.dtype)
        self.enqueue(reorder("blob", desc, "array", plain_desc), {"array": array, "blob": blob.memory})

    def add(self, part: Own, total: Own, *, first: bool) -> None:
        given, desc = (describe(one.shape, one.layout or PLAIN, one.dtype) for one in (part, total))
        if first:
            calls = reorder("part", given, "total", desc)
        else:
            before, (read, _) = into("part", given, desc)
            calls = [*before, *add_up(["total", read], "total", desc)]
        self.enqueue(calls, {"part": part.memory, "total": total.memory})

    # Nets

    def rewrite(self, graph: Any) -> Any:
        return batch_norm_behind_filters(sums_behind_batch_norm(relu_behind_max_pooling(graph)))

    # Runs

    @property
    def record(self) -> Record:
        """The record of the run that is being recorded."""
        assert self._here.recording is not None, "a kernel of onednn ran outside a run"
        return self._here.recording

    def narrow(self, storage: Storage) -> Narrow:
        """Return the copy in bf16 of a parameter: one that all kernels share."""
        found = self.narrow_of(storage) or Narrow(storage)
        self._narrow[id(storage)] = found
        return found

    def narrow_of(self, storage: Storage) -> Narrow | None:
        """Return the copy in bf16 of a parameter, or None if no kernel reads one."""
        return self._narrow.get(id(storage))

    def enqueue(self, calls: Sequence[Call], buffers: Mapping[str, Array], copies: Copies | None = None) -> None:
        """Add calls to the run that is being recorded; buffers that are not given are shared scratch memory.

        Calls with `once` make `copies`.

        Outside a run, for example when a blob is read, calls run at once.
        """
        record = self._here.recording or Record()
        arrays = {**self.scratch.arrays(sizes_of(calls, buffers)), **buffers}
        addresses = {name: array.ctypes.data for name, array in arrays.items()}
        packing = Packing(copies or Copies([]))
        for call in calls:
            into = packing.record if call.once else record
            into.add_call(call, addresses, [arrays[name] for name in call.sizes()])
        if packing.record.operations:
            record.packings.append(packing)
        if self._here.recording is None:
            self.wrap(record.replay(self.threads))()

    def share(self, function: Any, arguments: ctypes.Structure, size: int, *, unit: int = 1, keep: Any = None) -> None:
        """Add a function in C to the run that is being recorded; its work is shared out over the backend's threads.

        A thread calls `void function(const void *arguments, int64_t start, int64_t stop, int64_t worker)` for the
        pieces from `start` to `stop` of `size`; a share begins at a multiple of `unit`, and `worker` counts the threads
        from 0 to `threads` - 1. Every replay reads `arguments` again. They and what is in `keep` live as long as the
        run. For the kernels of other packages, which must say `capturable=True`.
        """
        self.record.add_shared(function, arguments, size, unit, keep)

    def compile(self, steps: Sequence[Step]) -> Callable[[], None]:
        calls: list[Callable[[], None]] = []
        for captured, run_of_steps in itertools.groupby(steps, key=_is_captured):
            some = list(run_of_steps)
            calls += [self._recorded(some)] if captured else [self.numpy.wrap(step.call) for step in some]

        def run() -> None:
            for call in calls:
                call()

        return calls[0] if len(calls) == 1 else run

    def _recorded(self, steps: Sequence[Step]) -> Callable[[], None]:
        """Return a function that records steps when it is first called, and replays them from then on."""
        replay: Callable[[], None] | None = None

        def run() -> None:
            nonlocal replay
            if replay is None:
                self._here.recording = Record()
                try:
                    with self.on_threads():
                        for step in steps:
                            step.call()
                    replay = self._here.recording.replay(self.threads)
                finally:
                    self._here.recording = None
            replay()

        return run

    def on_threads(self) -> AbstractContextManager[None]:
        """Give the calling thread's parallel regions the backend's number of threads, and restore what it was."""
        return self.library.on_threads(self.threads)

    def wrap(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run a pass alone on OpenMP's threads, with one thread for NumPy's BLAS and small buffers for its iterators.

        A step takes twice as long if threads of BLAS wait beside those of OpenMP.
        """
        return self.wrap_own(self.numpy.wrap(run))

    def wrap_own(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run a pass alone on OpenMP's threads, whose number each run of operations sets; NumPy stays as it is."""

        def here() -> None:
            if self._forks != _Forks.count:
                raise NacreError(
                    "backend 'onednn' was opened before this process was forked, and OpenMP does not work after a fork",
                    "start processes with 'spawn' or 'forkserver', or open the backend in the child process only",
                )
            with self.turn:
                run()

        return here


class OneThread(OnednnBackend):
    """One of those that compute beside each other: on one thread, and with scratch memory of its own.

    Only passes of its own steps may run so: it has none of NumPy's threads.
    """

    def __init__(self, of: OnednnBackend) -> None:
        super().__init__()
        self.parameters, self.threads, self.turn = of.parameters, 1, threading.RLock()

    def beside(self) -> Sequence[OnednnBackend]:
        return ()

    def wrap(self, run: Callable[[], None]) -> Callable[[], None]:
        return self.wrap_own(run)
