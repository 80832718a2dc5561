"""NetAccess: what a person reads from a net and writes into it; the part of `Net` that runs nothing."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from ..calls.handles import Top
from ..engine.memory import Memory
from ..engine.ops import Op
from ..engine.parameters import Slot, owned_nodes, owners_of
from ..engine.target import Target
from ..errors import BlobError, ConfigError, DataError, NacreError, TopologyError, brief, nearest
from ..protocols.array import Array
from ..protocols.backend import Backend
from ..protocols.graph import Node
from ..protocols.layer import Layer
from ..protocols.view import Fitted
from ..text import with_containers
from .blobs import Blobs, read_array, write_array
from .fitted import class_names, joined
from .options import NetOptions
from .passes import Passes
from .sources import Sources
from .statistics import Statistics
from .turns import Turns, in_turn

if TYPE_CHECKING:
    import numpy as np

    from .division import Division


_PHASE = (
    "a net has one phase: net.predict and net.evaluate choose the right one, net.derive('validation') makes another"
)
_WEIGHTS = "net.parameters has them by their names: net.parameters['ip1/weight'].value"
_LOAD = "net.load(path) takes the parameters of a snapshot or of a saved net, nacre.load(path) a whole net"
_PLACE = "a backend computes where it is, on a GPU too: Net(..., backend=name) takes what `nacre backends` lists"
_TRAIN = "net.fit(x, y) and Solver(...).solve(net) do all of a training"
ELSEWHERE = {
    "eval": _PHASE, "train": _PHASE, "to": _PLACE, "cuda": _PLACE, "cpu": _PLACE, "zero_grad": _TRAIN,
    "named_parameters": _WEIGHTS, "state_dict": f"{_WEIGHTS}; net.save('net.nacre') keeps the net",
    "weights": _WEIGHTS, "get_weights": _WEIGHTS, "set_weights": f"{_WEIGHTS} = array",
    "load_state_dict": _LOAD, "load_weights": _LOAD, "save_weights": "net.save('net.nacre') keeps the net",
    "predict_proba": "net.predict(x) gives probabilities if a Softmax is an output: L.Softmax()(score)",
    "score": "write net.evaluate(x, y)", "partial_fit": "net.fit(x, y) goes on with the parameters that the net has",
    "add": "a net is made of all its layers at once: Net(name, [...])", "get_layer": "net.layers has them",
}  # fmt: skip
"""What other libraries' models have, and what to write here."""


class NoAttributeError(NacreError, AttributeError):
    """A net was taken for another library's model; `hasattr` sees the error that it expects."""


class NetAccess:
    """Losses, statistics, blobs and frozen layers of a net; `Net` makes what it works on."""

    name: str
    layers: tuple[Layer, ...]
    backend: Backend
    target: Target
    memory: Memory
    ops: list[Op]
    node_ops: dict[str, Op]
    slots: list[Slot]
    turns: Turns
    frozen: set[str]
    trainings: weakref.WeakSet[Any]
    allocated: bool
    backend_named: bool
    """Whether somebody has named the backend: a net file of this net then names it, too."""
    learned: Fitted = MappingProxyType({})
    """What `fit` learned of its data."""
    _closed: bool
    _options: NetOptions
    _handles: Mapping[Top, str]
    _blobs: Blobs
    _passes: Passes
    _sources: Sources
    _statistics: Statistics

    if TYPE_CHECKING:
        division: Division | None  # for nacre's own code: not promised to others
    else:

        def __call__(self, *_: Any, **__: Any) -> NoReturn:
            raise ConfigError(f"net '{self.name}': a net is not called", "use net.predict(x), or net.forward()")

        def __getattr__(self, name: str) -> NoReturn:
            if name in ELSEWHERE:
                raise NoAttributeError(f"a net has no '{name}'", ELSEWHERE[name])
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    # Losses and statistics

    def loss(self) -> float:
        """Return the sum of the losses of the last forward pass.

        Raises:
            NacreError: this net has not run forward yet. `fit` trains another net of the same layers, and returns the
                training with its `loss`.
        """
        return sum(self.losses().values())

    def losses(self) -> dict[str, float]:
        """Return the loss of each loss layer, by layer name, weighted as in the sum.

        Raises:
            NacreError: this net has not run forward yet.
        """
        self._need_pass("it has no losses")
        return self._statistics.losses()

    def count_losses(self) -> float:
        """Return the sum of the losses of the last forward pass; if they are several, count each for `statistics`."""
        return self._statistics.count_losses()

    def tell(self, error: DataError, when: str) -> None:
        """Add to the message of an error about a batch when it happened, and the names of the sources."""
        self._sources.tell(error, when)

    @property
    def batch(self) -> int:
        """How many records the largest batch of a source here has, on all ranks together; 0 if there is none."""
        return self._sources.batch

    @property
    def epoch(self) -> int:
        """How many passes over its data are complete, of the first source whose data have an end."""
        return self._sources.epoch

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return the statistics since the last reset: {layer: {statistic: value}}.

        If there are several loss layers, each also has the statistic "loss": the mean loss per record.

        Raises:
            NacreError: this net has not run forward yet, or not since the reset. A training takes the statistics of its
                net and resets them at each summary, and at its end: `training.statistics` has what it took.
        """
        self._need_pass("it has no statistics")
        if (found := counted_statistics(self)) is None:
            raise NacreError(
                f"net '{self.name}' has not run forward since its statistics were reset, so it has none",
                "call net.forward() or net.forward_epoch() before; a training resets them: what it counted is in "
                'training.statistics["train"], and for callbacks in training.take_statistics()',
            )
        return found

    def statistic_names(self) -> dict[str, list[str]]:
        """Return the names in `statistics`, {layer: [statistic]}, which are known before the net has run."""
        return {layer: list(some) for layer, some in self._statistics.statistics().items()}

    def reset_statistics(self) -> None:
        """Reset all statistics."""
        self._passes.counted = False
        self._statistics.reset_statistics()

    # What is known of the training data

    @property
    def fitted(self) -> dict[str, dict[str, Any]]:
        """What sources learned from the training data, {top: {key: value}}: `Net(fitted=...)` makes another net use it.

        "classes" is the list of names that the numbers of a top count.
        """
        return joined([self.target.fitted, self.learned, *(state.fitted for state in self._sources.states)])

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """The names of classes, by blob: of labels, and of the outputs that a loss or a statistic compares with them.

        Outputs have names only if they have a number for each class. Layers of one bottom, such as a softmax, hand
        names on.
        """
        shapes = {name: value.shape for name, value in self.memory.final.items()}
        return class_names(self.layers, self.fitted, lambda blob: prod(shapes[blob][1:]) if blob in shapes else None)

    # Blobs

    @in_turn("alone")
    def blob(self, name: str | Top) -> np.ndarray:
        """Return a read-only copy of a blob as the last pass left it; `name` may be the handle of a top.

        Raises:
            BlobError: the net has no such blob, or does not keep it.
            NacreError: this net has not run forward yet.
        """
        self._need_memory()
        found = self._blobs.blob(name := self._named(name))
        if not self._has_run("forward") and not self._blobs.is_fed(name):
            self._need_pass(f"blob '{name}' holds no numbers")
        return found

    @in_turn("alone")
    def gradient(self, name: str | Top) -> np.ndarray:
        """Return a read-only copy of the gradient of a blob, as the last backward pass left it.

        For a source's blob it is the gradient of what the source wrote, before any layer changed it in place.

        Raises:
            BlobError: the blob has no gradient, or the net does not keep it.
            NacreError: this net has not run backward yet.
        """
        self._need_memory()
        found = self._blobs.gradient(name := self._named(name))
        self._need_pass(f"the gradient of blob '{name}' holds no numbers", "backward")
        return found

    @in_turn("alone")
    def write(self, name: str | Top, array: Any) -> None:
        """Write a blob of a source, for the next forward pass; if rows are missing, the last row is repeated.

        Raises:
            BlobError: no source of the net writes this blob.
            DataError: the shape does not fit.
        """
        self._need_memory()
        self._blobs.write(self._named(name), array)

    def _named(self, blob: str | Top) -> str:
        """Return the name of a blob that is given by its name or by its handle."""
        if isinstance(blob, str):
            return blob
        if not isinstance(blob, Top):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BlobError(
                f"net '{self.name}' has no blob {brief(blob)}", "give the name of a blob, or the handle of a top"
            )
        if blob not in self._handles:
            raise BlobError(f"net '{self.name}' has no blob for {blob!r}", "it was not among the handles it is made of")
        return self._handles[blob]

    def unwritten(self) -> list[str]:
        """Return the blobs of `Input` layers that have not been written yet: they are zero."""
        return self._sources.unwritten()

    def refuse_unwritten(self) -> None:
        """Raise a DataError if the net would be trained or tested on a blob that has never been written."""
        self._sources.refuse_unwritten()

    def _has_run(self, kind: Literal["forward", "backward"]) -> bool:
        """Return whether a pass of a kind has run; one of several ranks may have run none."""
        return kind in self._passes.done or self._options.ranks > 1

    def _need_pass(self, so: str, kind: Literal["forward", "backward"] = "forward") -> None:
        """Raise an error if no pass of a kind has run."""
        if not self._has_run(kind):
            raise NacreError(
                f"net '{self.name}' has not run {kind} yet, so {so}",
                "call net.forward() before, and net.backward() for gradients; for arrays net.evaluate(x, y); "
                "net.fit returns the training, which has its loss and history",
            )

    def _need_memory(self) -> None:
        if not self.allocated:
            raise BlobError(
                f"net '{self.name}' was made with allocate=False, so its blobs have no memory",
                "make the net without allocate=False",
            )
        if self._closed:
            raise BlobError(f"net '{self.name}' is shut down", "make a new net")

    @in_turn("whole")
    def _read(self, array: Array) -> np.ndarray:
        return read_array(self.backend, array)

    @in_turn("alone")
    def _write_array(self, value: Any, array: Array, where: str) -> None:
        write_array(self.backend, value, array, where)

    # Freezing

    @in_turn("training")
    def freeze(self, *names: str) -> None:
        """Freeze layers: no gradients are computed for their parameters, and the solver does not change them.

        Raises:
            TopologyError: the net has no such layer.
            NacreError: the net is being trained.
        """
        self._set_frozen(self.frozen | self._owners(names))

    @in_turn("training")
    def unfreeze(self, *names: str) -> None:
        """Unfreeze layers: they learn again."""
        self._set_frozen(self.frozen - self._owners(names))

    def _set_frozen(self, frozen: set[str]) -> None:
        self._refuse_trained("its layers cannot be frozen or unfrozen")
        self.frozen = frozen
        self.withhold([slot for slot in self.slots if slot.layer in frozen])

    def _refuse_trained(self, so: str) -> None:
        if self.trainings:
            raise NacreError(f"net '{self.name}' is being trained, so {so}", "do it before the training starts")

    def withhold(self, slots: Sequence[Slot]) -> None:
        """Compute no gradients for these parameters, and those for all others."""
        chosen = {id(slot) for slot in slots}
        for slot in self.slots:
            slot.freeze(id(slot) in chosen)
        if self.allocated:
            for op in self.ops:
                if op.state.parameters:
                    op.ready()
            self._passes.arrange()
            self._passes.compile_all()

    def _layer_names(self) -> set[str]:
        """Return the names of the layers, on any rank, and of the containers that they are in."""
        return {name for node in self._nodes() for one in (node.name, node.owner) for name in with_containers(one)}

    def _nodes(self) -> list[Node]:
        own = [op.node for op in self.node_ops.values()]
        return own if self.division is None else [*own, *self.division.wiring.nodes]

    def _owners(self, names: Sequence[str]) -> set[str]:
        """Return the layers that these are, or are made of, and those that their shared parameters are named after."""
        known = self._layer_names()
        for name in names:
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TopologyError(
                    f"the name of a layer must be a string, not {name!r}", "call net.freeze('conv1', 'conv2')"
                )
            if name not in known:
                raise TopologyError(f"net '{self.name}' has no layer '{name}'{nearest(name, known)}")
        owned = owned_nodes(self.slots) + ([] if self.division is None else self.division.owned_nodes())
        return owners_of(names, owned) | {node.name for node in self._nodes() if node.name in names}


def counted_statistics(net: NetAccess) -> dict[str, dict[str, float]] | None:
    """Return the statistics of a net; None if neither it nor that of another rank has run forward since the reset."""
    statistics = net._statistics  # pyright: ignore[reportPrivateUsage]
    counted = statistics.any_counted(net._passes.counted)  # pyright: ignore[reportPrivateUsage]
    return statistics.statistics() if counted else None
