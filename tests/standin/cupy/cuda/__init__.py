"""`cupy.cuda`, as far as nacre uses it."""

import numpy as np

from .._interface import held
from .._machine import Event as Event
from .._machine import Graph as Graph
from .._machine import MemoryPool as MemoryPool
from .._machine import Stream as Stream
from .._machine import default_pool, machine, shared
from .._machine import using_allocator as using_allocator
from . import memory as memory
from . import runtime


@held("cuda.get_current_stream")
def get_current_stream(device_id=-1):
    """Return the stream that the thread's calls go to."""
    return machine.stream


@held("cuda.is_available")
def is_available():
    """Return whether there is a device."""
    return shared.error is None and bool(shared.devices)


@held("cuda.Device")
class Device:
    """A GPU."""

    def __init__(self, device=None):
        self.id = device or 0
        if not 0 <= self.id < len(shared.devices):
            raise runtime.CUDARuntimeError(101, "cudaErrorInvalidDevice: invalid device ordinal")

    def use(self):
        """Do nothing: the machine has one memory."""

    def synchronize(self):
        machine.stream.synchronize()

    @property
    def mem_info(self):
        return shared.total - shared.used, shared.total

    @property
    def compute_capability(self):
        return "90"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@held("cuda.alloc_pinned_memory")
def alloc_pinned_memory(size):
    """Return memory of the host from which copies do not wait, perhaps more than was asked for."""
    return np.zeros(-(-size // 512) * 512, np.uint8)


def malloc_managed(size):
    """Return memory that the host sees too: here it sees all."""
    return default_pool.malloc(size)
