"""The cupy backend: NVIDIA's GPUs by CuPy; what can be captured of an iteration is replayed as CUDA graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

from .kernels import KERNELS as IN_CUDA

if TYPE_CHECKING:
    from .backend import CupyBackend as CupyBackend

nacre_api = "1"

BACKENDS = {"cupy": "nacre_cupy.backend:CupyBackend"}
KERNELS = {**IN_CUDA, ("InnerProduct", "cupy"): "nacre_cupy.inner_product:InnerProductKernel"}


@hookimpl
def offer_backends() -> dict[str, str]:
    return BACKENDS


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    return KERNELS


__getattr__ = lazy(__name__, BACKENDS, KERNELS)
