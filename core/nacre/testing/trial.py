"""Trial: one layer in a small real net, with sources for its inputs and a probe that computes a loss from its tops."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any, cast

import numpy as np

from ..discovery.kernels import Choice
from ..discovery.offers import Offer, Provenance, make_offer
from ..discovery.registry import registry
from ..engine.ops import Op
from ..engine.parameters import Slot
from ..errors import ContractError, PluginError
from ..fields.types import Names
from ..graph.containers import expand
from ..net.input import InputLayer
from ..net.net import Net
from ..protocols.array import DTYPES
from ..protocols.backend import Backend, Own, open_backend
from ..protocols.communicator import Communicator
from ..protocols.graph import Graph
from ..protocols.layer import PHASES, Layer, Phase, is_container, layer_type, tops_of
from ..protocols.state import LayerState
from ..protocols.view import View, scratches
from ..random import Random
from ..text import with_containers
from .bench import spoil

NAME = "tested"
"""What the layer is called in its net."""


def backends() -> list[str]:
    """Return the names of the backends that can be used on this machine, from any plugin."""
    usable: list[str] = []
    for name in registry().names("backend"):
        try:
            if registry().open("backend", name).unusable() is None:
                usable.append(name)
        except PluginError:
            continue
    return usable


@dataclass(frozen=True)
class Example:
    """One use of a layer: its fields, and what its bottoms hold.

    Args:
        fields: of the layer. `bottoms`, `tops` and `name` are given by the kit where they are not here.
        inputs: for each bottom a shape, as a tuple of whole numbers with the batch first, or an array. Shapes are
            filled with numbers between -2 and 2 of which no two are equal and none is 0. Floating arrays become blobs
            of the net's type, others keep theirs.
        tops: number of tops; by default as many as inputs, as far as the layer can have so many.
        wanted: which inputs have a gradient, by index; by default all floating ones.
        label: for the test's name.
    """

    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: Sequence[Any] = ()
    tops: int = 0
    wanted: Sequence[int] | None = None
    label: str = ""

    def arrays(self) -> list[np.ndarray]:
        """Return the inputs as arrays."""
        return [
            spread_values(cast("tuple[int, ...]", one), seed) if isinstance(one, tuple) else np.asarray(one)
            for seed, one in enumerate(self.inputs)
        ]

    def differentiable(self) -> tuple[int, ...]:
        """Return the indices of the inputs that have a gradient."""
        if self.wanted is not None:
            return tuple(self.wanted)
        shapes = [isinstance(one, tuple) for one in self.inputs]  # which are filled with floating numbers
        return tuple(n for n, one in enumerate(self.inputs) if shapes[n] or np.asarray(one).dtype.kind == "f")

    def of_whole_numbers(self, kind: str, dtype: str = "") -> Example | None:
        """Return the same example with large numbers of a whole type in its floating inputs, given in that of `dtype`.

        Those of uint8 are from 100 up; those of int8 have both signs. Inputs without a fraction stay as they are: they
        may be classes, or masks. None if there are no others.
        """
        low, high = {"bool": (0, 2), "uint8": (100, 256), "int8": (-128, 128)}[kind]
        inputs = self.arrays()
        fractional = [
            index for index, one in enumerate(inputs) if one.dtype.kind == "f" and (one != np.rint(one)).any()
        ]
        for index in fractional:
            drawn = np.random.default_rng(index).integers(low, high, inputs[index].shape)
            inputs[index] = drawn.astype(kind).astype(dtype or kind)
        return replace(self, inputs=inputs, wanted=()) if fractional else None

    def of_few_digits(self) -> Example:
        """Return the same example with the numbers that fill its shapes moved to odd multiples of 1/128.

        These have no more than eight binary digits, so that bf16 has them all.
        """
        inputs = [
            (np.floor(64 * array) + 0.5) / 64 if isinstance(one, tuple) else array
            for one, array in zip(self.inputs, self.arrays(), strict=True)
        ]
        return replace(self, inputs=inputs, wanted=self.differentiable())

    def cut(self, rows: int) -> Example:
        """Return the same example with the first rows of every input only."""
        return replace(self, inputs=[one[:rows] for one in self.arrays()], wanted=self.differentiable())


def spread_values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Fill a shape with numbers between -2 and 2, in random order, as far apart from each other as there is room.

    None of several is their mean: behind a normalisation it would be 0 up to rounding, where ReLU has two slopes.
    """
    return _spread(shape, seed).copy()


@lru_cache(maxsize=64)
def _spread(shape: tuple[int, ...], seed: int) -> np.ndarray:
    count = prod(shape)
    places = np.arange(count) + 0.37
    places[(count + 1) // 2 :] += 0.5
    values = places / count * 4 - 2
    return np.random.default_rng(seed).permutation(values).reshape(shape)


class ThroughLayer(Layer, can_do_bp=True):
    """y = x, in memory of its own: so that what is tested stands above a layer, as in most nets."""

    bottoms: Names
    tops: Names


class ThroughState(LayerState, of=ThroughLayer, reads=""):
    """The state of `ThroughLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(one.shape, one.dtype) for one in inputs]

    def forward(self, inputs: list[Any]) -> None:
        for x, y in zip(inputs, self.blobs, strict=True):
            self.backend.xp.copyto(y, x)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for dy, dx in zip(self.blobs_diff, diffs, strict=True):
            if dx is not None:
                self.backend.xp.copyto(dx, dy)


class ProbeLayer(Layer, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = Σ bottoms · weights, with fixed random weights: a linear function that sees every number.

    As every loss it leaves out the rows that do not count, in bottoms with one of these numbers of rows.
    """

    bottoms: Names
    batches: Any = ()


class ProbeState(LayerState, of=ProbeLayer, reads=""):
    """The state of `ProbeLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.shapes = [tuple(one.shape) for one in inputs]
        self.loss: Any = 0.0

    def ready(self) -> None:
        self.weights = [self.backend.empty(shape) for shape in self.shapes]
        for weight, host in zip(self.weights, _probe_weights(*self.shapes), strict=True):
            self.backend.backend.from_host(host.astype(self.backend.dtype), weight)

    def forward(self, inputs: list[Any]) -> None:
        xp = self.backend.xp
        rows = [self._rows(x) for x in inputs]
        pairs = zip(inputs, self.weights, rows, strict=True)
        self.loss = sum(xp.sum(x[:count] * weight[:count], dtype="float64") for x, weight, count in pairs)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for weight, dx in zip(self.weights, diffs, strict=True):
            if dx is not None:
                self.backend.xp.copyto(dx, weight)
                dx[self._rows(dx) :] = 0

    def _rows(self, blob: Any) -> int:
        """Return how many rows of a blob count."""
        return self.backend.rows if blob.shape[0] in self.layer.batches else blob.shape[0]


@lru_cache(maxsize=64)
def _probe_weights(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return the weights of a probe that reads blobs of these shapes: the same in all trials, also of fewer rows.

    They are between 0.5 and 1.5, of both signs.
    """
    drawn = [np.random.default_rng([1, place]).uniform(-1, 1, shape) for place, shape in enumerate(shapes)]
    return [one + np.copysign(0.5, one) for one in drawn]


# Which kernel serves


@contextmanager
def _choosing(choose: Callable[..., Choice]) -> Generator[None]:
    """Use `choose(usual, cls, kind, lineage, accept, *settled)` instead of the registry's, in the block."""
    attributes = vars(registry())
    before, usual = attributes.get("choose"), registry().choose

    def answer(cls: type, kind: str, lineage: Sequence[str], accept: Any = None, *settled: Any) -> Choice:
        return choose(usual, cls, kind, lineage, accept, *settled)

    attributes["choose"] = answer
    try:
        yield
    finally:
        if before is None:
            del attributes["choose"]
        else:
            attributes["choose"] = before


def _decline(kernel: object, offer: object) -> str:
    return "kernels are switched off for a test"


@contextmanager
def without_kernels(*classes: type) -> Generator[None]:
    """Make nets in the block without kernels for these classes of layers and components; without classes, for all."""

    def choose(usual: Any, cls: type, kind: str, lineage: Any, accept: Any, *settled: Any) -> Choice:
        if classes and cls not in classes:
            return usual(cls, kind, lineage, accept, *settled)
        return usual(cls, kind, lineage, _decline)

    with _choosing(choose):
        yield


@contextmanager
def with_kernel(tested: type, kernel: type, backend: str) -> Generator[None]:
    """Make nets in the block with this kernel of `backend` for `tested`, offered or not, unless the kernel declines."""

    def choose(usual: Any, cls: type, kind: str, lineage: Any, accept: Any, *settled: Any) -> Choice:
        if cls is not tested or backend not in lineage:
            return usual(cls, kind, lineage, accept, *settled)
        provenance = Provenance("tested", "", "", True, kernel.__module__)
        offer = make_offer("kernel", f"{layer_type(cls)}@{backend}", kernel, provenance)
        if reason := accept(kernel, offer) if accept else None:
            return Choice(layer_type(cls), backend, "the kernel declines", declined=[(offer, reason)])
        return Choice(layer_type(cls), backend, "a test chose it", kernel, offer)

    with _choosing(choose):
        yield


def offered_kernels(tested: type, kind: str, backend: str) -> list[tuple[type, str]]:
    """Return the kernels that can be opened for a class on a backend, each with its backend of the lineage."""
    found: list[tuple[type, str]] = []

    def note(kernel: type, offer: Offer) -> str:
        found.append((kernel, offer.name.rpartition("@")[2]))
        return "only listed"

    every = {offer.distribution for offer in registry().offers("kernel")}
    registry().choose(tested, kind, open_backend(backend).lineage or (backend,), note, kernels=every)
    return found


# The trial


class Trial:
    """A layer in a net of its own: `source0 -> bottom0 -> tested -> top0 -> probe`, with the values of `parameters`.

    Args:
        make: returns a new layer.
        example: the inputs.
        backend, phase, seed, keep, allocate: of the net.
        dtype: of the net; or a narrower one, in which a net of float32 computes.
        wanted: indices of the inputs whose gradients are computed; by default the example's.
        parameters: returns a parameter's value, from its name in the layer and the parameter.
        probe: whether a loss is computed from the tops.
        above: whether layers stand between the tops and the probe, so that the net has memory to share.
        beside: other layers of the net, such as one whose parameter the tested layer uses.
        kernel: (kernel, its backend); by default the layer's own state.
        communicator: connects the ranks among which the layer is divided; the other layers are on the first.
    """

    def __init__(
        self,
        make: Callable[[Example], Layer],
        example: Example,
        *,
        backend: str | Backend,
        dtype: str,
        parameters: Callable[[str, Any], np.ndarray | None] | None = None,
        wanted: Sequence[int] | None = None,
        phase: Phase = "train",
        seed: int = 0,
        keep: str | Sequence[str] = (),
        probe: bool = True,
        above: bool = False,
        beside: Sequence[Layer] = (),
        kernel: tuple[type, str] | None = None,
        allocate: bool = True,
        communicator: Communicator | None = None,
    ) -> None:
        self.layer = make(example)
        plain = dtype if dtype in DTYPES else "float32"
        self.arrays = [one.astype(plain) if one.dtype.kind == "f" else one for one in example.arrays()]
        without = {self.layer.bottoms.index(name) for name in self.layer.bottoms_without_gradient()}
        self.wanted = tuple(
            one for one in (example.differentiable() if wanted is None else wanted) if one not in without
        )
        cls = type(self.layer)
        layers: list[Layer] = [*beside]
        for index, array in enumerate(self.arrays):
            source, bottom = f"source{index}", self.layer.bottoms[index]
            kind = "" if array.dtype.kind == "f" else str(array.dtype)
            layers += [
                InputLayer(name=source, tops=[source], shape=array.shape[1:], batch_size=array.shape[0], dtype=kind),
                ThroughLayer(name=f"through{index}", bottoms=[source], tops=[bottom]),
            ]
        layers.append(self.layer)
        self.tops = tops_of(self.layer)
        seen = self.tops
        for storey in range(2 if above and self.tops else 0):
            higher = tuple(f"above{storey}-{index}" for index in range(len(seen)))
            layers += [ThroughLayer(bottoms=below, tops=top) for below, top in zip(seen, higher, strict=True)]
            seen = higher
        if probe and seen:
            layers.append(ProbeLayer(name="probe", bottoms=seen, batches=[len(one) for one in self.arrays]))
        classes = {cls}
        if is_container(cls):
            classes |= {type(node.user) for phase in PHASES for node in expand(Graph.of([self.layer]), phase).nodes}
        with with_kernel(cls, *kernel) if kernel else without_kernels(*classes):
            self.net = Net(
                f"test of {layer_type(cls)}",
                layers,
                backend=backend,
                dtype=plain,
                compute=dtype,
                phase=phase,
                seed=seed,
                keep=keep if keep == "all" else (*keep, *self.tops),
                input_gradients=[f"source{index}" for index in self.wanted],
                allocate=allocate,
                communicator=communicator,
                partition_dim=0 if communicator is None else "whole",
            )
        self.ops = [op for name, op in self.net.node_ops.items() if self.layer.name in with_containers(name)]
        if parameters is not None and allocate:
            for name, handle in self._parameters():
                value = parameters(name, handle.parameter)
                if value is not None:
                    handle.value = value

    @property
    def op(self) -> Op:
        """The op of the layer; a container has `ops`."""
        return self.ops[0]

    @property
    def computing(self) -> Op:
        """The op that computes the layer: its own, or one that computes it with its neuron or other layers."""
        return next(op for op in self.net.ops if any(member is self.op for member in op.members))

    def _parameters(self) -> list[tuple[str, Any]]:
        own = f"{self.layer.name}/"
        return [
            (name.removeprefix(own) if name.startswith(own) else name.rpartition("/")[2], handle)
            for name, handle in self.net.parameters.items()
        ]

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the values of the parameters and buffers, by their names in the layer."""
        return {name: handle.value for name, handle in self._parameters()}

    def parameter(self, name: str) -> Any:
        """Return the handle of a parameter by its name in the layer."""
        return dict(self._parameters())[name]

    def set_parameter(self, name: str, value: Any) -> None:
        self.parameter(name).value = value

    def random(self) -> Random:
        """Return the random numbers that the layer draws in the net's present step."""
        return Random(self.net.seed, self.layer.name, lambda: int(self.net.scalars["step"]))

    def forward(self, arrays: Sequence[np.ndarray] | None = None) -> float:
        """Write the inputs, which may have fewer rows, and run forward; return the loss."""
        for index, array in enumerate(self.arrays if arrays is None else arrays):
            if f"source{index}" in self.net.memory.final:  # on another rank than the first there is none
                self.net.write(f"source{index}", array)
        return self.net.forward()

    def results(self) -> list[np.ndarray]:
        """Return what the last forward pass left in the tops, or in this rank's part of them."""
        if self.net.division is not None:
            return [self.net.blob(value.name) for value in self.op.outputs]
        return [self.net.blob(name) for name in self.tops]

    def loss(self) -> float:
        """Return the layer's own loss."""
        return self.net.losses()[self.layer.name]

    def probe_weights(self) -> list[np.ndarray]:
        """Return the weights of the probe, which are the gradients of what it sees: none without tops."""
        if not self.tops:
            return []
        state = self.net.node_ops["probe"].state
        assert isinstance(state, ProbeState)
        return [self.net.backend.to_host(weight) for weight in state.weights]

    def gradients(self) -> dict[str, np.ndarray]:
        """Run backward; return the gradients of the wanted inputs ("input 0") and of the parameters, by name."""
        self.net.backward()
        here = [index for index in self.wanted if f"source{index}" in self.net.memory.final]
        inputs = {f"input {index}": self.net.gradient(f"source{index}") for index in here}
        return {**inputs, **self._parameter_gradients()}

    def _parameter_gradients(self) -> dict[str, np.ndarray]:
        return {name: handle.gradient for name, handle in self._parameters() if handle.gradient is not None}

    @property
    def differentiates(self) -> bool:
        """Whether there is any gradient to compute."""
        trainable = any(handle.parameter.trainable for _, handle in self._parameters())
        return any(op.backward for op in self.ops) and (bool(self.wanted) or trainable)

    def slots(self) -> list[Slot]:
        """Return the memory of the layer's parameters and buffers."""
        return [slot for slot in self.net.slots if slot.name.startswith(f"{self.layer.name}/")]

    def memories(self) -> list[Any]:
        """Return the arrays in which the blobs of all layers but sources lie now, and their gradients."""
        ops = [op for op in self.net.ops if not op.is_source]
        given = [(op.input_arrays, op.diff_arrays, op.state.blobs, op.state.blobs_diff) for op in ops]
        every = [array for lists in given for arrays in lists for array in arrays if array is not None]
        return [array.memory if isinstance(array, Own) else array for array in every]

    def spoil(self, *lists: Iterable[Any]) -> None:
        """Fill arrays of the layer with NaN (whole numbers with 77), so that reading or adding to them shows."""
        for arrays in lists:
            self.fill(arrays, np.nan)

    def spoil_scratch(self) -> None:
        """Fill what states share as scratch memory with NaN, whole numbers with 77."""
        for view in self.net.target.views.values():
            self.spoil(scratches(view))

    def fill(self, arrays: Iterable[Any], number: float) -> None:
        """Fill arrays of the layer with a number, whole numbers with 77."""
        spoil(self.op.backend, arrays, number)

    def shutdown(self) -> None:
        self.net.shutdown()


def layer_of(cls: type[Layer], example: Example) -> Layer:
    """Return the layer of an example, with names for blobs that the example does not name."""
    given: dict[str, Any] = {"name": NAME}
    if not cls.is_source:
        given["bottoms"] = [f"bottom{index}" for index in range(len(example.inputs))]
    elif example.inputs:
        raise ContractError(f"{cls.__name__} is a source, so an example of it must not have inputs")
    if not (cls.is_sink or cls.is_inplace):
        given["tops"] = [f"top{index}" for index in range(example.tops or _tops(cls, max(1, len(example.inputs))))]
    return cls(**{**given, **example.fields})


def _tops(cls: type[Layer], count: int) -> int:
    """Return the number of tops that a layer can have which comes nearest to `count`."""
    for known in cls.fields():
        for check in known.checks if known.name == "tops" else ():
            count = max(check.least, count if check.most is None else min(count, check.most))
    return count
