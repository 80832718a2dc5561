"""Random numbers that are a function of (seed, name, iteration, draw, element), and of nothing else.

The generator is Philox 4x64-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) as
NumPy's `Philox` computes it. The key is (seed, hash of the name); the counter's words are (block, draw, iteration, 0),
and NumPy raises the block before it computes, so that the first four 64-bit numbers come from block 1. A float32
uniform is `(half >> 8) * 2**-24`, where the halves of each 64-bit number are taken the lower one first; a float64
uniform is `(number >> 11) * 2**-53`. Code that computes the same bits elsewhere gets the same masks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def name_key(name: str) -> int:
    """Return the 64-bit word of the key that belongs to a name: the first 8 bytes of its BLAKE2b, little end first."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class Random:
    """The random numbers of one name in a net: the same at every call within an iteration, others in the next.

    `draw` distinguishes several arrays that one layer draws in one iteration.
    """

    def __init__(self, seed: int, name: str, iteration: Callable[[], int]) -> None:
        import numpy as np

        self._iteration = iteration
        key = np.array([seed & (2**64 - 1), name_key(name)], np.uint64)  # of a list NumPy would make floats
        self._bits = np.random.Philox(key=key)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._state["buffer_pos"], self._state["has_uint32"], self._state["uinteger"] = 4, 0, 0
        self._counter = np.zeros(4, np.uint64)
        self._state["state"]["counter"] = self._counter

    def generator(self, draw: int = 0) -> np.random.Generator:
        """Return NumPy's generator at the start of this iteration's numbers; for arrays that the host needs."""
        self._counter[1], self._counter[2] = draw, self._iteration()
        self._bits.state = self._state
        return self._generator

    def uniform(self, out: np.ndarray, draw: int = 0) -> None:
        """Fill a C-contiguous float32 or float64 array with uniform numbers from [0, 1)."""
        self.generator(draw).random(out=out, dtype=out.dtype.type)  # pyright: ignore[reportCallIssue, reportArgumentType]
