"""Products of matrices of bf16, which lie in arrays of uint16."""

from __future__ import annotations

from typing import Any

from nacre import Array

from .blobs import convert


def multiply_narrow(view: Any, a: Array, b: Array, out: Array, bias: Array = None, *, relu: bool = False) -> None:
    """Write the product of matrices of bf16, as `Products.narrow`; what cuBLASLt cannot do is done in float32."""
    products = view.backend.products
    if products.narrow(a, b, out, bias, relu=relu):
        return
    made = out if str(out.dtype) == "float32" else view.scratch(out.shape, "float32", -1)
    products.matmul(_widened(view, a, -2), _widened(view, b, -3), made)
    if bias is not None:
        view.xp.add(made, _widened(view, bias, -2), out=made)
    if relu:
        view.xp.maximum(made, 0, out=made)
    if made is not out:
        convert(view, made, out)


def _widened(view: Any, array: Array, slot: int) -> Array:
    """Return an array of bf16, or its transpose, in float32."""
    turned = not array.flags.c_contiguous
    given = array.T if turned else array
    made = view.scratch(given.shape, "float32", slot)
    convert(view, given, made)
    return made.T if turned else made
