"""Target: where and how a net computes; it makes the views of states and chooses their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..discovery.kernels import Choice
from ..discovery.registry import registry
from ..protocols.backend import Backend
from ..protocols.graph import Node
from ..protocols.view import Fitted, Scalars, View, named_view


@dataclass(frozen=True, eq=False)
class Target:
    """The backend, phase and types of a net, and the distributions whose kernels it may use.

    `compute` is the narrower type that kernels use if they can, or `dtype`; `pins` and `kernels` are those of the net
    and of the settings together; `fitted` is what is known of the training data; `rank` is
    that of this process among `ranks` of them.
    """

    backend: Backend
    phase: str
    seed: int
    dtype: str
    compute: str
    deterministic: bool
    pins: Mapping[str, str]
    kernels: Sequence[str]
    fitted: Fitted
    rank: int
    ranks: int
    scalars: Scalars = field(default_factory=Scalars)
    views: dict[str, View] = field(default_factory=dict[str, View])

    def view(self, backend: Backend | None = None, node: Node | None = None) -> View:
        """Return what states may know about their net and a backend; by default the net's own.

        That of a node in a container has the full name.
        """
        backend = backend or self.backend
        if node is not None and node.inside is not None:
            key = f"{backend.name} {node.name}"
            if key not in self.views:
                self.views[key] = named_view(self.view(backend), node.user.name, node.name)
            return self.views[key]
        if backend.name not in self.views:
            self.views[backend.name] = View(
                backend,
                phase=self.phase,
                dtype=self.dtype,
                compute=self.compute if self.compute in backend.computes else "",
                deterministic=self.deterministic,
                seed=self.seed,
                scalars=self.scalars,
                fitted=self.fitted,
                rank=self.rank,
                ranks=self.ranks,
            )
        return self.views[backend.name]

    def choose_kernel(self, thing: Any, inputs: Any) -> Choice:
        """Choose the kernel of a layer or component on the net's backend; `inputs` go to the kernels' `supports`."""

        def accept(kernel: Any, offer: Any) -> str | None:
            if kernel.dtypes and self.dtype not in kernel.dtypes:
                return f"computes in {', '.join(kernel.dtypes)}, not {self.dtype}"
            if self.deterministic and not getattr(kernel, "deterministic", True):
                return "its bits differ from run to run, but the net is deterministic"
            return kernel.supports(thing, inputs)

        lineage = self.backend.lineage or (self.backend.name,)
        settled = (self.pins, self.kernels, type(self.backend))
        return registry().choose(thing.__class__, thing.nacre_kind, lineage, accept, *settled)
