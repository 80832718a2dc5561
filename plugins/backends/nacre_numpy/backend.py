"""NumpyBackend: plain NumPy arrays, and images with the channels last for its own kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nacre import Array, HostMemory, LayerState, Own, process_lock

from .functions import Functions
from .threads import Blas, Pool, small_buffers


class NumpyBackend(HostMemory):
    """Arrays in the machine's memory. Its own blobs are images with the channels last.

    Blobs of four axes are images for every kernel, those of three for kernels that read them by their channels, and for
    those behind.
    """

    name = "numpy"
    lineage = ("numpy",)
    auto = 1
    elementwise = True

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool()
        self.blas = Blas()
        self.xp = Functions(self.pool)
        self.turn = process_lock()

    def environment(self) -> dict[str, Any]:
        return {"threads": self.pool.count, "blas": self.blas.description}

    def layout_is_plain(self, shape: tuple[int, ...], dtype: str) -> bool:
        return len(shape) != 4 or shape[1] == 1 or shape[2:] == (1, 1)

    def gives_own(self, kernel: LayerState, shape: tuple[int, ...], dtype: str, *, below: bool) -> bool:
        lies = getattr(kernel, "LIES", "in order")
        wanted = lies == "by channels" or (below and lies == "as below")
        return not self.layout_is_plain(shape, dtype) or (wanted and len(shape) == 3 and 1 not in shape[1:])

    def elements(self, blob: Own) -> Array | None:
        return blob.memory

    def pack(self, array: Array, blob: Own) -> None:
        blob.memory[...] = np.moveaxis(array, 1, -1)

    def unpack(self, blob: Own, array: Array) -> None:
        array[...] = np.moveaxis(blob.memory, -1, 1)

    def arrange(self, kernels: Sequence[LayerState], blobs: Sequence[Own], plan: dict[str, Any]) -> None:
        for blob in blobs:
            blob.layout = "channels last"

    def place(self, blob: Own, array: Array) -> None:
        images, channels, *image = blob.shape
        blob.memory = self.view(array, (images, *image, channels))

    def wrap(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run a pass alone on the pool's threads, with BLAS kept to one and NumPy's iterators to small buffers."""

        def alone() -> None:
            with self.turn, self.blas.limit(1), small_buffers():
                run()

        return alone
