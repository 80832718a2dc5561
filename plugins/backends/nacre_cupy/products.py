"""Products of matrices by cuBLASLt: CuPy's own, by cuBLAS, cannot be captured.

The constants are those of `cublasLt.h` and `library_types.h`, the same in CUDA 11 to 13. cuBLASLt reads matrices column
by column, so an array in C order is its transpose: y = a b is computed as yᵀ = bᵀ aᵀ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from nacre import Array, NacreError

HALF, SINGLE, DOUBLE, BF16 = 2, 0, 1, 14
"""`CUDA_R_16F`, `CUDA_R_32F`, `CUDA_R_64F` and `CUDA_R_16BF`."""
IN_SINGLE, IN_TF32, IN_DOUBLE = 68, 77, 70
"""`CUBLAS_COMPUTE_32F`, `CUBLAS_COMPUTE_32F_FAST_TF32` and `CUBLAS_COMPUTE_64F`."""
TYPES = {
    "float16": (HALF, IN_SINGLE, SINGLE),
    "float32": (SINGLE, IN_SINGLE, SINGLE),
    "float64": (DOUBLE, IN_DOUBLE, DOUBLE),
}
"""Of the numbers, of their sums, and of the factor before a product."""
NARROW = (BF16, IN_SINGLE, SINGLE)
"""The same of bf16, whose numbers lie in arrays of uint16: only who calls `narrow` says that they are no whole ones."""
TRANSPOSED_A, TRANSPOSED_B = 3, 4
EPILOGUE, BIAS_POINTER = 7, 8
WITH_RELU, WITH_BIAS = 2, 4
"""`CUBLASLT_EPILOGUE_RELU` and `..._BIAS`: one number is added to each row of what cuBLASLt reads, a column of ours.

The sum of the two, `..._RELU_BIAS`, is both.
"""
BATCH_COUNT, BATCH_STRIDE = 5, 6
"""Attributes: `..._DESC_TRANSA` and `..._TRANSB`; `..._LAYOUT_BATCH_COUNT` and `..._STRIDED_BATCH_OFFSET`."""
MOST_WORKSPACE, ALIGNMENTS = 1, (5, 6, 7, 8)
"""Attributes of a preference: `..._PREF_MAX_WORKSPACE_BYTES`, and `..._PREF_MIN_ALIGNMENT_A_BYTES` to `..._D_BYTES`."""
RESULT_BYTES, STATE = 96, 72
"""The size of `cublasLtMatmulHeuristicResult_t`, which begins with the algorithm, and where its status lies."""
NOT_SUPPORTED = 15
"""`CUBLAS_STATUS_NOT_SUPPORTED`: there is no algorithm."""
ALIGNED = 256
"""The largest alignment that matters."""
WORKSPACE = 32 << 20
"""Bytes that a product may use besides; what NVIDIA recommends for Hopper."""


@dataclass(frozen=True)
class Matrix:
    """A batch of matrices as they lie in memory, row by row; lengths are counted in numbers.

    `ahead` is how far it is from row to row, `step` from one matrix to the next. `flipped` is whether the memory holds
    the transposes.
    """

    address: int
    rows: int
    columns: int
    ahead: int
    flipped: bool
    count: int
    step: int

    @property
    def shape(self) -> tuple[int, ...]:
        """All but where it lies."""
        return self.rows, self.columns, self.ahead, self.flipped, self.count, self.step

    @classmethod
    def of(cls, array: Array, count: int) -> Matrix | None:
        """Return how an array (matrices, rows, columns) lies in memory, or None if no such words describe it.

        One with one matrix stands for `count` of them.
        """
        size = array.itemsize
        step, down, across = (stride // size for stride in array.strides)
        matrices, rows, columns = array.shape
        down, across = down if rows > 1 else 0, across if columns > 1 else 0
        step = step if matrices > 1 else 0
        for flipped, near, far, long, short in (
            (False, across, down, columns, rows),
            (True, down, across, rows, columns),
        ):
            if (near == 1 or long == 1) and (far >= long or short == 1) and not any(s % size for s in array.strides):
                lines, length = (columns, rows) if flipped else (rows, columns)
                return cls(array.data.ptr, lines, length, max(far, length), flipped, count, step)
        return None


class Products:
    """Products of CuPy's arrays, on the backend's stream, with a `workspace` of so many bytes as `WORKSPACE` says.

    With `tf32` the factors of a product in float32 are rounded to 11 bits, as CuPy does where CUPY_TF32 is 1.
    """

    def __init__(self, cupy: Any, library: Any, workspace: Array, *, tf32: bool = False) -> None:
        self._cupy, self._library, self._workspace, self.tf32 = cupy, library, workspace, tf32
        self._handle = ctypes.c_void_p()
        self._algorithms: dict[tuple[Any, ...], ctypes.Array[ctypes.c_char] | None] = {}

    def matmul(self, a: Array, b: Array, out: Array = None) -> Array:
        """Return the product of two arrays, as NumPy's `matmul`."""
        cupy = self._cupy
        if not (isinstance(a, cupy.ndarray) and isinstance(b, cupy.ndarray)):
            return cupy.matmul(a, b) if out is None else cupy.matmul(a, b, out=out)
        kind = np.result_type(a.dtype, b.dtype)
        if kind.kind in "biu" and out is not None and str(out.dtype) in TYPES:
            kind = out.dtype  # in a narrow type sums would be too large
        if str(kind) in TYPES:
            a, b = (one if one.dtype == kind else one.astype(kind) for one in (a, b))  # of whole numbers, or narrower
            if out is not None and out.dtype != kind:
                cupy.copyto(out, self.matmul(a, b))
                return out
        if not self._can(a, b, out):
            return cupy.matmul(a, b) if out is None else cupy.matmul(a, b, out=out)
        left = a.reshape(1, -1) if a.ndim == 1 else a
        right = b.reshape(-1, 1) if b.ndim == 1 else b
        if left.shape[-1] != right.shape[-2]:
            raise ValueError(f"matmul: a of shape {a.shape} and b of shape {b.shape} do not fit")
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*batch, *([] if a.ndim == 1 else [left.shape[-2]]), *([] if b.ndim == 1 else [right.shape[-1]]))
        if out is None:
            out = cupy.empty(shape, a.dtype)
        elif tuple(out.shape) != shape:
            raise ValueError(f"matmul: out has the shape {out.shape}, but the product has {shape}")
        if out.size and left.shape[-1]:
            self._multiply(left, right, out.reshape(*batch, left.shape[-2], right.shape[-1]), batch, out)
        else:
            out.fill(0)
        return out

    def linear(self, x: Array, weight: Array, bias: Array | None, y: Array, *, relu: bool = False) -> None:
        """Write x weightᵀ + bias into y: matrices, and a vector, if there is one, that is added as they are multiplied.

        With `relu` what is below 0 becomes 0. In types for which cuBLASLt cannot do that it is done afterwards.
        """
        factor, rows, result = (Matrix.of(one.reshape(1, *one.shape), 1) for one in (weight.T, x, y))
        known = factor is not None and rows is not None and result is not None
        if not (known and self._call(str(y.dtype), factor, rows, result, bias, relu=relu)):
            self.matmul(x, weight.T, y)
            if bias is not None:
                self._cupy.add(y, bias, out=y)
            if relu:
                self._cupy.maximum(y, 0, out=y)

    def narrow(self, a: Array, b: Array, y: Array, bias: Array = None, *, relu: bool = False) -> bool:
        """Write a b, plus a bias for each column, into y: matrices of bf16, in arrays of uint16; y may be of float32.

        The bias has the type of y. Sums are made in float32. With `relu` what is below 0 becomes 0. Return whether
        cuBLASLt can do that; else nothing is written.
        """
        first, second, result = (Matrix.of(one.reshape(1, *one.shape), 1) for one in (b, a, y))
        kind = SINGLE if str(y.dtype) == "float32" else BF16
        return self._call("bf16", first, second, result, bias, kind, relu=relu)

    def dot(self, a: Array, b: Array, out: Array = None) -> Array:
        """Return the product of two arrays, as NumPy's `dot`: of matrices by cuBLASLt, so that it can be captured."""
        if (getattr(a, "ndim", 0), getattr(b, "ndim", 0)) in ((1, 2), (2, 1), (2, 2)):
            return self.matmul(a, b, out)
        return self._cupy.dot(a, b) if out is None else self._cupy.dot(a, b, out=out)

    def _can(self, a: Array, b: Array, out: Array) -> bool:
        kinds = {str(one.dtype) for one in (a, b, out) if one is not None}
        return len(kinds) == 1 and kinds <= TYPES.keys() and a.ndim > 0 and b.ndim > 0

    def _multiply(self, a: Array, b: Array, y: Array, batch: tuple[int, ...], out: Array) -> None:
        """Compute one product, or as many as there are matrices; y is `out` with two axes after those of the batch."""
        count = prod(batch)
        left, right, result = (_flat(one, batch) for one in (a, b, y))
        there = None if result is None or _overlaps(out, a, b) else Matrix.of(result, count)
        if there is None or there.flipped:  # compute it in memory of its own
            made = self._cupy.empty(y.shape, y.dtype)
            self._multiply(a, b, made, batch, made)
            self._cupy.copyto(y, made)
            return
        matrices: list[Matrix] = []
        kept: list[Array] = []  # until the product is enqueued
        for given, array in ((left, a), (right, b)):
            known = None if given is None else Matrix.of(given, count)
            if known is None:
                wide = self._cupy.broadcast_to(array, (*batch, *array.shape[-2:]))
                kept.append(self._cupy.ascontiguousarray(wide).reshape(count, *array.shape[-2:]))
                known = Matrix.of(kept[-1], count)
                assert known is not None
            matrices.append(known)
        if not self._call(str(y.dtype), matrices[1], matrices[0], there):
            raise NacreError(f"cuBLASLt knows no way to multiply these matrices: {matrices[1]}, {matrices[0]}")

    def _call(
        self,
        dtype: str,
        first: Any,
        second: Any,
        result: Any,
        bias: Array = None,
        made_of: int | None = None,
        *,
        relu: bool = False,
    ) -> bool:
        """Compute a product, plus a bias if there is one, and a ReLU of it; return whether cuBLASLt can do that.

        `made_of` is the type of the result, if it is not that of the factors.
        """
        kind, compute, scale = NARROW if dtype == "bf16" else TYPES[dtype]
        kinds = kind, kind, kind if made_of is None else made_of
        compute = IN_TF32 if self.tf32 and dtype == "float32" else compute
        factors = (ctypes.c_double if scale == DOUBLE else ctypes.c_float) * 2
        one_and_zero = factors(1, 0)
        beta = ctypes.addressof(one_and_zero) + ctypes.sizeof(one_and_zero) // 2
        made: list[tuple[str, ctypes.c_void_p]] = []
        try:
            operation = self._new(made, "MatmulDesc", compute, scale)
            for attribute, matrix in ((TRANSPOSED_A, first), (TRANSPOSED_B, second)):
                self._set("MatmulDesc", operation, attribute, ctypes.c_int32(matrix.flipped))
            if epilogue := (bias is not None) * WITH_BIAS + relu * WITH_RELU:
                self._set("MatmulDesc", operation, EPILOGUE, ctypes.c_int32(epilogue))
            if bias is not None:
                self._set("MatmulDesc", operation, BIAS_POINTER, ctypes.c_void_p(bias.data.ptr))
            # what lies in memory row by row, cuBLASLt calls the columns
            layouts = [self._layout(made, *one) for one in zip(kinds, (first, second, result), strict=True)]
            layouts.append(layouts[2])  # what is added to, nothing here, lies where the result does
            places = [one.address for one in (first, second, result, result)]
            key = (
                dtype,
                epilogue,
                made_of,
                *(one.shape for one in (first, second, result)),
                *map(_alignment, places),
            )
            if key not in self._algorithms:
                self._algorithms[key] = self._chosen(made, operation, layouts, places)
            if (chosen := self._algorithms[key]) is None:
                return False
            self._check(
                "Matmul",
                *(self._opened(), operation, ctypes.addressof(one_and_zero)),
                *(places[0], layouts[0], places[1], layouts[1], beta),
                *(places[2], layouts[2], places[3], layouts[3], ctypes.addressof(chosen)),
                *(self._workspace.data.ptr, WORKSPACE, self._cupy.cuda.get_current_stream().ptr),
            )
            return True
        finally:
            for what, thing in made:
                self._check(f"{what}Destroy", thing)

    def _chosen(
        self,
        made: list[tuple[str, ctypes.c_void_p]],
        operation: ctypes.c_void_p,
        layouts: Sequence[ctypes.c_void_p],
        places: Sequence[int],
    ) -> ctypes.Array[ctypes.c_char] | None:
        """Return the algorithm that cuBLASLt's rules choose for such addresses, or None; nothing is timed."""
        wishes = self._new(made, "MatmulPreference")
        self._set("MatmulPreference", wishes, MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        for attribute, place in zip(ALIGNMENTS, places, strict=True):
            self._set("MatmulPreference", wishes, attribute, ctypes.c_uint32(_alignment(place)))
        result, count = (ctypes.c_char * RESULT_BYTES)(), ctypes.c_int()
        asked = self._opened(), operation, *layouts, wishes, 1, ctypes.byref(result), ctypes.byref(count)
        if (status := self._status("MatmulAlgoGetHeuristic", *asked)) not in (0, NOT_SUPPORTED):
            raise _failed("MatmulAlgoGetHeuristic", status)
        found = status == 0 and count.value and not ctypes.c_int.from_buffer(result, STATE).value
        return result if found else None

    def _layout(self, made: list[tuple[str, ctypes.c_void_p]], kind: int, matrix: Matrix) -> ctypes.c_void_p:
        layout = self._new(made, "MatrixLayout", kind, matrix.columns, matrix.rows, matrix.ahead)
        if matrix.count > 1:
            self._set("MatrixLayout", layout, BATCH_COUNT, ctypes.c_int32(matrix.count))
            self._set("MatrixLayout", layout, BATCH_STRIDE, ctypes.c_int64(matrix.step))
        return layout

    def _new(self, made: list[tuple[str, ctypes.c_void_p]], what: str, *arguments: Any) -> ctypes.c_void_p:
        thing = ctypes.c_void_p()
        self._check(f"{what}Create", ctypes.byref(thing), *arguments)
        made.append((what, thing))
        return thing

    def _set(self, what: str, thing: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._check(f"{what}SetAttribute", thing, attribute, ctypes.byref(value), ctypes.sizeof(value))

    def _opened(self) -> ctypes.c_void_p:
        if not self._handle:
            self._check("Create", ctypes.byref(self._handle))
        return self._handle

    def _check(self, function: str, *arguments: Any) -> None:
        if status := self._status(function, *arguments):
            raise _failed(function, status)

    def _status(self, function: str, *arguments: Any) -> int:
        return getattr(self._library, f"cublasLt{function}")(*arguments)


def _failed(function: str, status: int) -> NacreError:
    return NacreError(f"cublasLt{function} failed with status {status}", "see cublasStatus_t in CUDA's manual")


def _alignment(address: int) -> int:
    """Return the largest power of two, up to `ALIGNED`, of which an address is a multiple."""
    return min(address & -address or ALIGNED, ALIGNED)


def _flat(array: Array, batch: Sequence[int]) -> Array | None:
    """Return an array as (matrices, rows, columns) without a copy: one matrix where all are the same, or None."""
    own = array.shape[:-2]
    if prod(own) == 1:
        return array.reshape(1, *array.shape[-2:])
    if tuple(own) != tuple(batch):
        return None
    expected = None
    for length, stride in zip(own[::-1], array.strides[-3::-1], strict=True):
        if length > 1:
            if stride != (expected or stride):
                return None
            expected = stride * length
    return array.reshape(prod(own), *array.shape[-2:])


def _overlaps(out: Array, *arrays: Array) -> bool:
    """Return whether a product would write into what it still has to read."""

    def ends(array: Array) -> tuple[int, int]:
        return array.data.ptr, array.data.ptr + sum(
            (n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)
        )

    low, high = ends(out)
    return any(start <= high and low <= end for start, end in map(ends, arrays))
