"""Layer, the frozen configuration, and LayerState, a layer at work in one net on one backend."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from .component import Array, Neuron
from .discovery.offers import FIRST_PARTY
from .errors import ConfigError, ContractError
from .fields.configured import Configured, inside
from .fields.types import NAME, Names, Paths, Place, default

if TYPE_CHECKING:
    from .backend import View
    from .parameter import Parameter


PHASES = ("train", "validation", "test", "predict")


TRAITS = ("is_source", "is_sink", "has_param", "has_neuron", "can_do_bp", "is_inplace", "has_loss", "has_stats")


class Phases(Names):
    """Phases of a net: train, validation, test, predict."""

    wants = f"a list of phases: {', '.join(PHASES)}"

    @staticmethod
    def convert(value: Any) -> tuple[str, ...]:
        phases = Names.convert(value)
        if not set(phases) <= set(PHASES):
            raise ValueError
        return phases


class Layer(Configured):
    """The configuration of a layer; a subclass is a frozen, keyword-only dataclass without a decorator.

    The class line says what the layer is: `class PoolingLayer(Layer, can_do_bp=True, has_neuron=True)`. A layer is
    the object, not its values: the same object in two nets shares its parameters.

    Raises:
        ContractError: when the class is made, if it breaks what its traits demand.
        ConfigError: when an object is made, if a field is unknown, missing, of another type, or fails its check.
    """

    nacre_kind = "layer"

    is_source: ClassVar[bool] = False
    is_sink: ClassVar[bool] = False
    has_param: ClassVar[bool] = False
    has_neuron: ClassVar[bool] = False
    can_do_bp: ClassVar[bool] = False
    is_inplace: ClassVar[bool] = False
    has_loss: ClassVar[bool] = False
    has_stats: ClassVar[bool] = False

    name: Annotated[str, "name of the layer; the first top's unless given"] = ""
    exclude: Annotated[Phases, "phases in which the layer is absent"] = default(())

    if TYPE_CHECKING:  # not of __init__, or every layer would seem to need all three
        bottoms: Any = dataclasses.field(init=False)
        tops: Any = dataclasses.field(init=False)
        neuron: Any = dataclasses.field(init=False)

    def __init_subclass__(
        cls,
        *,
        is_source: bool | None = None,
        is_sink: bool | None = None,
        has_param: bool | None = None,
        has_neuron: bool | None = None,
        can_do_bp: bool | None = None,
        is_inplace: bool | None = None,
        has_loss: bool | None = None,
        has_stats: bool | None = None,
    ) -> None:
        super().__init_subclass__()
        said = {trait: value for trait, value in locals().items() if trait in TRAITS and value is not None}
        for trait, value in said.items():
            setattr(cls, trait, value)
        fields = {field.name for field in dataclasses.fields(cls)}
        forbidden = {"is_source": "bottoms", "is_sink": "tops", "is_inplace": "tops"}
        for trait, field in forbidden.items():
            if getattr(cls, trait) and field in fields:
                raise ContractError(f"{cls.__name__} says {trait}, so it must have no field '{field}'")
        if cls.has_neuron and "neuron" not in fields and not hasattr(cls, "neuron"):  # or a property
            raise ContractError(f"{cls.__name__} says has_neuron, so it must have a field 'neuron'")

    def setup(self, backend: View, inputs: list[Any], diffs: list[Any]) -> LayerState:
        """Make the state: declare its blobs and parameters from the shapes and types of `inputs`.

        `inputs` and `diffs` have one entry for each bottom. An entry of `diffs` is None where nobody wants that
        gradient. Nothing has memory yet.
        """
        raise ContractError(f"{type(self).__name__} does not define setup")

    def tops_without_gradient(self) -> tuple[str, ...]:
        """Return the names of the tops that `backward` ignores, such as places: their entries of `blobs_diff` are None.

        They need not reach a loss.
        """
        return ()

    def _complete(self) -> None:
        if not self.name:
            first = next(iter(getattr(self, "tops", ())), None) or "-".join(
                [layer_type(type(self)), *getattr(self, "bottoms", ())[:1]]
            )
            object.__setattr__(self, "name", first)

    def complaints(self) -> Any:
        """Check the name and what the traits demand of the fields."""
        if not NAME.match(self.name):
            yield f"name={self.name!r}, but it must be made of letters, digits, '_', '-' and '.'"
        if not self.is_source and not hasattr(self, "bottoms"):
            raise ContractError(f"{type(self).__name__} must have a field 'bottoms', or say is_source=True")
        if not (self.is_sink or self.is_inplace) and not hasattr(self, "tops"):
            raise ContractError(f"{type(self).__name__} must have a field 'tops', or say is_sink=True")

    def _called(self, given: Mapping[str, Any]) -> str:
        tops: Any = given.get("tops")
        if isinstance(tops, tuple | list):
            tops = next(iter(cast("tuple[Any, ...]", tops)), None)
        return str(given.get("name") or getattr(self, "name", "") or tops or layer_type(type(self)))


def layer_type(cls: type) -> str:
    """Give the name by which a layer's class goes in a net file: `PoolingLayer` is "Pooling"."""
    return cls.__name__.removesuffix("Layer") or cls.__name__


def tops_of(layer: Layer) -> tuple[str, ...]:
    """Give the names of the blobs that a layer writes: its tops, or an in-place layer's bottoms."""
    if layer.is_inplace:
        return tuple(layer.bottoms)
    return tuple(getattr(layer, "tops", ()))


def bottoms_of(layer: Layer) -> tuple[str, ...]:
    """Give the names of the blobs that a layer reads."""
    return tuple(getattr(layer, "bottoms", ()))


def is_output(layer: Layer) -> bool:
    """Say whether a layer only hands blobs to the outside world: whoever only looks at a net leaves it out."""
    return layer.is_sink and not (layer.has_loss or layer.has_stats or layer.can_do_bp)


def check_outputs(layers: Iterable[Layer]) -> None:
    """Refuse an output that would replace a file which another layer reads, in whatever phase that does.

    Raises:
        ConfigError: names both layers, and the file.
    """
    every = tuple(layers)
    readers = {path: layer.name for layer in every if not is_output(layer) for path, _, _ in _paths_of(layer)}
    for layer in filter(is_output, every):
        for path, field, given in _paths_of(layer):
            if path in readers:
                reader = readers[path]
                raise ConfigError(
                    f"{layer.name}: {field}={given!r}, but layer '{reader}' reads this file", "write to another file"
                )


def _paths_of(layer: Layer) -> Iterator[tuple[str, str, str]]:
    """Yield the files that a layer and its components name: where each is, links followed, the field, what it says."""
    for thing in inside(layer):
        for field in type(thing).fields():
            value: Any = getattr(thing, field.name)
            if field.takes(Paths) or isinstance(value, Place):
                for given in cast("tuple[Any, ...]", value if isinstance(value, list | tuple) else (value,)):
                    if isinstance(given, str):  # None is no path
                        yield os.path.realpath(given), field.name, given


class LayerState:
    """A layer at work in one net on one backend; a kernel is a state for one backend, made in the same way.

    `setup` declares `blobs` (`backend.blob(shape)`) and `parameters`; the net gives them memory and calls `ready`.
    From then on `inputs`, `diffs`, `blobs` and `blobs_diff` hold arrays of the backend (for a kernel: the backend's
    own blobs), the same objects at every call. An entry of a `diffs` or `blobs_diff` is None where nobody wants it.

    The class line says what else the net must know:

    * `reads`: what `backward` reads, of "inputs" and "blobs"; "inputs blobs" unless said.
    * `elementwise`: the code treats every element alike, in any order and shape.
    * `host_only`: the code wants NumPy arrays; on a device the net moves them there and back.
    * `capturable`: the calls of this state may be recorded and replayed without Python.
    * `dtypes`, `fuses` (kernels): the types that it computes in, and the neurons that it applies itself, by the names
      under which they are offered: "nacre:ReLU", or "ReLU" for the kernel's own distribution's, else nacre's.
    * `on_plain` (kernels): the code works on plain arrays, also where the backend has own blobs of these shapes.
    * `deterministic=False` (kernels): it gives other bits from run to run, so a deterministic net passes it over.
    """

    reads: str = "inputs blobs"
    elementwise: ClassVar[bool] = False
    host_only: ClassVar[bool] = False
    capturable: ClassVar[bool] = False
    dtypes: ClassVar[tuple[str, ...]] = ()
    deterministic: ClassVar[bool] = True
    on_plain: bool = False
    fuses: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls,
        *,
        reads: str | None = None,
        elementwise: bool | None = None,
        host_only: bool | None = None,
        capturable: bool | None = None,
        dtypes: tuple[str, ...] | None = None,
        deterministic: bool | None = None,
        on_plain: bool | None = None,
        fuses: tuple[str, ...] | None = None,
    ) -> None:
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
        }
        for name, value in said.items():
            if value is not None:
                setattr(cls, name, value)
        if not set(cls.reads.split()) <= {"inputs", "blobs"}:
            raise ContractError(f"{cls.__name__}: reads={cls.reads!r}, but it names only 'inputs' and 'blobs'")

    loss: Any
    """The weighted loss of the last batch, a number or an array of the backend with one (`has_loss`)."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        self.layer = layer
        self.backend = backend
        self.blobs: list[Any] = []
        self.blobs_diff: list[Any] = []
        self.parameters: list[Parameter] = []

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        """Give None, or the reason why this kernel does not serve `layer` on inputs of these shapes and types."""
        return None

    def fuses_neuron(self, neuron: Neuron) -> bool:
        """Return whether a kernel applies this neuron to its tops itself; those named in `fuses` unless overridden."""
        from .discovery.registry import registry

        here, fuses = registry(), type(self).fuses
        owner = here.owner(type(self)) if fuses else None
        # a bare name is that of the kernel's own distribution, else nacre's; never another stranger's
        for name in fuses:
            own = here.offers("neuron", f"{owner.distribution}:{name}") if owner else []
            meant = own or here.offers("neuron", name if ":" in name else f"{FIRST_PARTY}:{name}")
            if any(here.opens_to(offer, type(neuron)) for offer in meant):
                return True
        return False

    @property
    def phase(self) -> str:
        """The net's phase: train, validation, test or predict (or one of an algorithm's own)."""
        return self.backend.phase

    def ready(self) -> None:
        """Take addresses or views: called when the memory stands, and again whenever it has moved."""

    def forward(self, inputs: list[Array]) -> None:
        """Compute `blobs` from `inputs`."""
        raise ContractError(f"{type(self).__name__} does not define forward")

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Write the gradients of the parameters, and those of the inputs into the entries of `diffs` that are there.

        Gradients are written, not added. `blobs_diff` holds the gradients of the tops.
        """
        raise ContractError(f"{type(self).__name__} does not define backward")

    def shutdown(self) -> None:
        """Give back what `setup` took from the outside world; may be called twice."""
        raise ContractError(f"{type(self).__name__} does not define shutdown")

    def memory(self) -> Mapping[str, Any]:
        """Give what must survive a restart beside the parameters, as arrays and numbers."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take back what `memory` gave."""

    def dump_statistics(self) -> dict[str, float]:
        """Give the statistics since the last reset, by name (`has_stats`)."""
        raise ContractError(f"{type(self).__name__} does not define dump_statistics")

    def reset_statistics(self) -> None:
        """Start the statistics anew (`has_stats`)."""
        raise ContractError(f"{type(self).__name__} does not define reset_statistics")


class SourceState(LayerState):
    """The state of a source: it also says how many rows of its batch are real, and when a pass over its data ends.

    Batches are always full. In phase `train` the next pass begins inside a batch; in the others the last batch of a
    pass is filled up with its last record, and `rows` says how many are real.
    """

    rows: int = 0
    """Real rows of the batch that `forward` gave last."""
    epoch: int = 0
    """How many passes over the data `forward` has ended."""
    endless: ClassVar[bool] = False
    """Whether there are no passes: what it gives has no end."""

    def rewind(self) -> None:
        """Begin a pass with the next batch."""
        raise ContractError(f"{type(self).__name__} does not define rewind")

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: a source has no gradient."""


def is_identity(neuron: Neuron) -> bool:
    """Say whether a neuron computes nothing."""
    from .component import Identity

    return type(neuron) is Identity
