"""The memory of parameters: which layers share them, in which arena they are, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from ..discovery.blame import wrong
from ..errors import ConfigError, ContractError, SnapshotError, TopologyError, brief, nearest
from ..protocols.array import Array
from ..protocols.backend import ALIGNMENT, Backend, HostMemory, Own, Step, wrapped
from ..protocols.graph import Node
from ..protocols.layer import Layer
from ..protocols.parameter import Parameter, Placed, Storage
from ..protocols.part import FEATURES, NONE, Cut, Part, part_of
from ..random import Random
from ..text import with_containers
from .ops import Op, item_size, members
from .target import Target


class Use(NamedTuple):
    """One layer's use of a parameter, by a `name` of its own: `op` is the layer's, `order` its index among the ops."""

    parameter: Parameter
    op: Op
    order: int
    name: str


@dataclass
class Slot:
    """One parameter of a net: its memory, where its gradient is `placed`, and all `uses` of it.

    The first use in the net's order determines name, layer, initialiser, rates, regulariser and constraint. `first` is
    the parameter whose layer runs backward first; `parts` holds the temporary gradients of the other sharers, which are
    added to `gradient` right after their backward, so that all use one memory. `on_host` holds the device's gradient
    arrays for states that need NumPy arrays; their values and gradients are copied in each pass.
    """

    name: str
    layer: str
    storage: Storage
    order: int
    uses: list[Use]
    placed: Placed | None = None
    first: Parameter | None = None
    parts: dict[Parameter, Array] = field(default_factory=dict[Parameter, Array])
    on_host: dict[Parameter, Array] = field(default_factory=dict[Parameter, Array])
    frozen: bool = False
    withheld: dict[Parameter, Array] = field(default_factory=dict[Parameter, Array])

    @property
    def everywhere(self) -> bool:
        """Whether every rank of a divided net has this parameter, so that the ranks' gradients are added up."""
        part = self.uses[0].op.node.part
        return part is None or (part.dim != NONE and self.storage.cut is None)

    @property
    def parameters(self) -> list[Parameter]:
        return [use.parameter for use in self.uses]

    @property
    def trainable(self) -> bool:
        return self.uses[0].parameter.trainable

    @property
    def gradient(self) -> Array | None:
        return None if self.placed is None else self.placed.array

    def names(self) -> list[str]:
        """Return its names in all layers that use it, except layers that are tied to it."""
        return list(dict.fromkeys(use.name for use in self.uses if not use.parameter.tied))

    def former_names(self) -> list[str]:
        """Return the names that it had before layers renamed it, as they stand in old snapshots and old code."""
        found: list[str] = []
        for use in self.uses:
            own = use.parameter.name
            if not use.parameter.tied and use.name.endswith(own):
                renamed = type(use.op.node.layer).nacre_renamed.items()
                found += [use.name.removesuffix(own) + old for old, new in renamed if new == own]
        return list(dict.fromkeys(found))

    def freeze(self, frozen: bool) -> None:
        """Remove the gradients from the layers, or restore them."""
        if frozen and not self.frozen:
            self.withheld = {one: one.gradient for one in self.parameters}
            for parameter in self.parameters:
                parameter.gradient = None
        elif self.frozen and not frozen:
            for parameter, gradient in self.withheld.items():
                parameter.gradient = gradient
        self.frozen = frozen
        for parameter in self.parameters:
            parameter.frozen = frozen

    def fetch(self, parameter: Parameter, backend: Backend) -> None:
        """Copy the value to a state that needs NumPy arrays."""
        array = self.storage.array
        parameter.blob[...] = backend.to_host(array.T if parameter.transposed else array)

    def keep(self, parameter: Parameter, backend: Backend) -> None:
        """Copy a buffer, which a state on the host has changed, to the device."""
        backend.from_host(parameter.blob, self.storage.array)

    def give_back(self, parameter: Parameter, backend: Backend) -> None:
        """Copy the gradient of a state that needs NumPy arrays to the device."""
        assert parameter.gradient is not None
        backend.from_host(parameter.gradient, self.on_host[parameter])

    def add_step(self, parameter: Parameter, backend: Backend, own: Backend | None) -> Step:
        """Return the step that adds a sharer's part to the gradient; for the first that runs backward it copies.

        `own` is the backend of the kernel that wrote the part, or None if it was the layer's own state.
        """
        part, total, first = self.parts[parameter], self.gradient, parameter is self.first
        if own is not None and own.elementwise and not parameter.transposed:
            one, other = as_own(own, part), as_own(own, total)
            return Step("accumulate", self.name, lambda: own.add(one, other, first=first), own, None, "add")
        part, owner = part.T if parameter.transposed else part, backend if backend.captures else None
        if first:
            return Step("accumulate", self.name, lambda: backend.xp.copyto(total, part), owner)
        return Step("accumulate", self.name, lambda: backend.xp.add(total, part, out=total), owner)


def as_own(backend: Backend, array: Array) -> Own:
    """Return a plain array as a blob of a backend that is `elementwise`."""
    blob = backend.own(tuple(array.shape), str(array.dtype))
    blob.layout, blob.memory = "plain", array
    return blob


def backward_order(slot: Slot) -> list[Use]:
    """Return the uses that have a gradient, in the order in which they run backward."""
    return sorted((use for use in slot.uses if use.op.backward), key=lambda use: -use.order)


def place_parameters(
    target: Target,
    ops: Sequence[Op],
    given: Mapping[str, Storage],
    *,
    trains: bool,
    initialise: bool = True,
    allocate: bool = True,
) -> list[Slot]:
    """Return a net's parameters as slots with memory, in the order in which backward completes the gradients.

    `given` is the memory of another net's parameters; parameters of the same names use it.

    Raises:
        TopologyError: sharers differ in shape or type, or a layer is tied to a parameter that does not exist.
    """
    backend = target.backend
    slots = _slots(target, ops, given)
    _tie(ops, slots)
    ordered = sorted(slots, key=lambda slot: (not slot.everywhere, -slot.order))  # those of all ranks lie together
    if not allocate:
        return ordered
    fresh = [slot for slot in ordered if slot.storage.placed is None]
    for slot, placed in _lay_out(target, [slot for slot in fresh if slot.trainable]):
        slot.storage.placed = placed
    for slot in fresh:
        if not slot.trainable:
            slot.storage.placed = Placed(backend.empty(slot.storage.shape, slot.storage.dtype))
        if initialise:  # on the same threads as a pass, because a library's products may have other bits on others
            wrapped(backend, partial(_initialise, target, slot))()
    if trains:
        for slot, placed in _lay_out(target, [slot for slot in ordered if slot.trainable and backward_order(slot)]):
            slot.placed = placed
    for slot in slots:
        _hand_out(target, slot)
    for op in members(ops):
        for parameter in op.state.parameters:
            if not parameter.tied and parameter.storage is not None:
                kept = backend.parameters.setdefault(op.layer.origin, {})
                kept.setdefault(parameter.name, parameter.storage)
    return ordered


def initialise(target: Target, slots: Iterable[Slot], seed: int | None = None) -> None:
    """Give parameters their first values again, or those of another seed."""
    if seed is not None:
        target = replace(target, seed=seed)
    for slot in slots:
        wrapped(target.backend, partial(_initialise, target, slot))()
        slot.storage.version += 1


def _slots(target: Target, ops: Sequence[Op], given: Mapping[str, Storage]) -> list[Slot]:
    """Return one slot for each parameter; layers that share it have one slot together.

    Its memory is that in `given`, else that of one of the layers in another net, else new.
    """
    groups: dict[str, list[Use]] = {}
    keys: dict[Layer, str] = {}
    for order, op in enumerate(members(ops)):
        key, owner = keys.setdefault(op.layer.origin, op.node.key), op.node.owner
        for parameter in op.state.parameters:
            if not parameter.tied:
                groups.setdefault(f"{key}/{parameter.name}", []).append(
                    Use(parameter, op, order, f"{owner}/{parameter.name}")
                )
    slots: list[Slot] = []
    for uses in groups.values():
        names = list(dict.fromkeys(use.name for use in uses))
        cut = _cut(uses[0], target.whole)
        kept = [one for one in _kept(target.backend, uses) if one.cut == cut]  # a part and a whole are two
        shared = [given[name] for name in names if name in given][:1] or kept
        storage = shared[0] if shared else Storage(names[0], uses[0].parameter.shape, target.dtype, cut)
        if any(one is not storage for one in shared):
            raise TopologyError(
                f"parameters {' and '.join(names)} should be shared, but in other nets each layer has its own",
                "make new layers, or give them one param_key in the first net already",
            )
        for use in uses:
            parameter, op, _, name = use
            if storage.dtype != target.dtype and storage.name == name:
                raise TopologyError(
                    f"layer '{op.name}' has {storage.dtype} parameters from another net, "
                    f"but this net computes in {target.dtype}",
                    "use a copy of the layer in this net: dataclasses.replace(layer)",
                )
            if (storage.shape, storage.dtype, storage.cut) != (parameter.shape, target.dtype, cut):
                raise TopologyError(
                    f"parameter '{name}' has the shape {parameter.shape} and type {target.dtype}, but "
                    f"'{storage.name}', with which it is shared, has {storage.shape} and {storage.dtype}",
                    "give the layers the same sizes, or let them not share parameters",
                )
            parameter.storage = storage
        slots.append(Slot(names[0], uses[0].op.node.owner, storage, len(slots), uses))
    return slots


def _cut(use: Use, whole: Mapping[str, tuple[int, ...]]) -> Cut | None:
    """Return which part of a parameter of the whole net a layer has that is cut along its features; None for all.

    Raises:
        ContractError: the part's shape is no part of the whole's.
        ConfigError: the parameter has a constraint that needs all of it.
    """
    parameter, node = use.parameter, use.op.node
    part, full = node.part, whole.get(use.name)
    if part is None or part.dim != FEATURES or full is None or full == parameter.shape:
        return None
    axes = [axis for axis, (one, other) in enumerate(zip(full, parameter.shape, strict=False)) if one != other]
    blocks, fits = parameter.blocks, len(axes) == 1 and len(full) == len(parameter.shape)
    cut = Cut(full, axes[0], *_ends(part, full[axes[0]] // blocks), blocks) if fits else None
    if cut is None or blocks * (cut.stop - cut.start) != parameter.shape[cut.axis] or full[cut.axis] % blocks:
        raise ContractError(
            f"{node.name}: part {part.number} of {part.count} has the parameter '{parameter.name}' of shape "
            f"{parameter.shape}, which is no part of the whole's {full} along one axis"
        )
    if parameter.cons is not None and not parameter.cons.divides(full, cut.axis):
        raise ConfigError(
            f"{node.name}: the constraint {parameter.cons!r} of '{parameter.name}' needs all of it, but the layer is "
            f"cut along its features (partition_dim=1)",
            "leave the constraint out, or set partition_dim to 0 or -1",
        )
    return cut


def _ends(part: Part, length: int) -> tuple[int, int]:
    """Return where a part of a parameter begins and ends: where its layer's features do, else where even parts do."""
    if length % part.length == 0:
        return part.start * (length // part.length), part.stop * (length // part.length)
    return part_of(length, part.number, part.count)


def _kept(backend: Backend, uses: Iterable[Use]) -> list[Storage]:
    """Return the memory of the layers' parameters in other nets."""
    kept = [backend.parameters.get(use.op.layer.origin, {}).get(use.parameter.name) for use in uses]
    return [storage for storage in kept if storage is not None]


def names_of(slots: Iterable[Slot]) -> dict[str, Slot]:
    """Return the slots by the names of their parameters in each of the layers that share them."""
    return {name: slot for slot in slots for name in slot.names()}


def owned_nodes(slots: Iterable[Slot]) -> list[tuple[str, Node]]:
    """Return the nodes that have parameters, each behind the layer that these are named after."""
    return [(slot.layer, use.op.node) for slot in slots for use in slot.uses if not use.parameter.tied]


def owners_of(names: Collection[str], owned: Iterable[tuple[str, Node]]) -> set[str]:
    """Return the layers that the parameters of these layers and containers are named after, of `owned_nodes`."""
    wanted = set(names)
    return {
        owner
        for owner, node in owned
        if not wanted.isdisjoint([*with_containers(node.name), *with_containers(node.owner)])
    }


def _tie(ops: Sequence[Op], slots: Sequence[Slot]) -> None:
    by_name = {name: slot for slot in slots for name in slot.former_names()} | names_of(slots)
    for order, op in enumerate(members(ops)):
        for parameter in op.state.parameters:
            if not parameter.tied:
                continue
            parameter.tied = next((one for one in _meanings(op, parameter.tied) if one in by_name), parameter.tied)
            slot = by_name.get(parameter.tied)
            if slot is None:
                raise TopologyError(
                    f"layer '{op.name}' is tied to parameter '{parameter.tied}', but the net has no such parameter"
                    f"{nearest(parameter.tied, by_name)}"
                )
            wanted = parameter.shape[::-1] if parameter.transposed else parameter.shape
            if slot.storage.shape != wanted:
                raise TopologyError(
                    f"layer '{op.name}' is tied to '{slot.name}' of shape {slot.storage.shape}, but needs {wanted}"
                )
            slot.uses.append(Use(parameter, op, order, f"{op.node.owner}/{parameter.name}"))
            parameter.storage = slot.storage


def _meanings(op: Op, name: str) -> Iterator[str]:
    """Yield the full names that a name may have in a layer's own container, and in those around it."""
    for container in with_containers(op.node.owner)[1:]:
        yield f"{container}/{name}"
    yield name


def _padded(size: int, itemsize: int) -> int:
    step = ALIGNMENT // itemsize
    return -(-size // step) * step


def _lay_out(target: Target, slots: Sequence[Slot]) -> list[tuple[Slot, Placed]]:
    """Return places for the values, or the gradients, of parameters: one after the other in a new arena."""
    if not slots:
        return []
    itemsize = item_size(target.dtype)
    *offsets, total = accumulate((_padded(slot.storage.size, itemsize) for slot in slots), initial=0)
    arena = target.backend.empty((total,), target.dtype)
    places: list[tuple[Slot, Placed]] = []
    for slot, offset in zip(slots, offsets, strict=True):
        array = target.backend.view(arena[offset : offset + slot.storage.size], slot.storage.shape)
        places.append((slot, Placed(array, arena, offset)))
    return places


def _initialise(target: Target, slot: Slot) -> None:
    import numpy as np

    init, cut = slot.uses[0].parameter.init, slot.storage.cut
    assert init is not None
    shape = slot.storage.shape if cut is None else cut.whole  # the first values of a part are those of the whole
    try:
        values = init.values(Random(target.seed, slot.name, lambda: 0), shape)
    except (ConfigError, SnapshotError) as error:
        raise error.reworded(f"parameter '{slot.name}': {error.args[0]}") from error
    try:
        if values is None:
            raise TypeError  # which NumPy would make NaN
        host = np.ascontiguousarray(np.broadcast_to(values, shape), dtype=slot.storage.dtype)
    except (TypeError, ValueError) as error:
        needed = f"but parameter '{slot.name}' needs an array of numbers of shape {shape}"
        raise wrong(init, f"values returned {brief(values)}, {needed}") from error
    target.backend.from_host(host if cut is None else np.ascontiguousarray(cut.of(host)), slot.storage.array)


def _hand_out(target: Target, slot: Slot) -> None:
    """Set the arrays of a slot's parameters; only the first sharer in backward writes directly into the gradient."""
    array = slot.storage.array
    for parameter, _, _, _ in slot.uses:
        parameter.blob = array.T if parameter.transposed else array
    scratch: list[Array] = []
    written = Counter[Op]()
    for parameter, op, _, _ in backward_order(slot) if slot.placed is not None else ():
        first, slot.first = slot.first is None, slot.first or parameter
        if first and not parameter.tied:
            parameter.gradient = slot.gradient
            continue
        if written[op] == len(scratch):  # a layer that uses it twice writes both gradients before they are added
            scratch.append(target.backend.empty((slot.storage.size,), target.dtype))
        parameter.gradient = slot.parts[parameter] = target.backend.view(scratch[written[op]], parameter.shape)
        written[op] += 1
    if not target.backend.on_host:
        for parameter, op, _, _ in slot.uses:
            if type(op.state).host_only:
                _move_to_host(slot, parameter)


def _move_to_host(slot: Slot, parameter: Parameter) -> None:
    """Replace a parameter's arrays by NumPy arrays, for a state that needs these."""
    host = HostMemory.shared()
    slot.on_host[parameter] = parameter.gradient
    parameter.blob = host.empty(parameter.shape, slot.storage.dtype)
    if parameter.gradient is not None:
        parameter.gradient = host.empty(parameter.shape, slot.storage.dtype)
