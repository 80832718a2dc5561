"""Functions: NumPy's functions for CuPy's arrays."""

from __future__ import annotations

from typing import Any

from nacre import Array

from .products import Products


class Functions:
    """CuPy's functions, and those arguments of NumPy's that CuPy's do not take; products can be captured."""

    def __init__(self, cupy: Any, products: Products) -> None:
        self._cupy = cupy
        self.matmul, self.dot = products.matmul, products.dot

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._cupy, name)
        setattr(self, name, value)  # so that it is found at once the next time
        return value

    def take(self, a: Array, indices: Array, axis: int | None = None, out: Array = None, mode: str = "raise") -> Array:
        """Take elements; an index out of range is counted round, or clipped: a GPU raises nothing."""
        if mode == "clip":
            length = a.size if axis is None else a.shape[axis]
            indices = self._cupy.clip(indices, 0, length - 1)
        return self._cupy.take(a, indices, axis=axis, out=out)
