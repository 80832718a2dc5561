"""NumpyBackend: plain NumPy arrays, and images with the channels last for its own kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nacre import Array, HostMemory, Own
from nacre.backend import loop
from nacre.schedule import Step

from .threads import Blas, Pool


class NumpyBackend(HostMemory):
    """Arrays in the machine's memory. Its own blobs of four axes lie as (images, rows, columns, channels)."""

    name = "numpy"
    lineage = ("numpy",)
    elementwise = True

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool()
        self.blas = Blas()

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return len(shape) != 4 or shape[1] == 1 or shape[2:] == (1, 1)

    def elements(self, blob: Own) -> Array | None:
        return blob.memory

    def pack(self, array: Array, blob: Own) -> None:
        blob.memory[...] = array.transpose(0, 2, 3, 1)

    def unpack(self, blob: Own, array: Array) -> None:
        array[...] = blob.memory.transpose(0, 3, 1, 2)

    def compile(self, steps: Sequence[Step], blobs: Iterable[Own], plan: dict[str, Any]) -> Callable[[], None]:
        for blob in blobs:
            if blob.layout is None:
                images, channels, rows, columns = blob.shape
                blob.layout = "channels last"
                blob.memory = self.empty((images, rows, columns, channels), blob.dtype)
        run = loop(steps)

        def with_own_threads() -> None:
            before = self.blas.set_threads(1)
            try:
                run()
            finally:
                self.blas.set_threads(before)

        return with_own_threads
