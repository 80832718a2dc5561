"""Target: where and how a net computes; it makes the views of states and chooses their kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..discovery.guard import ForeignError, described, guarded, place_of, place_of_thing, shown
from ..discovery.kernels import Accept, Choice
from ..discovery.loading import unusable
from ..discovery.offers import Offer
from ..discovery.registry import registry
from ..errors import DataError
from ..protocols.backend import Backend, open_backend
from ..protocols.communicator import Communicator
from ..protocols.graph import Node
from ..protocols.part import Part
from ..protocols.view import Fitted, Scalars, View, named_view, part_view, send_required
from .kernels import misfit


@dataclass(frozen=True, eq=False)
class Target:
    """The backend, phase and types of a net, and the distributions whose kernels it may use.

    `compute` is the narrower type that kernels use if they can, or `dtype`; `pins` and `kernels` are those of the net
    and of the settings together; `fitted` is what is known of the training data; `rank` is that of this process among
    `ranks` of them that share batches, and `part` its part of each, if not all have as many rows; the `communicator`
    connects those that train a batch together, if there is one. `whole` has the shapes of the parameters of the whole
    net, if this is one rank's part of it, and `between` connects the ranks of such a net. `components` are those of
    layers for which states have asked (`View.kernel`), in order; `asked` has the names of the layers that have asked
    `View.joined`.
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
    communicator: Communicator | None
    part: Part | None = None
    scalars: Scalars = field(default_factory=Scalars)
    whole: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    between: Any = None
    views: dict[str, View] = field(default_factory=dict[str, View])
    on_devices: list[View] = field(default_factory=list[View])
    asked: set[str] = field(default_factory=set[str])
    components: list[tuple[Any, Choice]] = field(default_factory=list[tuple[Any, Choice]])

    def view(self, backend: Backend | None = None, node: Node | None = None) -> View:
        """Return what states may know about their net and a backend; by default the net's own.

        That of a node in a container has the full name, that of a part of a layer knows which rows are its own, and one
        of a source whose batches have uneven parts is its own: the source has to ask for its rows.
        """
        backend = backend or self.backend
        feeds = node is not None and self.part is not None and node.layer.is_source
        if node is not None and (node.inside is not None or node.part is not None or feeds):
            key = f"{backend.name} {node.name}"
            if key not in self.views:
                view = named_view(self.view(backend), node.user.name, node.name, node.micro)
                self.views[key] = view if node.part is None else part_view(view, node.part, self.between)
            return self.views[key]
        if backend.name not in self.views:
            view = View(
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
                part=self.part,
                asked=self.asked,
                communicator=self.communicator,
                find_kernel=self.find_kernel,
            )
            self.views[backend.name] = view
            if not backend.on_host:
                self.on_devices.append(view)  # what others of it have required is its own
        return self.views[backend.name]

    def check_required(self) -> None:
        """Raise the error of what a state has required in the last pass, if it is not so."""
        for view in self.on_devices:
            view.check_required()

    def send_required(self) -> Callable[[], DataError | None]:
        """Send what devices have found in the last pass to the host; return what waits for it, and gives an error."""
        sent = [send_required(view) for view in self.on_devices]
        return lambda: next((error for one in sent if (error := one()) is not None), None)

    def find_kernel(self, component: Any, inputs: Sequence[Any]) -> Any:
        """Return the kernel of a layer's component, or the component itself."""
        choice = self.choose_kernel(component, inputs)
        self.components.append((component, choice))
        return component if choice.kernel is None else choice.kernel(component, self.view(self.backend_of(choice)))

    def backend_of(self, choice: Choice) -> Backend:
        """Return the backend whose kernel was chosen: this one, unless the kernel belongs to one of its ancestors."""
        return self.backend if choice.ancestor == self.backend.name else open_backend(choice.ancestor)

    def choose_kernel(self, thing: Any, inputs: Any, adds_copies: Accept | None = None) -> Choice:
        """Choose the kernel of a layer or component on the net's backend; `inputs` go to the kernels' `supports`.

        `adds_copies` returns why a kernel for one of the backend's ancestors would need copies between memories that
        the layer's own state does not need. Other components work on the arrays of whatever uses them, without copies.
        """

        def accept(kernel: Any, offer: Offer) -> str | None:
            try:
                reason = guarded(misfit, thing, kernel)
                declined = None if reason else guarded(self._declines, kernel, thing, inputs)
            except ForeignError as failure:
                place = place_of(failure.error, kernel.__module__)
                raise unusable(offer, f"its supports raised {described(failure.error)}", place) from failure.error
            if not isinstance(declined, str | None):
                reason = f"its supports returned {shown(declined)}, but must return None, or the reason to decline"
            if reason:
                raise unusable(offer, reason, place_of_thing(kernel))
            return declined

        lineage = self.backend.lineage or (self.backend.name,)
        settled = (self.pins, self.kernels, type(self.backend), adds_copies)
        return registry().choose(thing.__class__, thing.nacre_kind, lineage, accept, *settled)

    def _declines(self, kernel: Any, thing: Any, inputs: Any) -> Any:
        """Return why a kernel cannot be used here, or None; a plugin's `supports` may return anything."""
        if kernel.dtypes and self.dtype not in kernel.dtypes:
            return f"computes in {', '.join(kernel.dtypes)}, not {self.dtype}"
        if getattr(kernel, "same_dtype", False):
            floating = {one.dtype for one in inputs if "float" in one.dtype}
            if others := sorted(floating - {self.dtype}):
                return f"serves floating bottoms of the net's type, {self.dtype}, not {', '.join(others)}"
        if self.deterministic and not getattr(kernel, "deterministic", True):
            return "its bits differ from run to run, but the net is deterministic"
        if (known := getattr(kernel, "nacre_version", 1)) != thing.nacre_version:
            return f"computes version {known} of {type(thing).__name__}, not {thing.nacre_version}"
        return kernel.supports(thing, inputs)
