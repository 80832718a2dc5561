"""Sharing: the arrays that the ranks of a communicator share, and when their memory can be released."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from nacre import Communicator

if TYPE_CHECKING:
    import numpy as np


class SharedArrays:
    """The arrays of a communicator in memory that its ranks share, each with what releases that, by all of them."""

    def __init__(self) -> None:
        self._made: list[tuple[weakref.ref[np.ndarray], Callable[[], object]]] = []

    def add(self, array: np.ndarray, release: Callable[[], object]) -> np.ndarray:
        """Return an array, and remember how its memory is released."""
        self._made.append((weakref.ref(array), release))
        return array

    def release(self, communicator: Communicator) -> None:
        """Release the memory of those to which no rank refers any more; collective."""
        import numpy as np

        if not self._made:
            return
        unused = np.array([array() is None for array, _ in self._made])
        communicator.allreduce(unused, "min")
        for one, (_, release) in zip(unused, self._made, strict=True):
            if one:
                release()
        self._made.clear()
