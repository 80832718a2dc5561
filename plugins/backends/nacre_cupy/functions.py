"""Functions: NumPy's functions for CuPy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre import Array, FloatingFunction

from .kernels.dot import can_dot
from .products import Products


class Functions:
    """CuPy's functions, and those arguments of NumPy's that CuPy's do not take; products can be captured.

    Whole numbers are computed in the type of a floating `out`.

    `dot_of_vectors` computes what `can_dot` says.
    """

    def __init__(self, cupy: Any, products: Products, dot_of_vectors: Callable[..., Array]) -> None:
        self._cupy, self._products, self._dot_of_vectors = cupy, products, dot_of_vectors
        self.matmul = products.matmul

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._cupy, name)
        if isinstance(value, self._cupy.ufunc) and value.nout == 1:
            value = FloatingFunction(value)
        setattr(self, name, value)  # so that it is found at once the next time
        return value

    def dot(self, a: Array, b: Array, out: Array = None) -> Array:
        """Return the product of two arrays, as NumPy's `dot`; that of vectors is added up in float64."""
        return self._dot_of_vectors(a, b, out) if can_dot(a, b, out) else self._products.dot(a, b, out)

    def max(self, a: Array, axis: Any = None, out: Array = None, keepdims: bool = False) -> Array:
        """Return the largest numbers, as NumPy's `max`."""
        return self._given(self._cupy.max(a, axis, keepdims=keepdims), out)

    def min(self, a: Array, axis: Any = None, out: Array = None, keepdims: bool = False) -> Array:
        """Return the smallest numbers, as NumPy's `min`."""
        return self._given(self._cupy.min(a, axis, keepdims=keepdims), out)

    amax, amin = max, min

    def _given(self, found: Array, out: Array | None) -> Array:
        """Return a result, in `out` if there is one: CuPy 14.2 takes an `out` of max and min for their dtype.

        That of `take` has to have the type of what is taken.
        """
        if out is None:
            return found
        self._cupy.copyto(out, found)
        return out

    def take(self, a: Array, indices: Array, axis: int | None = None, out: Array = None, mode: str = "raise") -> Array:
        """Take elements; an index out of range is counted round, or clipped: a GPU raises nothing.

        `out` may be of a wider type than `a`.
        """
        if mode == "clip":
            length = a.size if axis is None else a.shape[axis]
            indices = self._cupy.clip(indices, 0, length - 1)
        if out is not None and out.dtype != a.dtype:
            return self._given(self._cupy.take(a, indices, axis=axis), out)
        return self._cupy.take(a, indices, axis=axis, out=out)
