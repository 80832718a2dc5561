"""A kernel for the layer Swirl of nacre-swirl, on nacre's numpy backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .kernel import SwirlKernel as SwirlKernel

nacre_api = "1"

# by its whole name: another package may have a layer Swirl too
KERNELS = {("nacre-swirl:Swirl", "numpy"): "nacre_swirl_fast.kernel:SwirlKernel"}


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    """Offer the kernel."""
    return KERNELS


__getattr__ = lazy(__name__, KERNELS)
