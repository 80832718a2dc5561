"""`cupy.cuda.runtime`."""

import ctypes

from .._interface import held
from .._machine import CUDARuntimeError as CUDARuntimeError
from .._machine import shared, streams


@held("cuda.runtime.getDeviceCount")
def getDeviceCount():
    """Return how many GPUs there are, or raise what `shared.error` says."""
    if shared.error is not None:
        raise shared.error
    return len(shared.devices)


@held("cuda.runtime.getDeviceProperties")
def getDeviceProperties(device):
    """Return what a GPU is."""
    return {"name": shared.devices[device].encode(), "multiProcessorCount": 132, "major": 9, "minor": 0}


@held("cuda.runtime.runtimeGetVersion")
def runtimeGetVersion():
    """Return CUDA's version."""
    return 13000


@held("cuda.runtime.driverGetVersion")
def driverGetVersion():
    """Return the driver's version."""
    return 13000


@held("cuda.runtime.memcpyAsync")
def memcpyAsync(dst, src, size, kind, stream):
    """Copy between addresses, when the stream's turn comes; the kinds do not matter."""
    streams[stream].enqueue(lambda: ctypes.memmove(dst, src, size))


@held("cuda.runtime.memsetAsync")
def memsetAsync(ptr, value, size, stream):
    """Fill memory, when the stream's turn comes."""
    streams[stream].enqueue(lambda: ctypes.memset(ptr, value, size))
