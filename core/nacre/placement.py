"""Where parameters lie: who shares them, in which arena, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .backend import Backend, HostMemory
from .component import Array
from .errors import TopologyError
from .parameter import Parameter, Storage
from .random import Random

if TYPE_CHECKING:
    from .net import Net

ALIGNMENT = 64


@dataclass
class Slot:
    """One parameter of a net: its memory, its gradient, and all the layers' `Parameter`s that share it.

    The first of `parameters` in the net's order gives initialiser, rates, regulariser, constraint and name. `parts` holds
    the scratch gradients of sharers that are added to `gradient` after their backward; `on_host` the device's gradient arrays
    of states that want NumPy arrays, whose values and gradients are copied in each pass.
    """

    name: str
    layer: str
    storage: Storage
    order: int
    parameters: list[Parameter] = field(default_factory=list[Parameter])
    gradient: Array | None = None
    parts: dict[Parameter, Array] = field(default_factory=dict[Parameter, Array])
    on_host: dict[Parameter, Array] = field(default_factory=dict[Parameter, Array])
    arena: Array = None
    offset: int = 0

    @property
    def trainable(self) -> bool:
        return self.parameters[0].trainable

    def fetch(self, parameter: Parameter, backend: Backend) -> None:
        """Copy the value to a state that wants NumPy arrays."""
        array = self.storage.array
        parameter.blob[...] = backend.to_host(array.T if parameter.transposed else array)

    def give_back(self, parameter: Parameter, backend: Backend) -> None:
        """Copy the gradient of a state that wants NumPy arrays to the device."""
        backend.from_host(parameter.gradient, self.on_host[parameter])

    def adder(self, parameter: Parameter, backend: Backend) -> Callable[[], None]:
        """Give the call that adds a sharer's part to the gradient; the first to run backward sets it."""
        part = self.parts[parameter]
        part = part.T if parameter.transposed else part
        if parameter is backward_order(self)[0]:
            return lambda: backend.xp.copyto(self.gradient, part)
        return lambda: backend.xp.add(self.gradient, part, out=self.gradient)


def backward_order(slot: Slot) -> list[Parameter]:
    """Give the sharers in the order in which they run backward."""
    return sorted(slot.parameters, key=lambda parameter: -parameter.order)


def place_parameters(net: Net, share: Net | None, *, allocate: bool) -> list[Slot]:
    """Give every parameter of a net its memory, in the order in which the backward pass completes the gradients.

    Raises:
        TopologyError: sharers differ in shape or type, or a tied parameter names nothing.
    """
    slots = _slots(net, share)
    _tie(net, slots)
    backward_order = sorted(slots, key=lambda slot: -slot.order)
    if not allocate:
        return backward_order
    fresh = [slot for slot in backward_order if slot.storage.array is None]
    _lay_out(net, [slot for slot in fresh if slot.trainable], "value")
    for slot in fresh:
        if not slot.trainable:
            slot.storage.array = net.backend.empty(slot.storage.shape, slot.storage.dtype)
        _initialise(net, slot)
    if net.trains:
        _lay_out(net, [slot for slot in backward_order if slot.trainable], "gradient")
    for slot in slots:
        _hand_out(net, slot)
    return backward_order


def _slots(net: Net, share: Net | None) -> list[Slot]:
    slots: list[Slot] = []
    by_key: dict[str, Slot] = {}
    for order, op in enumerate(net.ops):
        key = getattr(op.layer, "param_key", "") or op.name
        kept = net.backend.parameters.setdefault(op.layer, {}) if op.state.parameters else {}
        for parameter in op.state.parameters:
            if parameter.tied:
                continue
            name = f"{op.name}/{parameter.name}"
            dtype = net.dtype
            slot = by_key.get(f"{key}/{parameter.name}")
            if slot is None:
                other = share.parameters.get(name) if share is not None else None
                storage = other.storage if other is not None else kept.get(parameter.name)
                storage = storage or Storage(name, parameter.shape, dtype)
                slot = by_key[f"{key}/{parameter.name}"] = Slot(name, op.name, storage, len(slots))
                slots.append(slot)
            if (slot.storage.shape, slot.storage.dtype) != (parameter.shape, dtype):
                raise TopologyError(
                    f"parameter '{name}' has the shape {parameter.shape} and type {dtype}, but '{slot.storage.name}', "
                    f"which it shares, has {slot.storage.shape} and {slot.storage.dtype}"
                )
            kept[parameter.name] = slot.storage
            slot.parameters.append(parameter)
            parameter.storage, parameter.order = slot.storage, order
    return slots


def _tie(net: Net, slots: list[Slot]) -> None:
    by_name = {slot.name: slot for slot in slots}
    for order, op in enumerate(net.ops):
        for parameter in op.state.parameters:
            if not parameter.tied:
                continue
            slot = by_name.get(parameter.tied)
            if slot is None:
                raise TopologyError(f"layer '{op.name}' is tied to parameter '{parameter.tied}', which the net lacks")
            wanted = parameter.shape[::-1] if parameter.transposed else parameter.shape
            if slot.storage.shape != wanted:
                raise TopologyError(
                    f"layer '{op.name}' is tied to '{slot.name}' of shape {slot.storage.shape}, but needs {wanted}"
                )
            slot.parameters.append(parameter)
            parameter.storage, parameter.order = slot.storage, order


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
    values = init.values(Random(net.seed, slot.name, lambda: 0), slot.storage.shape)
    host = np.ascontiguousarray(np.broadcast_to(values, slot.storage.shape), dtype=slot.storage.dtype)
    net.backend.from_host(host, slot.storage.array)


def _hand_out(net: Net, slot: Slot) -> None:
    """Give the layers' parameters their arrays; all but the first to run backward write into scratch of their own."""
    for number, parameter in enumerate(backward_order(slot)):
        array = slot.storage.array
        parameter.blob = array.T if parameter.transposed else array
        if slot.gradient is None:
            continue
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
