"""Stochastic gradient descent with momentum over flat arrays, in one pass over memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import Array

from .threads import Pool

CHUNK = 1 << 16
"""Elements worked on at a time: weights, gradient, velocity and scratch stay in the second-level cache."""

ALONE = 1 << 18
"""Up to so many elements, one thread is done before two have stopped getting in each other's way."""


class MomentumUpdate:
    """v = momentum v - rate g; w += v, over flat arrays of `size` elements.

    Every element is computed by itself, so the numbers do not depend on the number of threads.
    """

    def __init__(self, size: int, dtype: Any = np.float32, pool: Pool | None = None) -> None:
        self.size, self.dtype, self.pool = size, np.dtype(dtype), pool if pool and size > ALONE else Pool(1)
        self._scratch = [np.empty(min(CHUNK, size), self.dtype) for _ in range(self.pool.count)]
        self._arrays: tuple[Array, ...] = (None,) * 3
        self._chunks: list[list[tuple[Array, ...]]] = []
        self._rate = self._momentum = np.zeros((), self.dtype)
        self._products = [0.0] * self.pool.count

    def bind(self, weight: Array, gradient: Array, velocity: Array) -> None:
        """Fix the arrays, all of shape (size,)."""
        arrays = (weight, gradient, velocity)
        if all(new is old for new, old in zip(arrays, self._arrays, strict=True)):
            return
        self._arrays = arrays
        self._chunks = [
            [
                (
                    *(array[first : min(first + CHUNK, stop)] for array in arrays),
                    self._scratch[worker][: min(CHUNK, stop - first)],
                )
                for first in range(start, stop, CHUNK)
            ]
            for worker, (start, stop) in enumerate(self.pool.pieces(self.size))
        ]

    def update(self, weight: Array, gradient: Array, velocity: Array, rate: float, momentum: float) -> float:
        """Write the new `velocity` and `weight`, and return the product of the new weight and the gradient.

        The product is not finite if one of their numbers is not.
        """
        self.bind(weight, gradient, velocity)
        as_array = self.dtype.type
        self._rate, self._momentum = as_array(rate), as_array(momentum)
        self.pool.parallel(self.update_piece, self.size)
        return sum(self._products)

    def update_piece(self, start: int, stop: int, worker: int) -> None:
        """Update elements `start` to `stop`, the worker's piece, with the rates of the last `update`."""
        rate, momentum = self._rate, self._momentum
        product = 0.0
        for w, g, v, scratch in self._chunks[worker]:
            np.multiply(g, rate, scratch)
            np.multiply(v, momentum, v)
            np.subtract(v, scratch, v)
            np.add(w, v, w)
            product += float(np.dot(w, g))  # while they are in cache
        self._products[worker] = product
