"""Kernels for nacre's numpy backend, compiled by numba. This module only names what is offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .lrn import LRNKernel as LRNKernel
    from .normalise import LayerNormKernel as LayerNormKernel
    from .normalise import RMSNormKernel as RMSNormKernel

nacre_api = "1"
nacre_libraries = ("numba",)

KERNELS = {
    ("nacre:LRN", "numpy"): "nacre_numba.lrn:LRNKernel",
    ("nacre:LayerNorm", "numpy"): "nacre_numba.normalise:LayerNormKernel",
    ("nacre:RMSNorm", "numpy"): "nacre_numba.normalise:RMSNormKernel",
}


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    """Offer the kernels."""
    return KERNELS


__getattr__ = lazy(__name__, KERNELS)
