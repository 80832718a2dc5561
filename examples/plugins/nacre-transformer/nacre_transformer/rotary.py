"""Rotation: turns pairs of features by angles that grow with the position."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import Array


class Rotation:
    """Turns features i and i + d/2 of position t by the angle t / 10000^(2i/d). Su et al., "RoFormer", 2021."""

    def __init__(self, backend: Any, positions: int, size: int) -> None:
        angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(size // 2) * 2 / size)
        self.backend, self.half = backend, size // 2
        self.cos, self.sin = backend.constant(np.cos(angles)), backend.constant(np.sin(angles))

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
