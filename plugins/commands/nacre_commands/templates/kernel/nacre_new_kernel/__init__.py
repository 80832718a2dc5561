"""NewName: a kernel for nacre's layer GLU on the numpy backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .kernel import NewNameKernel as NewNameKernel

nacre_api = "1.1"

# for which layer (by its whole name: another package may have a layer GLU too), on which backend
KERNELS = {("nacre:GLU", "numpy"): "nacre_new_kernel.kernel:NewNameKernel"}


@hookimpl
def offer_kernels() -> dict[tuple[str, str], str]:
    """Offer the kernel."""
    return KERNELS


__getattr__ = lazy(__name__, KERNELS)
