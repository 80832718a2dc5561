"""OnednnBackend: plain arrays are NumPy's; own blobs lie as oneDNN's primitives like them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nacre import Array, HostMemory, NacreError, Own, open_backend
from nacre.schedule import Step
from nacre.threads import number_of_threads

from .kernel import OnednnKernel, stays_plain
from .layouts import decide
from .library import ADVICE, find, library
from .primitives import PLAIN, Call, describe, plain, reorder
from .record import Record, Scratch


class OnednnBackend(HostMemory):
    """oneDNN on the processor. Own blobs are images in channels-last or blocked layout; all others are plain.

    A run of its steps is recorded when it is first called, and replayed afterwards.
    """

    name = "onednn"
    lineage = ("onednn", "numpy")
    elementwise = True

    @classmethod
    def unusable(cls) -> str | None:
        found, reason = find()
        return None if found is not None else f"{reason}: {ADVICE}"

    def __init__(self) -> None:
        super().__init__()
        self.library = library()
        self.threads = number_of_threads()
        self.scratch = Scratch()
        self.recording: Record | None = None
        self._process = os.getpid()

    # Memory

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return dtype != "float32" or stays_plain(shape)

    def elements(self, blob: Own) -> Array | None:
        return blob.memory

    def pack(self, array: Array, blob: Own) -> None:
        plain_desc, desc = plain(*blob.shape), describe(blob.shape, blob.layout or PLAIN)
        self.enqueue(reorder("array", plain_desc, "blob", desc), {"array": array, "blob": blob.memory})

    def unpack(self, blob: Own, array: Array) -> None:
        plain_desc, desc = plain(*blob.shape), describe(blob.shape, blob.layout or PLAIN)
        self.enqueue(reorder("blob", desc, "array", plain_desc), {"array": array, "blob": blob.memory})

    # Runs

    @property
    def record(self) -> Record:
        """What the kernels of a run are recorded in."""
        assert self.recording is not None, "a kernel of onednn ran outside a run"
        return self.recording

    def enqueue(self, calls: Sequence[Call], buffers: Mapping[str, Array]) -> None:
        """Add calls to the run that is being recorded; buffers that are not given are shared scratch memory.

        Outside a run, where somebody only looks into a blob, they are run at once.
        """
        record = self.recording or Record()
        for call in calls:
            self.scratch.reserve({name: size for name, size in call.sizes().items() if name not in buffers})
            arrays = {name: buffers.get(name) for name, _ in call.buffers.values()}
            arrays = {name: self.scratch.array(name) if one is None else one for name, one in arrays.items()}
            record.add_call(call, {name: one.ctypes.data for name, one in arrays.items()}, list(arrays.values()))
        if self.recording is None:
            record.replay(self.threads)()

    def compile(self, steps: Sequence[Step], blobs: Iterable[Own], plan: dict[str, Any]) -> Callable[[], None]:
        self.library.set_threads(self.threads)
        kernels = list({id(step.state): step.state for step in steps if isinstance(step.state, OnednnKernel)}.values())
        own = {id(blob): blob for blob in blobs}
        for kernel in kernels:  # gradients get their layouts with the values, though they are in a later run
            for blob in (*kernel.inputs, *kernel.diffs, *kernel.blobs, *kernel.blobs_diff):
                if isinstance(blob, Own):
                    own[id(blob)] = blob
        decide(kernels, list(own.values()), plan)
        for blob in own.values():
            if blob.memory is None:
                blob.memory = self.empty((blob.size,), blob.dtype)
        return self._recorded(steps)

    def _recorded(self, steps: Sequence[Step]) -> Callable[[], None]:
        replay: Callable[[], None] | None = None
        record = Record()

        def run() -> None:
            nonlocal replay
            if replay is None:
                self.recording = record
                try:
                    for step in steps:
                        step.call()
                finally:
                    self.recording = None
                replay = record.replay(self.threads)
            record.renew()
            replay()

        return run

    def wrap(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run a pass alone, on the threads of OpenMP, with NumPy's BLAS kept to one and its iterators to small buffers.

        Threads of BLAS that wait beside those of OpenMP double the time of a step.
        """
        alone = open_backend("numpy").wrap(run)

        def here() -> None:
            if os.getpid() != self._process:
                raise NacreError(
                    "backend 'onednn' was opened before this process was forked, and OpenMP does not survive that",
                    "start processes with 'spawn' or 'forkserver', or open the backend in the child only",
                )
            self.library.set_threads(self.threads)
            alone()

        return here
