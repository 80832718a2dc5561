"""Layer: the frozen configuration of a layer, with its traits; the base class for authors of layers."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Never, NoReturn, Self, cast, get_args

from ..arguments import check_class_line
from ..errors import ConfigError, ContractError, brief
from ..fields.checks import non_negative
from ..fields.configured import Configured, Field, inside
from ..fields.types import NAME, ClassCount, Converted, Names, Paths, Place, default, file_names, whole
from .components import Neuron, Transformer
from .part import DIMS, Part

if TYPE_CHECKING:
    from ..calls.handles import Top
    from ..net.at_work import AtWork
    from ..random import RecordRandom
    from .array import Array, Dtype
    from .backend import Backend
    from .blob import Blob
    from .state import LayerState
    from .view import View


Phase = Literal["train", "validation", "test", "predict"]
PHASES: tuple[Phase, ...] = get_args(Phase)
BETTER = ("higher", "lower", "")
TRAITS = ("is_source", "is_sink", "has_param", "has_neuron", "can_do_bp", "is_inplace", "has_loss", "has_stats")


class Phases(Converted[Phase | Sequence[Phase], tuple[Phase, ...]]):
    """Phases of a net: train, validation, test, predict."""

    wants = f"a list of phases: {', '.join(PHASES)}"

    @staticmethod
    def convert(value: Any) -> tuple[Phase, ...]:
        phases = Names.convert(value)
        if not set(phases) <= set(PHASES):
            raise ValueError
        return cast("tuple[Phase, ...]", phases)


Connection = Literal["one_to_one", "one_to_all"]
"""Which features of a bottom a feature of a top depends on: the one that stands at its place, or all."""


class PartitionDim(Converted[int | str | None, int | None]):
    """How a layer is divided among ranks: -1, 0 or 1, or "whole", "batch" or "features"; None is what the net says."""

    wants = "-1 or 'whole', 0 or 'batch', 1 or 'features'"

    @staticmethod
    def convert(value: Any) -> int | None:
        if value is None or value == "none":  # as in every field of a file
            return None
        number = DIMS.get(value) if isinstance(value, str) else whole(value)
        if number not in DIMS.values():
            raise ValueError
        return number


class NoAttributeError(ConfigError, AttributeError):
    """A layer has no such attribute; `hasattr` sees the error that it expects."""

    def __init__(self, cls: type[Layer], name: str) -> None:
        if name in ("forward", "backward"):
            remedy = f"a layer alone computes by layer.at_work(backend, x).{name}()"
        elif name in ("weight", "weights", "bias", "blobs", "parameters"):
            remedy = "values are in a net: net.parameters, net.blob(name)"
        else:
            remedy = f"its fields are {', '.join(field.name for field in cls.fields())}"
        super().__init__(f"{cls.__name__} has no attribute '{name}'", remedy)


SHARED = Annotated[str, "layers with the same key share their parameters"]
"""The field `param_key` of layers with parameters that do not declare it."""


class Unwired(tuple[str, ...]):
    """The bottoms and the tops of a layer that was made without them, to be called."""


UNWIRED = Unwired()


class Layer(Configured):
    """The configuration of a layer; a subclass is a frozen, keyword-only dataclass without a decorator.

    The class line declares what the layer can do: `class PoolingLayer(Layer, can_do_bp=True, has_neuron=True)`. It may
    say the `version` of what the layer computes, and which fields and parameters were `renamed`. A layer is the object,
    not its values: the same object in two nets shares its parameters.

    Raises:
        ContractError: when the class is made, if its fields do not fit its traits.
        ConfigError: when an object is made, if a field is unknown, missing, of a wrong type, or not valid.
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
    statistics: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Which values of its statistics are better, "higher" or "lower", and their unit: {"accuracy": ("higher", "%")}.

    A value of 1 is shown as 100 %. "" is neither, and no unit; "top_*" is every statistic that begins so. "{class}" is
    the number of a class: there is a "recall_{class}" for each class, and a "{class}_as_{class}" for each two.
    """

    shown: ClassVar[tuple[str, ...]] = ()
    """The fields that drawings of a net show, such as ("kernel", "stride")."""

    compares_numbers: ClassVar[bool] = False
    """Whether it compares numbers with numbers, as a loss of a regression does: it reads no scores of classes."""

    boundary: ClassVar[float | None] = None
    """For a loss of numbers that stand for two classes each: above it, its first bottom is of the second class."""

    connection: ClassVar[tuple[Connection, ...]] = ("one_to_one",)
    """For each bottom whether a feature of a top depends on one of its features, or on all; the last is for the rest.

    Where a net is divided among ranks, a layer that is cut along its features gets these of the bottom's, or all.
    """

    feature_axis: ClassVar[int | None] = 1
    """The axis of the tops that counts their features; None is that of the first bottom."""

    name: Annotated[str, "name of the layer; by default that of its first top"] = ""
    exclude: Annotated[Phases, "phases in which the layer is absent"] = default(())
    partition_dim: Annotated[
        PartitionDim, "how it is divided among ranks: -1 not, 0 by records, 1 by features; by default as the net says"
    ] = default(None)
    location: Annotated[int | None, non_negative, "the rank of a layer that is not divided; 0 by default"] = None

    param_key = ""
    """The layers of a net that have one key share their parameters; every layer with parameters has it for a field."""

    needs_algorithm = ""
    """The algorithm that must rewrite a net with this layer, such as one that is in a circle with another layer.

    It may put layers into the net whose `backward` computes gradients without a loss; they name it here, too.
    """

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
        statistics: Mapping[str, tuple[str, str]] | None = None,
        version: int | None = None,
        renamed: Mapping[str, str] | None = None,
        connection: Connection | Sequence[Connection] | None = None,
        **others: Never,
    ) -> None:
        check_class_line(cls, others)
        if (has_param or is_container(cls)) and not any(
            "param_key" in inspect.get_annotations(one) for one in cls.__mro__
        ):
            cls.__annotations__ = {**inspect.get_annotations(cls), "param_key": SHARED}
        super().__init_subclass__(version=version, renamed=renamed)
        said = {trait: value for trait, value in locals().items() if trait in TRAITS and value is not None}
        if statistics is not None:
            if not _are_statistics(statistics):
                raise ContractError(
                    f"{cls.__name__} declares statistics={brief(statistics)}, but it must be {{name: (better, unit)}}",
                    'such as {"accuracy": ("higher", "%")}',
                )
            if odd := [name for name, (better, _) in statistics.items() if better not in BETTER]:
                raise ContractError(
                    f"{cls.__name__} declares statistics={{'{odd[0]}': {statistics[odd[0]]!r}}}, but the first must be "
                    f"one of {', '.join(map(repr, BETTER))}"
                )
            cls.statistics, cls.has_stats = {**cls.statistics, **statistics}, True
        if connection is not None:
            connections = (connection,) if isinstance(connection, str) else connection
            if (
                not isinstance(connections, list | tuple)
                or not {*connections}
                or {*connections} - {*get_args(Connection)}
            ):
                known = " or ".join(map(repr, get_args(Connection)))
                raise ContractError(f"{cls.__name__} declares connection={connection!r}, but it must be {known}")
            cls.connection = tuple(connections)
        for trait, value in said.items():
            setattr(cls, trait, value)
        fields = {field.name for field in dataclasses.fields(cls)}
        forbidden = {"is_source": "bottoms", "is_sink": "tops", "is_inplace": "tops"}
        for trait, field in forbidden.items():
            if getattr(cls, trait) and field in fields:
                raise ContractError(f"{cls.__name__} declares {trait}, so it must not have a field '{field}'")
        if cls.has_neuron and "neuron" not in fields and not hasattr(cls, "neuron"):  # or a property
            raise ContractError(f"{cls.__name__} declares has_neuron, so it must have a field 'neuron'")

    _state: ClassVar[type[LayerState] | None] = None

    @classmethod
    def works_as(cls, state: type[LayerState]) -> None:
        """Make `setup` return states of this class, as `class XState(LayerState, of=XLayer)` does.

        Raises:
            ContractError: the layer already has another state, or defines `setup` itself.
        """
        other = vars(cls).get("_state")
        # a class of the same name is the same one, defined again, as in a notebook
        if other is not None and (other.__module__, other.__qualname__) != (state.__module__, state.__qualname__):
            raise ContractError(
                f"{other.__name__} and {state.__name__} are both declared as the state of {cls.__name__}"
            )
        if "setup" in vars(cls) and vars(cls)["setup"] is not Layer.setup:
            message = f"{cls.__name__} defines setup, but {state.__name__} is declared as its state"
            raise ContractError(message, "remove one of the two")
        cls.setup = Layer.setup  # whatever the layer inherits
        cls._state = state

    @classmethod
    def nacre_misfit(cls, name: str) -> str:
        """Return why this class cannot be offered as a layer under a name, or ""."""
        if cls._state is not None or cls.setup is not Layer.setup or is_container(cls):
            return ""
        return f"{cls.__name__} has no state: no class declares of={cls.__name__}, and it does not define setup"

    def setup(self, backend: View, inputs: list[Blob], diffs: list[Blob | None]) -> LayerState:
        """Return the state, which declares its blobs and parameters from the shapes and types of `inputs`.

        `inputs` and `diffs` have one entry for each bottom. An entry of `diffs` is None if that gradient is not needed.
        Nothing has memory yet.
        """
        if self._state is None:
            name = type(self).__name__
            message = f"{name} has no state: no class declares of={name}, and {name} does not define setup"
            raise ContractError(message)
        return self._state(self, backend, inputs, diffs)

    def counted(self, classes: Mapping[str, Sequence[str]]) -> Layer:
        """Return this layer with the numbers of classes of the blobs that its fields name (`ClassCount`).

        Raises:
            ConfigError: the classes of such a blob are not known.
        """
        fields = {field.name: getattr(self, field.name) for field in type(self).fields() if field.takes(ClassCount)}
        blobs = {name: value for name, value in fields.items() if isinstance(value, str)}
        for name, blob in blobs.items():
            if blob not in classes:
                raise ConfigError(
                    f"{self.name}: {name}={blob!r}, but the classes of blob '{blob}' are not known; known are those "
                    f"of: {', '.join(classes) or 'no blob'}",
                    "write the number, or give the net what the training net knows (net.derive, "
                    "fitted=snapshot.fitted())",
                )
        counts: dict[str, Any] = {name: len(classes[blob]) for name, blob in blobs.items()}
        if not counts:
            return self
        made = dataclasses.replace(self, **counts)
        object.__setattr__(made, "_origin", self.origin)
        return made

    # Calling: nets as people write them in Python

    def __call__(self, *bottoms: Top, tops: int | None = None, **unknown: NoReturn) -> Any:
        """Use this layer on tops of other layers; return its top, or a tuple of several. The layer does not change.

        A source is called with nothing; a layer without tops returns a handle for `Net`. The parameters belong to this
        object: wherever it is called, they are the same. `tops` says how many there are, where any number will do.

        Raises:
            TopologyError: the layer reads or writes another number of blobs, or is connected by names already.
        """
        from ..calls.call import call

        return call(self, bottoms, tops, unknown)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(name) if name.startswith("_") else NoAttributeError(type(self), name)

    @property
    def unwired(self) -> bool:
        """Whether it was made without bottoms and tops: it can be called, but cannot stand in a list of layers."""
        fields = vars(self)
        return fields.get("bottoms") is UNWIRED or fields.get("tops") is UNWIRED

    @property
    def given_name(self) -> str:
        """The name that the user gave it, or ""."""
        return "" if "_unnamed" in vars(self) else self.name

    @property
    def origin(self) -> Layer:
        """The layer whose parameters it uses: that which was called, or itself."""
        return vars(self).get("_origin", self)

    def connected(self, name: str = "", bottoms: Sequence[str] = (), tops: Sequence[str] = (), **fields: Any) -> Layer:
        """Return a copy under a name and connected to blobs, which has the parameters of this layer."""
        wiring = {"name": name, "bottoms": bottoms, "tops": tops, **fields}
        every = {field.name: getattr(self, field.name) for field in type(self).fields()}
        made = type(self)(**{key: wiring.get(key, value) for key, value in every.items()})
        object.__setattr__(made, "_origin", self.origin)
        return made

    def expand(self) -> Sequence[Layer | Inner]:
        """Return the layers that this layer is made of; a class that defines this is a container.

        They name blobs within the container: names in its `bottoms` and `tops` mean its own, all others are local.
        Called once for an object, which keeps its layers.
        """
        return ()

    def inner_names(self, *names: str) -> list[str]:
        """Return names for blobs within this container: these, changed where its bottoms or tops have them."""
        taken, found = {*bottoms_of(self), *tops_of(self)}, list[str]()
        for name in names:
            while name in taken:
                name += "_"
            taken.add(name)
            found.append(name)
        return found

    def at_work(
        self,
        backend: str | Backend | None = None,
        *inputs: Any,
        phase: Phase = "train",
        seed: int = 0,
        dtype: Dtype = "float32",
    ) -> AtWork:
        """Return this layer at work alone, for inputs like these arrays: `work.forward(x)`, `work.backward(dy)`."""
        from ..net.at_work import AtWork

        return AtWork(self, backend, inputs, phase=phase, seed=seed, dtype=dtype)

    def multiplications(
        self,
        bottoms: Sequence[tuple[int, ...]],
        tops: Sequence[tuple[int, ...]],
        parameters: Mapping[str, tuple[int, ...]],
    ) -> int | None:
        """Return how many multiplications forward needs for a batch of these shapes; None if that is not known.

        `nacre summary` shows it. Only products of matrices count, neither biases nor neurons.
        """
        return None

    def tops_without_gradient(self) -> tuple[str, ...]:
        """Return the names of the tops that have no gradient, such as indices: their entries of `blobs_diff` are None.

        They need not reach a loss.
        """
        return ()

    def bottoms_without_gradient(self) -> tuple[str, ...]:
        """Return the names of the bottoms that this layer has no gradient for, such as a mask or targets.

        Their entries of `diffs` are always None. Another layer must give the gradient of such a blob if it needs one.
        """
        return ()

    @property
    def crosses_ranks(self) -> bool:
        """Whether gradients leave this process here, or come in, as in a bridge: it needs no loss above it."""
        return False

    def partition(self, part: int, parts: int) -> Layer:
        """Return the layer that computes one part of this layer's features, of so many parts; `part` counts from 0.

        It has the features from `part_of(features, part, parts)[0]` on: an InnerProduct of 10 outputs is cut into two
        of 5. It may be this layer, if it computes what it is given: a function of single numbers. Parameters of the
        part have the whole's shape, or are shorter along one axis; the net gives them their part of the whole's first
        values. Bottoms are cut in the same way, if `connection` says so, or whole.

        Raises:
            ConfigError: it cannot be cut along its features.
        """
        raise ConfigError(
            f"{self.name}: {layer_type(type(self))} cannot be cut along its features (partition_dim=1)",
            "set its partition_dim to 0 (by records) or -1 (not at all)",
        )

    def not_by_records(self) -> str:
        """Return why the records of a batch must be together in this layer, or "" if they may be on several ranks."""
        return ""

    def with_batch(self, rows: int) -> Layer:
        """Return this source with batches of so many records: one rank's part of a batch that several have together.

        Raises:
            ConfigError: it has no field `batch_size`.
        """
        if not isinstance(getattr(self, "batch_size", None), int):
            raise ConfigError(
                f"{self.name}: {layer_type(type(self))} has no batch_size that could be divided among ranks",
                "set its partition_dim to -1: then one rank reads whole batches",
            )
        return dataclasses.replace(cast("Any", self), batch_size=rows)

    def as_part_of(self, whole: Layer, part: Part) -> Self:
        """Note that each batch of this source, and of those in it, is a part of a whole one's; return this source."""
        object.__setattr__(self, "_whole", (whole, part))
        for field in type(self).fields():
            value = getattr(self, field.name)
            for one in cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ():
                if isinstance(one, Layer):
                    one.as_part_of(one, part)
        return self

    @property
    def undivided(self) -> Layer:
        """The source of whole batches of which this one feeds a rank's part; any other layer itself."""
        return vars(self).get("_whole", (self, None))[0]

    @property
    def batch_part(self) -> Part | None:
        """Which part of the batches of `undivided` this source feeds, or None."""
        return vars(self).get("_whole", (self, None))[1]

    def weighing(self, blob: str) -> Layer | None:
        """Return this loss as one that multiplies the loss of each record by its number in a blob; None if it cannot.

        `net.fit` asks for it where it is given weights of classes or of records.
        """
        return None

    def ignored(self) -> int | None:
        """Return the label that this loss ignores, or None: `net.fit` takes it for no class."""
        return None

    def reading(self) -> Mapping[str, Any]:
        """Return how a source reads files: its `store`, and the `codec` of their bytes; see `nacre.open_records`.

        `nacre predict` reads files so, too; the store only those that it fits.
        """
        return {}

    @property
    def reads_files(self) -> bool:
        """Whether a source has a field of files; records for another one are found in a file by their name or size."""
        return self.is_source and any(field.takes(Paths) for field in type(self).fields())

    needs_data: ClassVar[bool] = True
    """Whether a source reads data from outside: in a net that is saved, an `Input` takes the place of one that does."""

    def without_files(self, field: str, paths: Any) -> Any:
        """Return the names of a source's files, whose data a saved net does not need."""
        return file_names(paths) if self.is_source else super().without_files(field, paths)

    def reading_from(self, paths: Sequence[str]) -> Layer:
        """Return this source for other files, of which it reads every record once: to test a saved net with.

        By default with these in the one field of paths that it needs.

        Raises:
            ConfigError: it reads no files.
        """
        fields = [field.name for field in type(self).fields() if field.takes(Paths) and field.required]
        if not self.is_source or len(fields) != 1:
            raise ConfigError(
                f"{self.name}: {layer_type(type(self))} reads no files, so it cannot read {', '.join(paths)}",
                "test the net in Python, or with a net file whose source reads files",
            )
        return dataclasses.replace(cast("Any", self), **{fields[0]: tuple(paths)}, exclude=())

    def changes(self, top: str) -> Sequence[Transformer]:
        """Return the transformers by which a source changes records of a top: `fit` changes its arrays by them.

        Raises:
            ConfigError: it changes them in other ways too.
        """
        if type(self).prepare is not Layer.prepare:
            raise ConfigError(
                f"{self.name}: {layer_type(type(self))} changes records of '{top}', which cannot be done to arrays",
                "train with such a source, and not with fit",
            )
        return ()

    def stored_as(self, top: str) -> str:
        """Return the name that records for a top of a source have in files; by default the top's own."""
        return top

    def prepared_shape(self, top: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the records that `prepare` makes of records of a shape."""
        return shape

    def prepare(
        self,
        top: str,
        records: Array,
        random: RecordRandom,
        phase: Phase,
        fitted: Mapping[str, Any],
        classes: Sequence[str] = (),
    ) -> Array:
        """Return records that stand for a source's own (`Net.predict`), changed as the source changes its own.

        `records` is a NumPy array of the blob's type, axis 0 counting them, which may be changed in place. `fitted` is
        what is known of this top since training; `classes` are the names that the numbers of `records` count, by
        default those of training. A source that gives what it reads changes nothing.
        """
        return records

    def _complete(self) -> None:
        if not self.name:
            name = name_from(type(self), getattr(self, "tops", ()), getattr(self, "bottoms", ()))
            object.__setattr__(self, "name", name)
            object.__setattr__(self, "_unnamed", True)

    @classmethod
    def _left_out(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if any(not isinstance(given.get(name, UNWIRED), Unwired) for name in ("bottoms", "tops")):
            return {}
        return {field.name: UNWIRED for field in cls.fields() if field.name in ("bottoms", "tops") and field.required}

    @classmethod
    def default_of(cls, field: Field) -> Any:
        return UNWIRED if field.name in ("bottoms", "tops") and field.required else super().default_of(field)

    @classmethod
    def _how_to_name(cls, remedy: str) -> str:
        return f"{remedy}; a layer is called when it is made: {cls.__name__}(...)(x)"

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in super().given().items() if value is not UNWIRED}

    def complaints(self) -> Any:
        """Check the name, and the fields that the traits require."""
        if not NAME.match(self.name):
            yield f"name={self.name!r}, but it must consist of letters, digits, '_', '-' and '.'"
        if not self.is_source and not hasattr(self, "bottoms"):
            raise ContractError(f"{type(self).__name__} must have a field 'bottoms', or declare is_source=True")
        if not (self.is_sink or self.is_inplace) and not hasattr(self, "tops"):
            raise ContractError(f"{type(self).__name__} must have a field 'tops', or declare is_sink=True")

    def _called(self, given: Mapping[str, Any]) -> str:
        tops: Any = given.get("tops")
        if isinstance(tops, tuple | list):
            tops = next(iter(cast("tuple[Any, ...]", tops)), None)
        return str(given.get("name") or getattr(self, "name", "") or tops or layer_type(type(self)))


@dataclass(frozen=True)
class Inner:
    """A layer in a container under another name than its own, or connected to other blobs than its fields name.

    Names are those within the container, as in the layer's fields; None is what the layer says. `owner` is the name
    that its parameters have; "" is the container's, as for the repetitions of one block that share them.
    """

    layer: Layer
    name: str | None = None
    bottoms: tuple[str, ...] | None = None
    tops: tuple[str, ...] | None = None
    owner: str | None = None


def _are_statistics(given: object) -> bool:
    """Return whether this is {name: (better, unit)}, all of them strings."""
    if not isinstance(given, Mapping):
        return False
    entries = cast("Mapping[object, object]", given).items()
    return all(
        isinstance(name, str)
        and isinstance(one, tuple | list)
        and [*map(type, cast("list[object]", one))] == [str, str]
        for name, one in entries
    )


def about_statistic(layer: Layer, name: str) -> tuple[str, str]:
    """Return which values of a layer's statistic are better, "higher", "lower" or "", and its unit."""
    if name == "loss" and layer.has_loss:
        return "lower", ""
    return layer.statistics.get(_declared(layer, name), ("", ""))


def statistic_of_classes(layer: Layer, name: str) -> tuple[str, tuple[int, ...]]:
    """Return what the class line calls a layer's statistic, and the classes in its name: "recall_{class}" and (7,).

    There are no classes in the name of a statistic of all records.
    """
    said = _declared(layer, name)
    found = _pattern(said).fullmatch(name) if said else None
    return said, tuple(int(found[place + 1]) for place in range(found.lastindex or 0)) if found else ()


def is_of_class(layers: Mapping[str, Layer], layer: str, name: str) -> bool:
    """Return whether a layer's statistic is of a single class; classes may be thousands."""
    return layer in layers and bool(statistic_of_classes(layers[layer], name)[1])


def overall(layers: Mapping[str, Layer], statistics: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return statistics without those of single classes."""
    return {
        layer: {name: value for name, value in values.items() if not is_of_class(layers, layer, name)}
        for layer, values in statistics.items()
    }


def _declared(layer: Layer, name: str) -> str:
    """Return the name or the pattern on the class line that a layer's statistic has; "" if it has none."""
    said = layer.statistics
    return name if name in said else next((one for one in said if _pattern(one).fullmatch(name)), "")


@cache
def _pattern(declared: str) -> re.Pattern[str]:
    return re.compile(re.escape(declared).replace(r"\*", ".*").replace(r"\{class\}", r"(\d+)"))


def layer_type(cls: type) -> str:
    """Return the name of a layer's class in a net file: `PoolingLayer` is "Pooling"."""
    return cls.__name__.removesuffix("Layer") or cls.__name__


def tops_of(layer: Layer) -> tuple[str, ...]:
    """Return the names of the blobs that a layer writes: its tops, or an in-place layer's bottoms."""
    if layer.is_inplace:
        return tuple(layer.bottoms)
    return () if layer.is_sink else tuple(layer.tops)


def name_from(cls: type[Layer], tops: Sequence[str], bottoms: Sequence[str]) -> str:
    """Return the name of a layer of a class that was given none: its first top, else its type and its first bottom."""
    return tops[0] if tops else "-".join([layer_type(cls), *bottoms[:1]])


def bottoms_of(layer: Layer) -> tuple[str, ...]:
    """Return the names of the blobs that a layer reads."""
    return () if layer.is_source else tuple(layer.bottoms)


def is_wired(layer: Layer) -> bool:
    """Return whether a layer was connected to blobs by name; a source only names its own."""
    blobs = () if layer.is_source else ("bottoms", "tops")
    fields = {field.name: field for field in type(layer).fields() if field.name in blobs}
    return any(
        value is not UNWIRED and (field.required or value != field.convert(field.default))
        for field in fields.values()
        for value in [getattr(layer, field.name)]
    )


def refuse_unwired(layer: Layer, where: str) -> None:
    """Raise a ConfigError if a layer has no bottoms and tops, but stands where layers name their blobs."""
    if layer.unwired:
        fields = [field for field in type(layer).fields() if getattr(layer, field.name) is UNWIRED]
        raise ConfigError(
            "\n".join(f"{where}: {field.name} is missing: {field.doc or field.wants}" for field in fields),
            "in Python a layer without bottoms and tops is called: layer(x), and Net gets what that returns",
        )


def is_container(layer: Layer | type[Layer]) -> bool:
    """Return whether a layer, or one of a class, is made of layers."""
    return (layer if isinstance(layer, type) else type(layer)).expand is not Layer.expand


def is_output(layer: Layer) -> bool:
    """Return whether a layer only writes blobs to the outside world, so that looking at a net does not need it."""
    return layer.is_sink and not (layer.has_loss or layer.has_stats or layer.can_do_bp)


def drops(layer: Layer) -> bool:
    """Return whether a layer only gives a gradient to blobs that nobody wants: it neither judges nor writes them."""
    return layer.is_sink and layer.can_do_bp and not (layer.has_loss or layer.has_stats)


def check_outputs(layers: Iterable[Layer]) -> None:
    """Refuse an output that would replace a file which another layer reads, in any phase.

    Raises:
        ConfigError: names both layers, and the file.
    """
    every = tuple(layers)
    if not (outputs := list(filter(is_output, every))):
        return  # as in most nets, whose files are not looked up then
    readers = {path: layer.name for layer in every if not is_output(layer) for path, _, _ in _paths_of(layer)}
    for layer in outputs:
        for path, field, given in _paths_of(layer):
            if path in readers:
                reader = readers[path]
                raise ConfigError(
                    f"{layer.name}: {field}={given!r}, but layer '{reader}' reads this file", "write to another file"
                )


def _paths_of(layer: Layer) -> Iterator[tuple[str, str, str]]:
    """Yield the files that a layer and its components name: the real path, the field and the field's value."""
    for thing in inside(layer):
        for field in type(thing).fields():
            value: Any = getattr(thing, field.name)
            if field.takes(Paths) or isinstance(value, Place):
                for given in cast("tuple[Any, ...]", value if isinstance(value, list | tuple) else (value,)):
                    if isinstance(given, str):  # None is no path
                        yield os.path.realpath(given), field.name, given


def is_identity(neuron: Neuron) -> bool:
    """Return whether a neuron computes nothing."""
    from .components import Identity

    return type(neuron) is Identity
