"""Random numbers that are a function of (seed, name, iteration, draw, element), and of nothing else.

The generator is Philox 4x64-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) as
NumPy's `Philox` computes it. The key is (seed, hash of the name); the counter's words are (block, draw, iteration, 0),
and NumPy raises the block before it computes, so that the first four 64-bit numbers come from block 1. A float32
uniform is `(half >> 8) * 2**-24`, where the halves of each 64-bit number are taken the lower one first; a float64
uniform is `(number >> 11) * 2**-53`. Code that computes the same bits elsewhere gets the same masks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from math import prod
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
        key = np.array([int(seed) & (2**64 - 1), name_key(name)], np.uint64)  # of a list NumPy would make floats
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

    def uniform(
        self, out: np.ndarray, draw: int = 0, *, whole: Sequence[int] | None = None, start: Sequence[int] | None = None
    ) -> None:
        """Fill a C-contiguous float32 or float64 array with uniform numbers from [0, 1).

        With `whole` and `start` it is a box of an array of the shape `whole`, whose first element is at the index
        `start`, and gets the numbers that it has there: so parts that are drawn in several places fit together.
        """
        import numpy as np

        if whole is None:
            self._fill(out, draw)
            return
        first, *others = [0] * out.ndim if start is None else start
        row = prod(whole[1:])
        if tuple(whole[1:]) == out.shape[1:]:
            self._fill(out, draw, first * row)
            return
        rows = np.empty((out.shape[0], *whole[1:]), out.dtype)
        self._fill(rows, draw, first * row)
        box = (slice(begin, begin + length) for begin, length in zip(others, out.shape[1:], strict=True))
        np.copyto(out, rows[:, *box])

    def _fill(self, out: np.ndarray, draw: int, first: int = 0) -> None:
        """Fill an array with the numbers from number `first` on."""
        block, skipped = divmod(first, 32 // out.itemsize)  # a counter gives 32 bytes
        self._counter[0] = block
        generator = self.generator(draw)
        self._counter[0] = 0
        if skipped:
            generator.random(skipped, out.dtype.type)
        generator.random(out=out, dtype=out.dtype.type)  # pyright: ignore[reportCallIssue, reportArgumentType]


class RecordRandom(Random):
    """Random numbers of what changes the records of batches; `each` are those of the records, whatever their batch."""

    def __init__(self, seed: int, name: str, iteration: Callable[[], int]) -> None:
        super().__init__(seed, name, iteration)
        self._keys = _keys(int(seed), name_key(name))
        self.at([], [])

    def at(self, records: Any, epochs: Any) -> None:
        """Go on to a batch: the numbers of its records, and the pass over the data that each belongs to."""
        import numpy as np

        self._records, self._epochs = np.asarray(records, np.uint64), np.asarray(epochs, np.uint64)

    def each(self, count: int) -> np.ndarray:
        """Return an array (records, count) of float64 uniform numbers from [0, 1).

        Those of a record are a function of (seed, name, epoch, record): `generator(record).random(count)`, if the
        record's epoch were the iteration.
        """
        import numpy as np

        records, blocks = len(self._records), -(-count // 4)
        counter = np.zeros((4, records * blocks), np.uint64)
        counter[0] = np.tile(np.arange(1, blocks + 1), records)
        counter[1], counter[2] = np.repeat(self._records, blocks), np.repeat(self._epochs, blocks)
        numbers = _philox(counter, self._keys).T.reshape(records, 4 * blocks)[:, :count]
        return (numbers >> np.uint64(11)) * 2.0**-53


MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


def _keys(*key: int) -> np.ndarray:
    """Return the two words of the key in each of Philox's ten rounds."""
    import numpy as np

    rounds = [[(word + turn * step) % 2**64 for word, step in zip(key, WEYL, strict=True)] for turn in range(10)]
    return np.array(rounds, np.uint64).reshape(10, 2, 1)


def _philox(counter: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the four words that Philox 4x64-10 makes of the four words of each counter (4, counters)."""
    import numpy as np

    half, low = np.uint64(32), np.uint64(2**32 - 1)
    factors = np.array(MULTIPLIERS, np.uint64).reshape(2, 1)
    top, bottom = factors >> half, factors & low
    words, others = counter[::2], counter[1::2]
    for key in keys:
        above, below = words >> half, words & low  # NumPy has no product of 128 bits
        across = above * bottom
        middle = (below * bottom >> half) + (across & low) + below * top
        high = above * top + (across >> half) + (middle >> half)
        words, others = high[::-1] ^ others ^ key, (words * factors)[::-1]
    return np.stack([words[0], others[0], words[1], others[1]])
