"""The values in a net's memory, their groups and spaces, and the ops that read and write them.

The words: an `Op` is one state in the schedule (a layer's, or a neuron's). A `Value` is one version of a blob, or of
its gradient. A `Group` is a set of values in one memory. A `Space` is a kind of memory: ("own", backend) are a
backend's own blobs, ("plain", backend) its plain arrays, and ("host", "") NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, prod
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from ..discovery.blame import blaming, wrong
from ..discovery.kernels import Choice
from ..errors import ConfigError, ContractError, NacreError, PluginError, brief, put_full_name
from ..protocols.array import Array
from ..protocols.backend import Backend, Own
from ..protocols.blob import Blob
from ..protocols.components import Neuron
from ..protocols.graph import Node
from ..protocols.layer import is_identity
from ..protocols.parameter import Parameter
from ..protocols.part import Box
from ..protocols.state import LayerState, SourceState
from ..protocols.view import bytes_made

Space = tuple[str, str]
Result = TypeVar("Result")


HOST: Space = ("host", "")
HELD = ("blobs", "blobs_diff", "intermediates", "parameters")
"""The attributes of a state that hold the net's own objects."""


class Fixed(tuple[Any, ...]):
    """The arrays that a state gets from its net: they are written to, and none is put into another's place.

    `called` is the name under which the state has them.
    """

    called: str

    @classmethod
    def of(cls, called: str, entries: Iterable[Any]) -> Fixed:
        made = cls(entries)
        made.called = called
        return made

    def _stay(self, *_: object) -> NoReturn:
        message = f"{self.called} cannot have more or fewer entries: from ready() on, its arrays are the net's"
        raise ContractError(message, "declare blobs and parameters in __init__")

    def _refuse(self, key: object, *_: object) -> NoReturn:
        one = f"{self.called}[{key!r}]" if isinstance(key, int) else f"{self.called}[...]"
        raise ContractError(
            f"{one} = ... would put another array into the place of the net's, which the other layers use",
            f"write into the array: {one}[...] = ...",
        )

    if not TYPE_CHECKING:
        __setitem__ = _refuse
        __delitem__ = __iadd__ = append = extend = insert = pop = clear = remove = _stay


class Group:
    """Values in one memory; `first` is the time of their first write, `last` that of their last read."""

    def __init__(self, value: Value) -> None:
        self.members = [value]
        self.first, self.last, self.pinned = inf, -inf, False
        self.spaces: set[Space] = set()
        self.fixed: Array | None = None
        self.arrays: dict[Space, Array] = {}
        self.own: dict[tuple[str, tuple[int, ...]], Own] = {}

    def mark_shared(self) -> None:
        """Note that the memory is used for other values at other times."""
        for value in self.members:
            value.shared = True

    def join(self, other: Group) -> None:
        """Add the members of another group to this one."""
        if other is self:
            return
        self.spaces |= other.spaces
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.pinned |= other.pinned
        for value in other.members:
            value.group = self
        self.members += other.members
        if other.fixed is not None:
            self.fixed = other.fixed


class Value:
    """One version of a blob, or of its gradient."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, space: Space) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.space = space
        self.pinned = False
        self.group = Group(self)
        self.gradient: Value | None = None
        self.blob: Any = None
        self.fed_by: SourceState | None = None  # whose records the rows are, as far as is known
        self.box: Box | None = None  # which part of the whole net's blob it is, if that is divided
        self.shared = False

    def declared(self) -> Blob:
        """Return the value as a state sees it in `setup`."""
        blob = Blob(self.shape, self.dtype)
        blob.fed_by = self.fed_by
        blob.box = self.box
        return blob

    def write_at(self, time: float) -> None:
        """Note that the value is written at a time of the pass."""
        self.group.first = min(self.group.first, time)
        self.read_at(time)

    def read_at(self, time: float) -> None:
        """Note that the value is needed until a time of the pass."""
        self.group.last = max(self.group.last, time)

    def pin(self) -> None:
        """Keep the value's memory for it alone, from pass to pass."""
        self.pinned = self.group.pinned = True


class Op:
    """One state in the schedule, with the values that it reads and writes."""

    def __init__(
        self,
        node: Node,
        name: str,
        state: LayerState,
        backend: Backend,
        choice: Choice,
        inputs: list[Value],
        input_arrays: list[Any],
        diff_arrays: list[Any],
    ) -> None:
        self.node = node
        self.name = name
        self.layer = node.user  # even if a rewrite has replaced it
        self.neuron: Neuron | None = None  # set if this is the op of a neuron, after a top of the layer
        self.state = state
        self.backend = backend
        self.choice = choice
        self.inputs = inputs
        self.input_arrays = input_arrays  # the lists that the state was made with, and may have kept
        self.diff_arrays = diff_arrays
        self.given: Any = ()  # what its methods get, each a `Fixed`
        self.given_diffs: Any = ()
        self.held: dict[str, Fixed] = {}  # its attributes that belong to the net
        self.learned: list[tuple[Parameter, Array, Array]] = []  # its parameters, with their values and gradients
        for attribute in HELD:  # a state may have declared them in tuples, but they are filled in place
            if isinstance(entries := getattr(state, attribute, None), tuple):
                setattr(state, attribute, list(cast("tuple[Any, ...]", entries)))
        self.input_diffs: list[Value | None] = [None] * len(inputs)
        self.outputs: list[Value] = []
        self.output_diffs: list[Value | None] = []
        self.intermediates: list[Value] = []
        self.components: list[tuple[Any, Choice]] = []  # those for which the state has asked for kernels
        self.made = 0  # bytes of the arrays that the state has made in `ready`
        self.aliases: list[tuple[int, Value]] = []  # (index of the input, the top that is its alias)
        self.in_place = self.is_source = self.backward = False
        self.members = [self]  # itself, or the ops that it does the work of, in order
        self.without_gradient = node.without_gradient  # the indices of the inputs that have none

    def fix(self) -> None:
        """Hand the state its arrays, which have memory now, and which it cannot replace."""
        state = self.state
        self.given, self.given_diffs = Fixed.of("inputs", self.input_arrays), Fixed.of("diffs", self.diff_arrays)
        self.held = {name: Fixed.of(f"self.{name}", getattr(state, name)) for name in HELD}
        for name, entries in self.held.items():
            setattr(state, name, entries)

    def release(self) -> None:
        """Take back what `fix` has handed out: the state gets other arrays."""
        for name, entries in self.held.items():
            setattr(self.state, name, list(entries))

    def replaced(self) -> str:
        """Return which of the net's objects the state has replaced by its own, such as "self.blobs"; "" if none."""
        for name, entries in self.held.items():
            if getattr(self.state, name, None) is not entries:
                return f"self.{name}"
        for parameter, value, gradient in self.learned:
            if parameter.blob is not value:
                return f"the blob of parameter '{parameter.name}'"
            if parameter.gradient is not gradient:
                return f"the gradient of parameter '{parameter.name}'"
        return ""

    def ready(self) -> None:
        """Tell the state that its arrays have memory."""
        self.learned = [(one, one.blob, one.gradient) for one in self.state.parameters]
        before = bytes_made(self.state.backend)
        with blaming(self.state):
            call_named(self.node, self.state.ready)
        self.made = bytes_made(self.state.backend) - before

    @property
    def kernel(self) -> bool:
        """Whether the state is a kernel, not the layer's own state."""
        return self.choice.kernel is not None

    @property
    def on_elements(self) -> bool:
        """Whether the state may run on the elements of own blobs, in any order."""
        narrow = self.state.backend.compute != self.state.backend.dtype
        return (
            not (self.kernel or narrow) and getattr(type(self.state), "elementwise", False) and self.backend.elementwise
        )

    def own_dtype(self, value: Value) -> str:
        """Return the type of the numbers in the own blob that this op uses for a value."""
        view = self.state.backend
        return view.compute if value.dtype == view.dtype else value.dtype

    def space(self, value: Value) -> Space:
        """Return the kind of memory in which this op needs a value."""
        backend, own = self.backend, ("own", self.backend.name)
        below = bool(self.inputs) and self.inputs[0].space == own
        if self.kernel and not self.state.on_plain:
            takes_own = backend.gives_own(self.state, value.shape, self.own_dtype(value), below=below)
        else:
            takes_own = below and self.on_elements
        return own if takes_own else self.plain

    @property
    def plain(self) -> Space:
        """The kind of memory of its plain arrays."""
        return plain_space(self.backend, host_only=type(self.state).host_only and not self.kernel)


def intermediates(op: Op) -> list[Value]:
    """Return the values of what an op's state keeps from forward to backward."""
    return [
        Value(f"{op.name}: {number}", one.shape, one.dtype, op.plain)
        for number, one in enumerate(op.state.intermediates)
    ]


def members(ops: Iterable[Op]) -> list[Op]:
    """Return the ops of all layers and neurons, also those whose work another one does."""
    return [member for op in ops for member in op.members]


def returned(thing: object, method: str, result: object, arrays: str) -> PluginError:
    """Return the error for a method that returned its result instead of writing it into `arrays`."""
    what = f"an array of shape {tuple(shape)}" if (shape := getattr(result, "shape", None)) else brief(result)
    reason = f"{method} returned {what}, but it must return nothing, and write into {arrays}"
    return wrong(thing, reason, f"write {arrays}[...] = ...")


def call_named(node: Node, call: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function of a node's layer; if it is in a container, an error gets the layer's full name."""
    try:
        return call(*arguments)
    except NacreError as error:
        if node.inside is not None:
            put_full_name(error, node.user.name, node.name)
        if isinstance(error, ConfigError) and not error.remedy and "bottom" in str(error):
            error.remedy = _order_of_bottoms(node)
        raise


def _order_of_bottoms(node: Node) -> str:
    """Return which bottoms a loss or a metric reads, and which it has: they may be swapped."""
    if not (node.layer.has_loss or node.layer.has_stats) or len(node.bottoms) < 2:
        return ""
    field = next(field for field in type(node.layer).fields() if field.name == "bottoms")
    names = " and ".join(f"'{name}'" for name in node.bottoms)
    return f"it reads {field.doc}, in this order; here {names}"


def plain_space(backend: Backend, *, host_only: bool = False) -> Space:
    """Return the space of a backend's plain arrays."""
    return HOST if backend.on_host or host_only else ("plain", backend.name)


def space_text(space: Space) -> str:
    """Return what a space is called in a sentence: "numpy's own blobs"."""
    kind, backend = space
    return "the host's arrays" if kind == "host" else f"{backend}'s {'own blobs' if kind == 'own' else 'plain arrays'}"


def value_bytes(value: Value) -> int:
    """Return the bytes of a plain array of a value."""
    return prod(value.shape) * item_size(value.dtype)


def item_size(dtype: str) -> int:
    """Return the bytes of one number of a type."""
    import numpy as np

    return np.dtype(dtype).itemsize


def working(ops: Iterable[Op]) -> dict[str, tuple[Any, Choice | None]]:
    """Return the layers and neurons of ops, each with its kernel choice; a neuron may have its layer's."""
    found: dict[str, tuple[Any, Choice | None]] = {}
    for op in members(ops):
        if op.neuron is not None:
            found[f"neuron.{op.name.rpartition('/')[0]}"] = (op.neuron, op.choice)
            continue
        found[f"layer.{op.name}"] = (op.layer, op.choice)
        for component, choice in op.components:
            name, number = f"{component.nacre_kind}.{op.name}", 2
            while name in found:
                name, number = f"{component.nacre_kind}.{op.name}.{number}", number + 1
            found[name] = component, choice
        layer = op.state.layer  # after a rewrite
        if op.kernel and layer.has_neuron and not is_identity(layer.neuron) and op.state.fuses_neuron(layer.neuron):
            found[f"neuron.{op.name}"] = (layer.neuron, op.choice)
    return found
