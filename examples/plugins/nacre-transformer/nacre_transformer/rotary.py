"""Rotation: turns pairs of features by angles that grow with the position."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import Array


class Rotation:
    """Turns features i and i + d/2 of position t by the angle t / 10000^(2i/d). Su et al., "RoFormer", 2021."""

    def __init__(self, backend: Any, positions: int, size: int) -> None:
        self.backend, self.positions, self.half = backend, positions, size // 2
        self.cos, self.sin = (backend.empty((positions, self.half)) for _ in range(2))
        self.first = -1
        self.begin_at(0)

    def begin_at(self, first: int) -> None:
        """Count positions from a number on."""
        if first == self.first:
            return
        self.first = first
        places = np.arange(first, first + self.positions)
        angles = places[:, None] / 10000.0 ** (np.arange(self.half) / self.half)
        for function, array in ((np.cos, self.cos), (np.sin, self.sin)):
            self.backend.from_host(function(angles).astype(self.backend.dtype), array)

    def turn(self, x: Array, *, back: bool = False) -> None:
        """Turn (..., positions, features) in place, or turn it back."""
        xp, count = self.backend.xp, x.shape[-2]
        cos, sin = self.cos[:count], self.sin[:count]
        a, b = x[..., : self.half], x[..., self.half :]
        one, other = (self.backend.scratch(a.shape, slot=slot) for slot in (2, 3))
        combine, opposite = (xp.add, xp.subtract) if back else (xp.subtract, xp.add)
        xp.multiply(b, sin, out=one)
        xp.multiply(a, sin, out=other)
        xp.multiply(a, cos, out=a)
        xp.multiply(b, cos, out=b)
        combine(a, one, out=a)
        opposite(b, other, out=b)
