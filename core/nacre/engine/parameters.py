"""Where parameters lie: who shares them, in which arena, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ..errors import ConfigError, SnapshotError, TopologyError, nearest
from ..protocols.array import Array
from ..protocols.backend import Backend, HostMemory
from ..protocols.parameter import Parameter, Storage
from ..random import Random
from .arena import ALIGNMENT

if TYPE_CHECKING:
    from ..net.net import Net


@dataclass
class Slot:
    """One parameter of a net: its memory, its gradient, and all the layers' `Parameter`s that share it.

    The first of `parameters` in the net's order gives initialiser, rates, regulariser, constraint and name; `first` is
    the first to run backward. `parts` holds the scratch gradients of sharers that are added to `gradient` after their
    backward; `on_host` the device's gradient arrays of states that want NumPy arrays, whose values and gradients are
    copied in each pass.
    """

    name: str
    layer: str
    storage: Storage
    order: int
    parameters: list[Parameter] = field(default_factory=list[Parameter])
    gradient: Array | None = None
    first: Parameter | None = None
    parts: dict[Parameter, Array] = field(default_factory=dict[Parameter, Array])
    on_host: dict[Parameter, Array] = field(default_factory=dict[Parameter, Array])
    arena: Array = None
    offset: int = 0
    frozen: bool = False
    withheld: dict[Parameter, Array] = field(default_factory=dict[Parameter, Array])

    def freeze(self, frozen: bool) -> None:
        """Take the gradients away from the layers, or give them back."""
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

    @property
    def trainable(self) -> bool:
        return self.parameters[0].trainable

    def fetch(self, parameter: Parameter, backend: Backend) -> None:
        """Copy the value to a state that wants NumPy arrays."""
        array = self.storage.array
        parameter.blob[...] = backend.to_host(array.T if parameter.transposed else array)

    def keep(self, parameter: Parameter, backend: Backend) -> None:
        """Copy a buffer that a state on the host has changed to the device."""
        backend.from_host(parameter.blob, self.storage.array)

    def give_back(self, parameter: Parameter, backend: Backend) -> None:
        """Copy the gradient of a state that wants NumPy arrays to the device."""
        assert parameter.gradient is not None
        backend.from_host(parameter.gradient, self.on_host[parameter])

    def adder(self, parameter: Parameter, backend: Backend) -> Callable[[], None]:
        """Give the call that adds a sharer's part to the gradient; the first to run backward sets it."""
        part = self.parts[parameter]
        part = part.T if parameter.transposed else part
        if parameter is self.first:
            return lambda: backend.xp.copyto(self.gradient, part)
        return lambda: backend.xp.add(self.gradient, part, out=self.gradient)


def backward_order(slot: Slot) -> list[Parameter]:
    """Give the sharers that have a gradient in the order in which they run backward."""
    return sorted((one for one in slot.parameters if one.backward), key=lambda parameter: -parameter.order)


def place_parameters(net: Net, share: Net | None, *, allocate: bool) -> list[Slot]:
    """Give every parameter of a net its memory, in the order in which the backward pass completes the gradients.

    Raises:
        TopologyError: sharers differ in shape, type or backend, or a tied parameter names nothing.
    """
    if share is not None and share.backend is not net.backend:
        raise TopologyError(
            f"net '{net.name}' on backend '{net.backend.name}' cannot share the parameters of net '{share.name}', "
            f"which is on backend '{share.backend.name}'"
        )
    slots = _slots(net, share)
    _tie(net, slots)
    ordered = sorted(slots, key=lambda slot: -slot.order)
    if not allocate:
        return ordered
    fresh = [slot for slot in ordered if slot.storage.array is None]
    _lay_out(net, [slot for slot in fresh if slot.trainable], "value")
    for slot in fresh:
        if not slot.trainable:
            slot.storage.array = net.backend.empty(slot.storage.shape, slot.storage.dtype)
        if net.initialise:  # on the threads of a pass: those of a library's products may change their bits
            net.backend.wrap(partial(_initialise, net, slot))()
    if net.trains:
        _lay_out(net, [slot for slot in ordered if slot.trainable], "gradient")
    for slot in slots:
        _hand_out(net, slot)
    for op in net.ops:
        for parameter in op.state.parameters:
            if not parameter.tied and parameter.storage is not None:
                kept = net.backend.parameters.setdefault(op.layer, {})
                kept.setdefault(parameter.name, parameter.storage)
    return ordered


def _slots(net: Net, share: Net | None) -> list[Slot]:
    """Give one slot for each parameter, or for all that share it.

    Its memory is that of the net `share`, else that which one of the layers has in another net, else new.
    """
    groups: dict[str, list[Parameter]] = {}
    for order, op in enumerate(net.ops):
        key = getattr(op.layer, "param_key", "") or op.name
        for parameter in op.state.parameters:
            parameter.order, parameter.backward = order, op.backward
            if not parameter.tied:
                groups.setdefault(f"{key}/{parameter.name}", []).append(parameter)
    given = {} if share is None else names_of(share, share.slots)
    slots: list[Slot] = []
    for sharers in groups.values():
        names = [f"{net.ops[one.order].name}/{one.name}" for one in sharers]
        shared = [given[name].storage for name in names if name in given][:1] or _kept(net, sharers)
        storage = shared[0] if shared else Storage(names[0], sharers[0].shape, net.dtype)
        if any(one is not storage for one in shared):
            raise TopologyError(
                f"parameters {' and '.join(names)} are to be one, but the layers have different ones in other nets",
                "make new layers, or give them one param_key from the first net on",
            )
        for name, parameter in zip(names, sharers, strict=True):
            if storage.dtype != net.dtype and storage.name == name:
                raise TopologyError(
                    f"layer '{net.ops[parameter.order].name}' has {storage.dtype} parameters from another net, "
                    f"but this net computes in {net.dtype}",
                    "make a copy of the layer for it: dataclasses.replace(layer)",
                )
            if (storage.shape, storage.dtype) != (parameter.shape, net.dtype):
                raise TopologyError(
                    f"parameter '{name}' has the shape {parameter.shape} and type {net.dtype}, but '{storage.name}', "
                    f"which it shares, has {storage.shape} and {storage.dtype}"
                )
            parameter.storage = storage
        slots.append(Slot(names[0], net.ops[sharers[0].order].name, storage, len(slots), sharers))
    return slots


def _kept(net: Net, sharers: list[Parameter]) -> list[Storage]:
    """Give the memory that the sharers' layers have in other nets."""
    kept = [net.backend.parameters.get(net.ops[one.order].layer, {}).get(one.name) for one in sharers]
    return [storage for storage in kept if storage is not None]


def names_of(net: Net, slots: list[Slot]) -> dict[str, Slot]:
    """Give the slots by the names that their parameters have in each of the layers that share them."""
    return {f"{net.ops[one.order].name}/{one.name}": slot for slot in slots for one in slot.parameters if not one.tied}


def _tie(net: Net, slots: list[Slot]) -> None:
    by_name = names_of(net, slots)
    for op in net.ops:
        for parameter in op.state.parameters:
            if not parameter.tied:
                continue
            slot = by_name.get(parameter.tied)
            if slot is None:
                raise TopologyError(
                    f"layer '{op.name}' is tied to parameter '{parameter.tied}', which the net lacks"
                    f"{nearest(parameter.tied, by_name)}"
                )
            wanted = parameter.shape[::-1] if parameter.transposed else parameter.shape
            if slot.storage.shape != wanted:
                raise TopologyError(
                    f"layer '{op.name}' is tied to '{slot.name}' of shape {slot.storage.shape}, but needs {wanted}"
                )
            slot.parameters.append(parameter)
            parameter.storage = slot.storage


def _padded(size: int, itemsize: int) -> int:
    step = ALIGNMENT // itemsize
    return -(-size // step) * step


def _lay_out(net: Net, slots: list[Slot], what: str) -> None:
    """Put the values, or the gradients, of parameters one behind the other into a new arena."""
    itemsize = 8 if net.dtype == "float64" else 4
    offsets: list[int] = []
    total = 0
    for slot in slots:
        offsets.append(total)
        total += _padded(slot.storage.size, itemsize)
    if not slots:
        return
    arena = net.backend.empty((total,), net.dtype)
    for slot, offset in zip(slots, offsets, strict=True):
        array = net.backend.view(arena[offset : offset + slot.storage.size], slot.storage.shape)
        if what == "value":
            slot.storage.array, slot.storage.arena, slot.storage.offset = array, arena, offset
        else:
            slot.gradient, slot.arena, slot.offset = array, arena, offset


def _initialise(net: Net, slot: Slot) -> None:
    import numpy as np

    init = slot.parameters[0].init
    assert init is not None
    try:
        values = init.values(Random(net.seed, slot.name, lambda: 0), slot.storage.shape)
    except (ConfigError, SnapshotError) as error:
        raise type(error)(f"parameter '{slot.name}': {error.args[0]}", error.remedy) from error
    host = np.ascontiguousarray(np.broadcast_to(values, slot.storage.shape), dtype=slot.storage.dtype)
    net.backend.from_host(host, slot.storage.array)


def _hand_out(net: Net, slot: Slot) -> None:
    """Give the layers' parameters their arrays; all but the first to run backward write into scratch of their own."""
    array = slot.storage.array
    for parameter in slot.parameters:
        parameter.blob = array.T if parameter.transposed else array
    for number, parameter in enumerate(backward_order(slot) if slot.gradient is not None else ()):
        slot.first = slot.first or parameter
        if number == 0 and not parameter.tied:
            parameter.gradient = slot.gradient
        else:
            parameter.gradient = net.backend.empty(parameter.shape, net.dtype)
            slot.parts[parameter] = parameter.gradient
    if not net.backend.on_host:
        for parameter in slot.parameters:
            if type(net.ops[parameter.order].state).host_only:
                _move_to_host(slot, parameter)


def _move_to_host(slot: Slot, parameter: Parameter) -> None:
    """Give a state that wants NumPy arrays copies of a parameter in the machine's memory."""
    host = HostMemory.shared()
    slot.on_host[parameter] = parameter.gradient
    parameter.blob = host.empty(parameter.shape, slot.storage.dtype)
    if parameter.gradient is not None:
        parameter.gradient = host.empty(parameter.shape, slot.storage.dtype)
