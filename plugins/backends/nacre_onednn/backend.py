"""OnednnBackend: plain arrays are NumPy's; own blobs lie as oneDNN's primitives like them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nacre import Array, HostMemory, NacreError, Own, open_backend
from nacre.schedule import Step
from nacre.threads import number_of_threads

from .kernel import OnednnKernel, stays_plain
from .layouts import decide
from .library import advice, find, library
from .primitives import PLAIN, Call, describe, plain, reorder
from .record import Record, Scratch


class Building:
    """What a net that is being made has: kernels when it is set up, own blobs when it is allocated.

    All of it gets one layout, so that own blobs of one shape are alike throughout a net.
    """

    def __init__(self) -> None:
        self._members: list[weakref.ref[Any]] = []  # a net that cannot be made leaves nothing behind

    def add(self, member: OnednnKernel | Own) -> None:
        """Take in a kernel or a blob."""
        self._members.append(weakref.ref(member))

    def members(self, kind: type) -> list[Any]:
        """Give those that are still there, in order."""
        return [one for member in self._members if isinstance(one := member(), kind)]


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
        return None if found is not None else f"{reason}: {advice()}"

    def __init__(self) -> None:
        super().__init__()
        self.library = library()
        self.threads = number_of_threads()
        self.scratch = Scratch()
        self.recording: Record | None = None
        self._process = os.getpid()
        self._local = threading.local()

    @property
    def building(self) -> Building:
        """The net that the calling thread is making."""
        if not hasattr(self._local, "building"):
            self._local.building = Building()
        return self._local.building

    # Memory

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return dtype != "float32" or stays_plain(shape)

    def own(self, shape: tuple[int, ...], dtype: str) -> Own:
        blob = super().own(shape, dtype)
        self.building.add(blob)
        return blob

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
        """Make one call of a run; the first run of a net decides the layouts of the whole net."""
        building, self._local.building = self.building, Building()
        kernels = list(dict.fromkeys([*building.members(OnednnKernel), *(step.state for step in steps)]))
        kernels = [one for one in kernels if isinstance(one, OnednnKernel) and one.allocated]
        own = list({id(blob): blob for blob in (*blobs, *building.members(Own))}.values())
        with self._threads():
            decide(kernels, own, plan)
        for blob in own:
            if blob.memory is None:
                blob.memory = self.empty((blob.size,), blob.dtype)
        return self._recorded(steps)

    def _recorded(self, steps: Sequence[Step]) -> Callable[[], None]:
        record: Record | None = None
        replay: Callable[[], None] | None = None

        def run() -> None:
            nonlocal record, replay
            if record is None or replay is None:
                self.recording = Record()
                try:
                    for step in steps:
                        step.call()
                    record, replay = self.recording, self.recording.replay(self.threads)
                finally:
                    self.recording = None
            record.renew()
            replay()

        return run

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Let the calling thread's parallel regions have the backend's number of threads, and put back what it was.

        PyTorch, where it is in the process, has its threads from the same OpenMP.
        """
        before = self.library.set_threads(self.threads)
        try:
            yield
        finally:
            self.library.set_threads(before)

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
            with self._threads():
                alone()

        return here
