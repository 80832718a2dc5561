"""The memory of a GPU: copies from the host and to it that do not wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from nacre import Array

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3
"""`cudaMemcpyHostToDevice`, `cudaMemcpyDeviceToHost` and `cudaMemcpyDeviceToDevice`."""
SLOTS = 2
"""Batches on their way: one is computed with while the next one is copied."""


class TooLarge(MemoryError):
    """There is no memory for so many bytes at once (`size`)."""

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


class Slot:
    """One array on its way to the device: pinned memory on the host, and memory on the device that no pass reads."""

    def __init__(self, cupy: Any, stream: Any, size: int) -> None:
        self.host = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        self.device = cupy.empty((size,), "uint8")
        self.sent, self.taken = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        self.taken.record(stream)  # whatever used this memory before has to be done


class Uploads:
    """Copies arrays to the device on a stream of its own, while the device computes with earlier ones.

    An array goes into pinned memory, from there into a second array on the device, and on the backend's `stream`
    into its place, when what was enqueued before has read that. Arrays of one size take turns in the same `SLOTS`.
    """

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cupy, self._stream = cupy, stream
        self._copying = cupy.cuda.Stream(non_blocking=True)
        self._slots: dict[int, list[Slot]] = {}

    def upload(self, host: np.ndarray, array: Array) -> None:
        """Copy a NumPy array into one of CuPy's, contiguous, of its shape and type; it may be changed afterwards."""
        if not (size := array.nbytes):
            return
        slot, copy = self._next(size), self._cupy.cuda.runtime.memcpyAsync
        slot.sent.synchronize()  # what was here before has left the pinned memory
        np.copyto(slot.host.view(host.dtype).reshape(host.shape), host)
        self._copying.wait_event(slot.taken)
        copy(slot.device.data.ptr, slot.host.ctypes.data, size, TO_DEVICE, self._copying.ptr)
        slot.sent.record(self._copying)
        self._stream.wait_event(slot.sent)
        copy(array.data.ptr, slot.device.data.ptr, size, ON_DEVICE, self._stream.ptr)
        slot.taken.record(self._stream)

    def _next(self, size: int) -> Slot:
        """Return the slot for an array of a size that was used the longest ago."""
        slots = self._slots.setdefault(size, [])
        if len(slots) < SLOTS:
            slots.append(Slot(self._cupy, self._stream, size))
        else:
            slots.append(slots.pop(0))
        return slots[-1]


class Downloads:
    """Copies arrays to pinned memory on the host, on the backend's `stream`; each is there until it is read."""

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cupy, self._stream = cupy, stream
        self._free: dict[int, list[tuple[np.ndarray, Any]]] = {}

    def download(self, array: Array) -> Callable[[], np.ndarray]:
        """Enqueue the copy of a contiguous array; return what waits for it, and gives the numbers, once."""
        size, cuda = array.nbytes, self._cupy.cuda
        free = self._free.setdefault(size, [])
        pinned, arrived = (
            free.pop()
            if free
            else (
                np.frombuffer(cuda.alloc_pinned_memory(max(size, 1)), np.uint8, size),
                cuda.Event(disable_timing=True),
            )
        )
        cuda.runtime.memcpyAsync(pinned.ctypes.data, array.data.ptr, size, TO_HOST, self._stream.ptr)
        arrived.record(self._stream)

        def read() -> np.ndarray:
            arrived.synchronize()
            found = pinned.view(array.dtype).reshape(array.shape).copy()
            free.append((pinned, arrived))
            return found

        return read


def bytes_of(shape: Any, dtype: str) -> int:
    """Return the bytes of an array."""
    return prod(shape) * np.dtype(dtype).itemsize
