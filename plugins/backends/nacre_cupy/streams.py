"""Where a thread's work goes: the backend's device and stream, in order with what the thread did elsewhere."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any


class Here:
    """A context in which calls of CuPy run on one device and stream, one thread at a time.

    Work that the thread gave to its own stream before comes first, and what it gives to that afterwards waits: so the
    arrays of a backend can be used by anybody, on CuPy's default stream too.
    """

    def __init__(self, cupy: Any, device: Any, stream: Any) -> None:
        self._cupy, self._device, self.stream = cupy, device, stream
        self._lock = threading.RLock()
        self._outer: list[Any] = []  # of the thread that has the lock

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._outer.append(None if self._outer else self._begin())
        except BaseException:
            self._lock.release()
            raise

    def _begin(self) -> Any:
        """Let calls of CuPy go to the device and stream; return the stream that they went to."""
        self._device.use()  # for good: what the thread does outside of passes is for this device too
        outer = self._cupy.cuda.get_current_stream()
        self.stream.wait_event(outer.record())
        self.stream.__enter__()
        return outer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if (outer := self._outer.pop()) is not None:
                self.stream.__exit__(kind, error, trace)
                outer.wait_event(self.stream.record())
        finally:
            self._lock.release()
