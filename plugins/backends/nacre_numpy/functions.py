"""NumPy's functions, of which large calls are shared out over threads: what the own code of layers computes with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nacre import FloatingFunction, HostFunctions

from .threads import Pool, small_buffers

LARGE = 1 << 16
"""Numbers of a result from which on it is worth waking threads."""
LARGE_SUM = 1 << 18
"""Numbers that a sum reads, or that are taken, from which on it is."""
LARGE_PRODUCT = 1 << 20
"""Multiplications of one product of two matrices from which on it is."""


class Functions(HostFunctions):
    """NumPy's namespace, with element-wise functions, copies, sums and products of matrices on a pool's threads.

    A call is shared out if it has no options but `out` and axes, and its arrays are large. The numbers are NumPy's own
    for every number of threads, because none depends on those beside it; the last digits of one large product may
    differ, as BLAS multiplies the rows or the columns of each thread by themselves.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        for name, function in vars(np).items():
            if isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None:
                setattr(self, name, ElementWise(function, pool))
        self.matmul = MatMul(np.matmul, pool)
        self.sum, self.max, self.min = (Reduction(one, pool) for one in (np.sum, np.max, np.min))
        self.argmax = Reduction(np.argmax, pool)
        self.pool = pool

    def copyto(self, target: Any, source: Any, **options: Any) -> None:
        """Copy an array into another, as `numpy.copyto`."""
        axis = None if options else shared_axis(target, (source,), self.pool.count)
        if axis is None:
            np.copyto(target, source, **options)
        else:
            share(self.pool, lambda one, *, out: np.copyto(out, one), (source,), target, axis)

    def take(self, a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: Any = "raise") -> Any:
        if not self._shares_taking(a, indices, axis, out):
            return super().take(a, indices, axis, out, mode)

        def work(start: int, stop: int, _: int) -> None:
            piece = slice(start, stop)
            ends = (a[piece], indices) if axis else (a, indices[piece])
            np.take(*ends, axis, out[piece], mode)

        self.pool.parallel(work, len(out))
        return out

    def _shares_taking(self, a: Any, indices: Any, axis: int | None, out: Any) -> bool:
        """Return whether threads share out the first axis of a result; NumPy would copy what is not contiguous."""
        if self.pool.count == 1 or any(type(one) is not np.ndarray for one in (a, indices, out)):
            return False
        if axis is None:
            shape = indices.shape
        else:
            shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :]) if 0 <= axis < a.ndim else None
        fits = shape == out.shape and out.dtype == a.dtype and out.size >= LARGE_SUM and len(out) >= self.pool.count
        apart = not any(np.may_share_memory(one, out) for one in (a, indices))
        return fits and apart and a.flags.c_contiguous and out.flags.c_contiguous


class ElementWise(FloatingFunction):
    """An element-wise function of NumPy."""

    def __init__(self, function: Any, pool: Pool) -> None:
        super().__init__(function)
        self.pool = pool

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        out = options.get("out")
        if out is None:
            return self.function(*inputs, **options)
        kind = self.type_for(inputs, options)
        axis = None
        if len(options) == 1 and len(inputs) == self.function.nin:
            axis = self._axis(out, inputs)
        function = self.function if kind is None else partial(self.function, dtype=kind)
        if axis is None:
            return function(*inputs, **options)
        self._share(function, inputs, out, axis)
        return out

    def _axis(self, out: Any, inputs: Sequence[Any]) -> int | None:
        return shared_axis(out, inputs, self.pool.count)

    def _share(self, function: Callable[..., Any], inputs: Sequence[Any], out: Any, axis: int) -> None:
        share(self.pool, function, inputs, out, axis)


class MatMul(ElementWise):
    """Products of matrices: those of several are shared out, each as a whole, and one large one by rows or columns."""

    def _axis(self, out: Any, inputs: Sequence[Any]) -> int | None:
        if self.pool.count == 1 or any(type(one) is not np.ndarray or one.ndim < 2 for one in (out, *inputs)):
            return None
        axis = self._axis_of_one(out, inputs) if out.ndim == 2 else self._axis_of_several(out, inputs)
        return None if axis is None or any(np.may_share_memory(one, out) for one in inputs) else axis

    def _axis_of_one(self, out: Any, inputs: Sequence[Any]) -> int | None:
        one, other = inputs
        if one.ndim != 2 or other.ndim != 2 or one.shape[1] != len(other) or out.shape != (len(one), other.shape[1]):
            return None  # NumPy says what is wrong
        large = out.size * len(other) >= LARGE_PRODUCT and max(out.shape) >= self.pool.count
        return int(len(out) < out.shape[1]) if large else None

    def _axis_of_several(self, out: Any, inputs: Sequence[Any]) -> int | None:
        whole = [one for one in inputs if one.ndim == out.ndim]  # others are the same for each of them
        if len(out) < 2 or not whole or any(len(one) != len(out) for one in whole):
            return None
        return 0 if out.size * inputs[0].shape[-1] >= LARGE else None

    def _share(self, function: Callable[..., Any], inputs: Sequence[Any], out: Any, axis: int) -> None:
        if out.ndim > 2:
            super()._share(function, inputs, out, axis)
            return
        one, other = inputs  # rows of the first, or columns of the second, with the whole of the other
        if axis == 0:
            share(self.pool, lambda rows, *, out: function(rows, other, out=out), (one,), out, axis)
        else:
            share(self.pool, lambda columns, *, out: function(one, columns, out=out), (other,), out, axis)


class Reduction:
    """A function of NumPy that reduces axes: `sum`, `max`, `min` or `argmax`.

    Threads share out an axis that stays, in pieces of two or more: NumPy adds up along the other axes in an order
    that does not depend on the length of this one, unless it is 1.
    """

    def __init__(self, function: Callable[..., Any], pool: Pool) -> None:
        self.function, self.pool = function, pool

    def __call__(self, x: Any, axis: Any = None, out: Any = None, keepdims: bool = False, **options: Any) -> Any:
        kept = None if options else self._kept(x, axis, out, keepdims)
        if kept is None:
            told = {"axis": axis, "out": out, **({"keepdims": True} if keepdims else {}), **options}
            return self.function(x, **told)

        size = np.getbufsize()

        def work(start: int, stop: int, _: int) -> None:
            from_x, to_out = ((slice(None),) * before + (slice(start, stop),) for before in kept)
            with small_buffers(size):
                self.function(x[from_x], axis=axis, out=out[to_out], keepdims=keepdims)

        self.pool.parallel(work, x.shape[kept[0]])
        return out

    def _kept(self, x: Any, axis: Any, out: Any, keepdims: bool) -> tuple[int, int] | None:
        """Return the axes of `x` and of `out` along which threads share out a call; None if one thread does it."""
        if self.pool.count == 1 or axis is None or any(type(one) is not np.ndarray for one in (x, out)):
            return None
        kind = np.dtype(np.intp) if self.function is np.argmax else x.dtype
        if x.size < LARGE_SUM or x.dtype.kind != "f" or out.dtype != kind:
            return None  # in another type NumPy adds up what its buffers hold
        reduced = {one % x.ndim for one in (axis if isinstance(axis, tuple) else (axis,))}
        axes = [one for one in range(x.ndim) if keepdims or one not in reduced]
        if out.shape != tuple(1 if one in reduced else x.shape[one] for one in axes) or np.may_share_memory(x, out):
            return None  # NumPy says what is wrong
        long = ((one, at) for at, one in enumerate(axes) if one not in reduced and x.shape[one] >= 2 * self.pool.count)
        return next(long, None)


def shared_axis(out: Any, inputs: Sequence[Any], threads: int) -> int | None:
    """Return the axis along which threads share out a call; None if one thread does it."""
    if threads == 1 or type(out) is not np.ndarray or out.size < LARGE:
        return None
    for one in inputs:
        if type(one) is np.ndarray:
            behind = out.shape[out.ndim - one.ndim :]
            fits = one.ndim <= out.ndim and all(
                length in (1, whole) for length, whole in zip(one.shape, behind, strict=True)
            )
            if not fits or (np.may_share_memory(one, out) and not _is_same(one, out)):
                return None  # NumPy says what is wrong, and copies what it would overwrite
        elif not isinstance(one, int | float | np.generic):
            return None
    return next((axis for axis, length in enumerate(out.shape) if length >= threads), None)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two arrays are the same numbers in the same order."""
    return (one.ctypes.data, one.shape, one.strides) == (other.ctypes.data, other.shape, other.strides)


def share(pool: Pool, function: Callable[..., Any], inputs: Sequence[Any], out: Any, axis: int) -> None:
    """Call a function on pieces of arrays along an axis of `out`, each on its own thread."""

    def part(one: Any, piece: slice) -> Any:
        if type(one) is not np.ndarray:
            return one
        own = axis - out.ndim + one.ndim
        return one[(slice(None),) * own + (piece,)] if own >= 0 and one.shape[own] > 1 else one

    def work(start: int, stop: int, worker: int) -> None:
        piece = slice(start, stop)
        function(*[part(one, piece) for one in inputs], out=part(out, piece))

    pool.parallel(work, out.shape[axis])
