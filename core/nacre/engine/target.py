"""The choice of a kernel for a layer or a component of a net."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..discovery.kernels import Choice

if TYPE_CHECKING:
    from ..net.net import Net


def choose_kernel(net: Net, thing: Any, inputs: Any) -> Choice:
    """Choose the kernel of a layer or component on the net's backend; `inputs` go to the kernels' `supports`."""
    from ..discovery.registry import registry

    def accept(kernel: Any, offer: Any) -> str | None:
        if kernel.dtypes and net.dtype not in kernel.dtypes:
            return f"computes in {', '.join(kernel.dtypes)}, not {net.dtype}"
        if net.deterministic and not getattr(kernel, "deterministic", True):
            return "gives other bits from run to run, and the net is deterministic"
        return kernel.supports(thing, inputs)

    lineage = net.backend.lineage or (net.backend.name,)
    settled = (net.pins, net.kernels, type(net.backend))
    return registry().choose(thing.__class__, thing.nacre_kind, lineage, accept, *settled)
