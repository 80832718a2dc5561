"""LayerState: a layer at work in one net on one backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never

from ..arguments import check_class_line
from ..discovery.fitting import required
from ..discovery.offers import FIRST_PARTY
from ..errors import ContractError, brief
from .array import Array
from .components import Neuron

if TYPE_CHECKING:
    from .blob import Blob
    from .layer import Layer
    from .parameter import Parameter
    from .view import Fitted, View


class LayerState:
    """A layer at work in one net on one backend; a kernel is a state for one backend, made in the same way.

    `setup` declares `blobs` (`backend.blob(shape)`) and `parameters`; the net gives them memory and calls `ready`. From
    then on `inputs`, `diffs`, `blobs` and `blobs_diff` hold arrays of the backend (for a kernel: the backend's own
    blobs), the same objects at every call. An entry of `diffs` or `blobs_diff` is None if nothing needs it.

    What `forward` leaves for `backward`, and is no blob, is declared in `intermediates` (`backend.blob(shape)`), which
    hold plain arrays from `ready` on: the net counts their memory, and shares it by lifetime. They last from `forward`
    to the end of `backward`; in a net that only goes forward, to the end of `forward`.

    The class line declares what else the net must know:

    * `of`: the layer whose state this is, so that the layer needs no `setup`.
    * `reads`: what `backward` reads, of "inputs" and "blobs"; by default "inputs blobs".
    * `elementwise`: the code does the same with every element, in any order and shape.
    * `host_only`: the code needs NumPy arrays; on a device the net moves them there and back.
    * `capturable`: the calls of this state may be recorded and replayed without Python; "rows" says that it looks at
      `backend.rows`, so that each number of rows has a record of its own, and what the calls leave in attributes is
      there again when that is replayed. Arrays that `forward` leaves for `backward` are made in `ready`, or are
      intermediates: a record of `backward` reads the same ones after any `forward`. A kernel for onednn that says so
      only adds to the record; one that does not is called in every pass.
    * `dtypes`, `fuses` (kernels): the types that it computes in, and the neurons that it applies itself, by the names
      under which they are offered: "nacre:ReLU", or "ReLU" for that of the kernel's own distribution, else nacre's.
    * `on_plain` (kernels): the code works on plain arrays, even if the backend has own blobs of these shapes.
    * `deterministic=False` (kernels): its bits differ from run to run, so a deterministic net does not use it.
    * `version` (kernels): that of the layer it computes; a layer of another version is left to its own state.
    """

    reads: str = "inputs blobs"
    elementwise: ClassVar[bool] = False
    host_only: ClassVar[bool] = False
    capturable: bool | Literal["rows"] = False
    dtypes: ClassVar[tuple[str, ...]] = ()
    same_dtype: ClassVar[bool] = False
    """Whether a kernel reads floating bottoms as numbers of the net's type: it is left out where one has another."""
    deterministic: ClassVar[bool] = True
    on_plain: bool = False
    fuses: ClassVar[tuple[str, ...]] = ()
    nacre_version: ClassVar[int] = 1
    acts_for: ClassVar[str] = "layer"
    """The attribute with the object that it is the state of, by which errors name it."""

    def __init_subclass__(
        cls,
        *,
        of: type[Layer] | None = None,
        reads: Literal["inputs blobs", "inputs", "blobs", ""] | None = None,
        elementwise: bool | None = None,
        host_only: bool | None = None,
        capturable: bool | Literal["rows"] | None = None,
        dtypes: tuple[str, ...] | None = None,
        deterministic: bool | None = None,
        on_plain: bool | None = None,
        fuses: tuple[str, ...] | None = None,
        version: int | None = None,
        **others: Never,
    ) -> None:
        check_class_line(cls, others)
        super().__init_subclass__()
        said = {
            "reads": reads,
            "elementwise": elementwise,
            "host_only": host_only,
            "capturable": capturable,
            "dtypes": dtypes,
            "deterministic": deterministic,
            "on_plain": on_plain,
            "fuses": fuses,
            "nacre_version": version,
        }
        for name, value in said.items():
            if value is not None:
                setattr(cls, name, value)
        if not isinstance(cls.reads, str) or not set(cls.reads.split()) <= {"inputs", "blobs"}:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ContractError(f"{cls.__name__}: reads={cls.reads!r}, but only 'inputs' and 'blobs' are allowed")
        if of is not None:
            if not hasattr(of, "works_as"):
                raise ContractError(f"{cls.__name__}: of={brief(of)}, but it must be the class of a layer")
            of.works_as(cls)

    loss: Any
    """The weighted loss of the last batch, a number or an array of the backend with one (`has_loss`)."""
    divided_by: Literal["rows", "count", "nothing"] = "rows"
    """By what it is divided: the rows that count, or `n_counted`, or nothing. So a net joins the losses of ranks."""
    n_counted: int
    """What the loss of the last batch is divided by, if it is a count of its own, such as of labels; it may be 0."""

    def __init__(self, layer: Any, backend: View, inputs: list[Blob], diffs: list[Blob | None]) -> None:
        self.layer = layer
        self.backend = backend
        self.blobs: list[Any] = []
        self.blobs_diff: list[Any] = []
        self.intermediates: list[Any] = []
        self.parameters: list[Parameter] = []

    @classmethod
    def supports(cls, layer: Any, inputs: list[Blob]) -> str | None:
        """Return None, or the reason why this kernel cannot be used for `layer` on inputs of these shapes and types."""
        return None

    def fuses_neuron(self, neuron: Neuron) -> bool:
        """Return whether a kernel applies this neuron to its tops itself; by default those named in `fuses`."""
        from ..discovery.registry import registry

        here, fuses = registry(), type(self).fuses
        owner = here.owner(type(self)) if fuses else None
        # a bare name means that of the kernel's own distribution, else nacre's; never another one's
        for name in fuses:
            own = here.offers("neuron", f"{owner.distribution}:{name}") if owner else []
            meant = own or here.offers("neuron", name if ":" in name else f"{FIRST_PARTY}:{name}")
            if any(here.opens_to(offer, type(neuron)) for offer in meant):
                return True
        return False

    def joined_with(self, below: LayerState, index: int) -> Callable[[list[Any], list[Any]], LayerState] | None:
        """Return what makes one kernel for this layer and the one below, or None; asked of kernels.

        `below` is the kernel of the layer, or of the neuron, whose only top is bottom `index` here; nothing else reads
        that. What is returned is called with the inputs of `below` and then the others of this layer, and with their
        diffs, as kernels are made. The new kernel declares the top of this layer, and its `parameters` are those of the
        two states, the same objects; of these two only `shutdown` is called from then on. So the top between them is
        never written. A state with statistics, a loss or a `memory` is not for joining.
        """
        return None

    @property
    def phase(self) -> str:
        """The net's phase: train, validation, test or predict (or one that an algorithm defines)."""
        return self.backend.phase

    def ready(self) -> None:
        """Take addresses or views: called when the arrays have memory, and again whenever it has moved."""

    @required()
    def forward(self, inputs: list[Array]) -> None:
        """Compute `blobs` from `inputs`."""
        raise ContractError(f"{type(self).__name__} does not define forward")

    @required()
    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Write the gradients of the parameters, and those of the inputs into the entries of `diffs` that are not None.

        Gradients are written, not added. `blobs_diff` holds the gradients of the tops.
        """
        raise ContractError(f"{type(self).__name__} does not define backward")

    def advance(self) -> None:
        """Take over what `forward` has left for the next batch, such as the last states of sequences.

        Called once a batch, when all of it was computed without an error: a second `forward` on a batch, as gradient
        checks run it, begins where the first one began.
        """

    def rewind(self) -> None:
        """Forget earlier batches: the next one is the first of a pass over the data, or of a call of `predict`."""

    def shutdown(self) -> None:
        """Release files and other things from outside, if there are any; may be called twice."""

    def memory(self) -> Mapping[str, Any]:
        """Return what must survive a restart besides the parameters, as arrays and numbers."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        """Restore what `memory` returned; return a sentence that a person should read, or None."""

    def dump_statistics(self) -> dict[str, float]:
        """Return the statistics since the last reset, by name (`has_stats`)."""
        raise ContractError(f"{type(self).__name__} does not define dump_statistics")

    def collected(self) -> Mapping[str, Any] | None:
        """Return what the statistics are made of since the last reset, as arrays and numbers, for `join` (`has_stats`).

        None means that they cannot be joined: then those of several ranks, or micro-batches, are their mean.
        """
        return None

    def join(self, other: Mapping[str, Any]) -> None:
        """Add what a state of this layer has collected, of other records, as NumPy arrays (`has_stats`)."""
        raise ContractError(f"{type(self).__name__} does not define join")

    def reset_statistics(self) -> None:
        """Reset the statistics (`has_stats`)."""
        raise ContractError(f"{type(self).__name__} does not define reset_statistics")


class SourceState(LayerState):
    """The state of a source: it also knows how many rows of its batch are real, and when a pass over its data ends.

    Batches are always full. In phase `train` the next pass begins inside a batch; in the others the last batch of a
    pass is filled up with its last record, and `rows` is the number of real ones.
    """

    rows: int = 0
    """Real rows of the batch that `forward` wrote last."""
    epoch: int = 0
    """How many passes over the data are complete."""
    fitted: Fitted = MappingProxyType({})
    """What it has learned from the training data, or was told by `backend.fitted`; complete after `ready`.

    Names of classes that are here when the state is set up can be counted by the layers behind (`ClassCount`).
    """
    endless: bool = False
    """Whether there are no passes, because the data have no end."""
    numbers: tuple[Any, Any] | None = None
    """Of the batch that `forward` wrote last: the numbers of its records, and the passes they belong to, if known."""

    def keys(self, numbers: Sequence[int]) -> list[str]:
        """Return what a person finds these records by, such as the names of their files; `numbers` are those above."""
        return [f"record {number}" for number in numbers]

    def interrupt(self) -> None:
        """End a `forward` in another thread with an error, if it may wait for what never comes; `shutdown` follows."""

    def rewind(self) -> None:
        """Begin a pass with the next batch."""
        raise ContractError(f"{type(self).__name__} does not define rewind")

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: a source has no gradient."""
