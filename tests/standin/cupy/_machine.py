"""The device: streams, captures, what waits for what, and the memory in which arrays lie."""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict, deque
from contextlib import contextmanager

import numpy as np

from ._interface import held

ROUND = 512
"""Blocks of memory are multiples of so many bytes, as CuPy's."""
POISON = 0xFF
"""What fresh memory holds: NaN, or -1."""


class RefusedError(TypeError):
    """What code for a GPU must not do."""


class CUDARuntimeError(RuntimeError):
    """As CuPy's: `status` is CUDA's number."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class OutOfMemoryError(MemoryError):
    """As CuPy's."""

    def __init__(self, size, total, limit=0):
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes).")
        self._size, self._total, self._limit = size, total, limit


INVALIDATED = "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error during capture"
streams = weakref.WeakValueDictionary()
"""By their addresses."""


class Machine(threading.local):
    """What a thread sees of the device; what all threads share is in `shared`."""

    def __init__(self):
        self.stream = shared.null
        self.allocator = None
        self.inside = 0

    @property
    def capturing(self):
        return self.stream.is_capturing()

    @contextmanager
    def step(self):
        """Refuse to look at numbers of arrays in the block: that would be to wait for the device."""
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1


class Shared:
    """The device itself."""

    def __init__(self):
        self.lock = threading.RLock()
        self.lazy = False
        self.total = 4 << 30
        self.devices = ["Stand-in"]
        self.error = None  # what the runtime raises instead of counting devices
        self.used = 0
        self.launches = 0
        self.kernels = None  # a function (code, options) -> {name: function}, to compile CUDA C++ for the processor
        self.null = Stream(null=True)

    def settle(self):
        """Run all that waits in any stream."""
        for stream in list(streams.values()):
            stream.synchronize()


@held("cuda.Event")
class Event:
    """A point in a stream; one that was never recorded is over."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.point = Point(None)
        self.point.done = True

    def record(self, stream=None):
        stream = machine.stream if stream is None else stream
        if stream.graph is not None:
            raise RefusedError("the stand-in records no events while a stream is captured")
        self.point = Point(stream)
        stream.enqueue(self.point.reach)

    @property
    def done(self):
        return self.point.done

    def synchronize(self):
        self.point.wait()


class Point:
    """A point in a stream, which stays when its event is recorded again."""

    def __init__(self, stream):
        self.stream, self.done = stream, False

    def reach(self):
        self.done = True

    def wait(self):
        with shared.lock:
            while not self.done:
                self.stream.advance()


@held("cuda.Stream")
class Stream:
    """A queue of calls, which runs at once unless the machine is lazy; while it is captured calls go into `graph`.

    Waiting for it then spoils the capture: nothing can be enqueued any more, until the capture is ended, which fails.
    """

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.queue, self.graph, self.null, self.spoiled = deque(), None, null, False
        self.ptr = 0 if null else id(self)
        streams[self.ptr] = self
        self._outer = []

    def enqueue(self, call):
        with shared.lock:
            shared.launches += 1
            if self.spoiled:
                raise CUDARuntimeError(901, INVALIDATED)
            if self.graph is not None:
                self.graph.calls.append(call)
            elif shared.lazy:
                self.queue.append(call)
            else:
                _quietly(call)

    def advance(self):
        """Run the first call of the queue."""
        if not self.queue:
            raise RuntimeError("the stand-in waits for what was never enqueued")
        _quietly(self.queue.popleft())

    def synchronize(self):
        if self.graph is not None:
            self.spoiled = True
            raise CUDARuntimeError(
                900, "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
            )
        with shared.lock:
            while self.queue:
                self.advance()

    @property
    def done(self):
        return not self.queue

    def record(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        if event.done:
            return
        self.enqueue(event.point.wait)

    def use(self):
        machine.stream = self
        return self

    def __enter__(self):
        self._outer.append(machine.stream)
        machine.stream = self
        return self

    def __exit__(self, *_):
        machine.stream = self._outer.pop()

    def begin_capture(self, mode=None):
        if self.null or self.graph is not None:
            raise CUDARuntimeError(900, "cudaErrorStreamCaptureUnsupported: the stream cannot be captured")
        self.graph = Graph()

    def end_capture(self):
        if self.graph is None:
            raise CUDARuntimeError(401, "cudaErrorIllegalState: the stream is not capturing")
        graph, self.graph = self.graph, None
        if self.spoiled:
            self.spoiled = False
            raise CUDARuntimeError(901, INVALIDATED)
        return graph

    def is_capturing(self):
        if self.spoiled:
            raise RuntimeError("the stream was capturing, but an error has invalidated the capture sequence")
        return self.graph is not None


@held("cuda.Graph")
class Graph:
    """Recorded calls."""

    def __init__(self):
        self.calls = []

    def launch(self, stream=None):
        stream = machine.stream if stream is None else stream
        for call in self.calls:
            stream.enqueue(call)

    def upload(self, stream=None):
        """Do nothing."""


def _quietly(call):
    with np.errstate(all="ignore"):
        call()


def launch(call):
    """Enqueue a call on the thread's stream."""
    machine.stream.enqueue(call)


def transfer(way="D2H"):
    """Refuse a copy to the host, or from there ("H2D"), while a stream is captured."""
    if machine.capturing:
        raise RuntimeError(f"the current stream is capturing, so {way} transfers are disallowed")


def wait(way="D2H"):
    """Wait for the thread's stream, before memory is copied to the host or from there."""
    transfer(way)
    machine.stream.synchronize()


def implicit(what):
    """Wait for numbers that are looked at without a word; refused inside a step."""
    if machine.inside:
        raise RefusedError(f"{what} of an array inside a step waits for the device")
    wait()


def no_library(name):
    """Refuse a library whose calls CuPy does not let into a capture."""
    if machine.capturing:
        raise NotImplementedError(f"calling {name} API during stream capture is currently unsupported")


class Memory:
    """A block of memory; when nobody has it any more, its pool gets it back."""

    def __init__(self, pool, buffer, stream):
        self.pool, self.buffer, self.stream = pool, buffer, stream
        self.ptr, self.size = buffer.ctypes.data, len(buffer)

    def __del__(self):
        if self.pool is not None:
            self.pool.take_back(self)


@held("cuda.MemoryPointer")
class MemoryPointer:
    """An address in a block."""

    def __init__(self, mem, offset):
        self.mem, self.offset = mem, offset

    @property
    def ptr(self):
        return self.mem.ptr + self.offset

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.offset + offset)


@held("cuda.MemoryPool")
class MemoryPool:
    """Blocks by size and stream."""

    def __init__(self, allocator=None):
        self.free, self.total, self.limit = defaultdict(list), 0, 0

    def malloc(self, size):
        wanted = max(ROUND, -(-size // ROUND) * ROUND)
        stream = machine.stream
        with shared.lock:
            if blocks := self.free[wanted, id(stream)]:
                buffer = blocks.pop()
            else:
                if shared.used + wanted > shared.total or (self.limit and self.total + wanted > self.limit):
                    shared.used -= self._drop()
                    if shared.used + wanted > shared.total or (self.limit and self.total + wanted > self.limit):
                        raise OutOfMemoryError(size, self.total, self.limit)
                raw = np.empty(wanted + ROUND, np.uint8)
                start = -raw.ctypes.data % ROUND
                buffer = raw[start : start + wanted]
                shared.used += wanted
                self.total += wanted
            if stream.graph is None and not shared.lazy:
                buffer.fill(POISON)
            return MemoryPointer(Memory(self, buffer, stream), 0)

    def _drop(self):
        dropped = self.free_bytes()
        self.free.clear()
        self.total -= dropped
        return dropped

    def take_back(self, memory):
        with shared.lock:
            self.free[memory.size, id(memory.stream)].append(memory.buffer)

    def free_bytes(self):
        return sum(size * len(blocks) for (size, _), blocks in self.free.items())

    def total_bytes(self):
        return self.total

    def used_bytes(self):
        return self.total - self.free_bytes()

    def n_free_blocks(self):
        return sum(map(len, self.free.values()))

    def free_all_blocks(self, stream=None):
        with shared.lock:
            shared.used -= self._drop()

    def set_limit(self, size=None, fraction=None):
        self.limit = size or int((fraction or 0) * shared.total)

    def get_limit(self):
        return self.limit

    def __del__(self):
        shared.used -= self.total


shared = Shared()
machine = Machine()
default_pool = MemoryPool()


def allocate(size):
    """Allocate by the thread's allocator."""
    return (machine.allocator or default_pool.malloc)(size)


@held("cuda.using_allocator")
@contextmanager
def using_allocator(allocator=None):
    """Let the thread allocate by this function in the block."""
    before, machine.allocator = machine.allocator, allocator
    try:
        yield
    finally:
        machine.allocator = before
