"""The dot product of two vectors: see dot.cu. That of cuBLAS cannot be captured."""

from __future__ import annotations

from typing import Any

from nacre import Array

from .launch import LANES, THREADS, TYPES, function

MOST_PARTS = 1024
"""Blocks that add up a part each, at most."""


def can_dot(a: Array, b: Array, out: Array = None) -> bool:
    """Return whether the kernel serves these arrays: vectors of one floating type, as long as each other."""
    some = [one for one in (a, b, out) if one is not None]
    known = all(str(getattr(one, "dtype", "")) in TYPES and one.flags.c_contiguous for one in some)
    return known and len({str(one.dtype) for one in some}) == 1 and a.ndim == b.ndim == 1 and 0 < a.size == b.size


def dot(backend: Any, a: Array, b: Array, out: Array = None) -> Array:
    """Write the dot product into `out`, or into a new array, and return it."""
    empty, kind = backend.xp.empty, TYPES[str(a.dtype)]
    result = empty((), a.dtype) if out is None else out
    n_parts = min(-(-a.size // (THREADS * LANES[kind])), MOST_PARTS)
    parts = empty((n_parts,), "float64")
    function(backend, "dot", f"dot_parts<{kind}>")((n_parts,), (THREADS,), (a, b, parts, a.size))
    function(backend, "dot", f"dot_total<{kind}>")((1,), (THREADS,), (parts, result, n_parts))
    return result
