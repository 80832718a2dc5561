"""The memory of a net's values: how long each is needed, which of them share memory, and the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from ..errors import ContractError, NacreError
from ..protocols.array import Array
from ..protocols.backend import Backend, HostMemory, Own
from ..text import size as size_text
from .arena import lay_out, most_at_once, sharers
from .ops import HOST, Group, Op, Space, Value, item_size, members, plain_space, value_bytes


class Memory:
    """The memory of a net: planned when the object is made, allocated by `allocate`.

    Args:
        ops: in the order of the forward pass.
        main: the net's backend.
        keep: names of blobs that stay readable after the step; None keeps all, and shares no memory.

    `within` has the names of the blobs between layers that one kernel computes together: they are never written.
    `readable` has the plain arrays of the blobs that stay readable after a step, once they are allocated, and
    `converted` those that steps copy into own blobs or from there, from their first call until memory moves.
    """

    def __init__(self, ops: list[Op], main: Backend, keep: Iterable[str] | None) -> None:
        self.ops = ops
        self.main = main
        self.backends = {main.name: main, **{op.backend.name: op.backend for op in ops}}
        self.kernels = {op.backend.name: op for op in ops if op.kernel}  # one of each backend
        self.keep_all = keep is None
        self.keep = set(keep or ())
        self.values = [value for op in ops for value in op.outputs]
        self.final = {value.name: value for value in self.values}
        self.within = {value.name for op in members(ops) for value in op.outputs} - self.final.keys()
        self.extra: list[Value] = []
        self.readable: dict[str, Array] = {}
        self.converted: dict[tuple[int, Space], Array] = {}
        self._sum_spaces: dict[int, Space] = {}
        self._plan_forward()
        self._plan_backward()

    # Planning: pure decisions, nothing is allocated

    def _plan_forward(self) -> None:
        # Keep whatever backward reads until the end of the pass: backward may run twice after one forward.
        end = 2 * len(self.ops) + 1
        for time, op in enumerate(self.ops):
            for value in op.inputs:
                value.read_at(time)
                if op.backward and "inputs" in op.state.reads.split():
                    value.read_at(end)
                value.group.spaces.add(op.space(value))
            for value in op.outputs:
                value.group.spaces.add(op.space(value))
                value.write_at(time)
                if op.backward and "blobs" in op.state.reads.split():
                    value.read_at(end)
                if op.is_source or self.keep_all:
                    value.pin()
            for value in op.intermediates:
                value.group.spaces.add(op.plain)
                value.write_at(time)
                if op.backward:
                    value.read_at(end)
                if op.is_source or self.keep_all:
                    value.pin()
        for value in self.final.values():
            if value.name in self.keep:
                value.pin()
        for time, op in enumerate(self.ops):
            for index, above in op.aliases:
                op.inputs[index].group.join(above.group)
            if op.in_place and not self.keep_all:
                for below, above in zip(op.inputs, op.outputs, strict=True):
                    free = not below.group.pinned and below.group.last <= time and below.group.fixed is None
                    if free and (below.shape, below.dtype) == (above.shape, above.dtype):
                        below.group.join(above.group)

    def _plan_backward(self) -> None:
        count = len(self.ops)
        writers: dict[int, list[tuple[int, Op, int]]] = {}
        for time, op in reversed([*enumerate(self.ops)]):
            if op.backward:
                for index, value in enumerate(op.inputs):
                    if value.gradient is not None and index not in op.without_gradient:
                        writers.setdefault(id(value), []).append((2 * count - time, op, index))
        self.sums: dict[int, list[tuple[Op, Value]]] = {}
        for time, op in enumerate(self.ops):
            op.output_diffs = [value.gradient for value in op.outputs]
            for value in op.outputs:
                if value.gradient is not None:
                    value.gradient.space = value.space if op.backward else plain_space(self.main)
                    value.gradient.read_at(2 * count - time)
                    if value.pinned:
                        value.gradient.pin()
        for value in self.values:
            if value.gradient is None:
                continue
            contributions = writers.get(id(value), [])
            for number, (time, op, index) in enumerate(contributions):
                part = value.gradient
                elsewhere = op.in_place or bool(op.aliases)  # then the first cannot write directly into the sum
                if len(contributions) > 1 and (number or elsewhere):
                    part = Value(value.gradient.name, value.shape, value.dtype, op.space(value))
                    part.write_at(time)
                    part.read_at(time + 0.5)
                    self.extra.append(part)
                    self.sums.setdefault(id(value), []).append((op, part))
                op.input_diffs[index] = part
                part.group.spaces.add(op.space(value))
                if number == 0:
                    value.gradient.write_at(time)
        for op in self.ops:
            self._join_gradients(op)
        for value in self.values:
            if value.gradient is not None:
                value.gradient.group.spaces.add(value.gradient.space)

    def sum_space(self, value: Value) -> Space:
        """Return the space in which the gradients of a value's readers are added: own blobs if all are there."""
        assert value.gradient is not None
        if id(value) not in self._sum_spaces:
            spaces = {value.gradient.space, *(op.space(value) for op, _ in self.sums[id(value)])}
            space = spaces.pop()
            alike = not spaces and space[0] == "own" and self.backends[space[1]].elementwise
            self._sum_spaces[id(value)] = space if alike else plain_space(self.main)
        return self._sum_spaces[id(value)]

    def _join_gradients(self, op: Op) -> None:
        """Put gradients that flow through an in-place or aliasing op into one memory."""
        if not op.backward:
            return
        aliased: dict[int, list[Value]] = {}
        for index, top in op.aliases:
            aliased.setdefault(index, []).append(top)
        for index, part in enumerate(op.input_diffs):
            above: Value | None = None
            if len(tops := aliased.get(index, ())) == 1:
                above = tops[0].gradient
            elif op.in_place and not self.keep_all:
                above = op.outputs[index].gradient
                if above is not None and part is not None and (above.group.pinned or part.group.pinned):
                    above = None
            if part is not None and above is not None:
                part.group.join(above.group)

    def _groups(self) -> list[Group]:
        gradients = [value.gradient for value in self.values if value.gradient is not None]
        intermediates = [value for op in self.ops for value in op.intermediates]
        values = [*self.values, *gradients, *self.extra, *intermediates]
        return list({id(value.group): value.group for value in values}.values())

    def planned_bytes(self) -> dict[str, int]:
        """Return the bytes of all blobs and intermediates: without sharing, as planned, and the most at one time."""
        naive = planned = 0
        lives: list[tuple[Group | Own, int]] = []
        for group in self._groups():
            naive += sum(value_bytes(value) for value in group.members) * max(1, len(group.spaces))
        for groups in self._classes().values():
            planned += lay_out(groups, group_bytes)[1]
            lives += [(group, group_bytes(group)) for group in groups]
        for name, blobs in self._own_blobs().items():
            planned += sum(lay_out(members, bytes_of)[1] for _, members, bytes_of in self._own_classes(name, blobs))
            lives += [(blob, self._own_bytes(name, blob)) for blob in blobs]
        return {"blobs": naive, "planned": planned, "peak": most_at_once(lives)}

    def _classes(self) -> dict[tuple[Space, str], list[Group]]:
        """Return the groups that may share plain memory, by space and type."""
        classes: dict[tuple[Space, str], list[Group]] = {}
        for group in self._groups():
            if group.fixed is not None:
                continue
            for space in group.spaces:
                if space[0] != "own":
                    classes.setdefault((space, group.members[0].dtype), []).append(group)
        return classes

    def _own_blobs(self) -> dict[str, list[Own]]:
        """Return the own blobs of each backend that has kernels in this net, with their lifetimes."""
        found: dict[str, list[Own]] = {name: [] for name in self.kernels}
        for op in self.ops:
            for value in (*op.inputs, *op.outputs, *op.input_diffs, *op.output_diffs):
                if value is not None and (space := op.space(value))[0] == "own":
                    self.own(value, space)
        for group in self._groups():
            for (name, _), blob in group.own.items():
                blob.first, blob.last, blob.pinned = group.first, group.last, group.pinned
                found[name].append(blob)
        return found

    def _own_classes(self, name: str, blobs: Sequence[Own]) -> list[tuple[str, list[Own], Callable[[Own], int]]]:
        """Return the own blobs that may share memory, by the type of the array that stores them, and their bytes."""
        classes: dict[str, list[Own]] = {}
        for blob in blobs:
            classes.setdefault(self.backends[name].storage(blob)[1], []).append(blob)
        return [(kind, members, partial(self._own_bytes, name)) for kind, members in classes.items()]

    def _own_bytes(self, name: str, blob: Own) -> int:
        count, kind = self.backends[name].storage(blob)
        return count * item_size(kind)

    # Memory

    def need(self, value: Value, space: Space) -> None:
        value.group.spaces.add(space)

    def allocate(self, plan: dict[str, Any]) -> None:
        """Allocate memory for every value, and fill the lists of the states; backends put decisions into `plan`."""
        self._allocate()
        self._arrange(plan)
        for op in self.ops:
            for values in (op.input_arrays, op.diff_arrays, op.state.blobs, op.state.blobs_diff):
                _settle(values)
            op.fix()
        pinned = [value for value in self.final.values() if value.pinned]
        self.readable = {value.name: self.array(value, plain_space(self.main)) for value in pinned}

    def _allocate(self) -> None:
        """Allocate the plain arrays, and fill the lists of the states."""
        self.converted.clear()
        for (space, dtype), groups in self._classes().items():
            addresses, size = lay_out(groups, group_bytes)
            arena = self._owner(space).empty((size // item_size(dtype),), dtype)
            for group, address in addresses.items():
                group.arrays[space] = arena[address // item_size(dtype) :]
            for group in sharers(addresses, group_bytes):
                group.mark_shared()
        for op in self.ops:
            state = op.state
            op.input_arrays[:] = [self.memory(op, value) for value in op.inputs]
            op.diff_arrays[:] = [None if value is None else self.memory(op, value) for value in op.input_diffs]
            state.blobs[:] = [self.memory(op, value) for value in op.outputs]
            state.blobs_diff[:] = [None if value is None else self.memory(op, value) for value in op.output_diffs]
            state.intermediates[:] = [self.array(value, op.plain) for value in op.intermediates]

    def _arrange(self, plan: dict[str, Any]) -> None:
        """Let the backends choose the layouts of their own blobs, and allocate memory for these."""
        sharing: set[Own] = set()
        for name, blobs in self._own_blobs().items():
            backend = self.backends[name]
            kernels = [op.state for op in self.ops if op.kernel and op.backend is backend]
            backend.arrange(kernels, blobs, plan.setdefault(name, {}))
            for kind, some, bytes_of in self._own_classes(name, blobs):
                addresses, size = lay_out(some, bytes_of)
                arena = backend.empty((size // item_size(kind),), kind)
                for blob, address in addresses.items():
                    backend.place(blob, arena[address // item_size(kind) :])
                sharing |= sharers(addresses, bytes_of)
        for group in self._groups():
            if sharing.intersection(group.own.values()):
                group.mark_shared()

    def memory(self, op: Op, value: Value) -> Any:
        """Return the array or own blob that an op gets for a value."""
        space = op.space(value)
        if space[0] == "own":
            own = self.own(value, space)
            return Elements(own, op.backend) if op.on_elements else own
        array = self.array(value, space)
        if op.kernel:
            wrapped = Own(value.shape, value.dtype)
            wrapped.layout, wrapped.memory = "plain", array
            return wrapped
        return array

    def own(self, value: Value, space: Space) -> Own:
        key = (space[1], value.shape)
        if key not in value.group.own:
            dtype = self.kernels[space[1]].own_dtype(value)
            value.group.own[key] = self.backends[space[1]].own(value.shape, dtype)
        return value.group.own[key]

    def array(self, value: Value, space: Space) -> Array:
        """Return a value's plain or NumPy array."""
        group = value.group
        if group.fixed is not None and space == plain_space(self.main):
            same = tuple(group.fixed.shape) == value.shape
            return group.fixed if same else self.main.view(group.fixed, value.shape)
        return self._owner(space).view(group.arrays[space], value.shape)

    def _owner(self, space: Space) -> Backend:
        """Return the backend that makes the arrays of a space."""
        if space == HOST:
            return self.main if self.main.on_host else HostMemory.shared()
        return self.backends[space[1]]


class Elements:
    """Placeholder in a list for the elements of an own blob that has no memory yet."""

    def __init__(self, own: Own, backend: Backend) -> None:
        self.own = own
        self.backend = backend


def _settle(values: list[Any]) -> None:
    """Replace each `Elements` by its array, once own blobs have memory."""
    for index, value in enumerate(values):
        if isinstance(value, Elements):
            array = value.backend.elements(value.own)
            if array is None:
                message = f"backend '{value.backend.name}' declares elementwise, but its elements() returned None"
                raise ContractError(message, "return the array of the blob's elements, or do not set elementwise")
            values[index] = array


def group_bytes(group: Group) -> int:
    """Return the bytes of a plain array that is large enough for each value of a group."""
    return max(value_bytes(value) for value in group.members)


@contextmanager
def enough_memory(net: str, free: tuple[int, int] | None, need: Callable[[], Need | None]) -> Generator[None]:
    """Turn a MemoryError into a NacreError that names the net; on a device, with what the net needs and would fit.

    `free` is how much is free there without the net, and how much it has.
    """
    try:
        yield
    except MemoryError as error:
        raise too_large(net, error, free, need()) from error


def too_large(
    net: str, error: MemoryError, free: tuple[int, int] | None, need: Need | None, *, runs: bool = False
) -> NacreError:
    """Return the error of a net that needs more than is `free` of the memory of its device, if it has one.

    Where it `runs`, what would have come after is not known.
    """
    message = f"net '{net}' needs more memory than is available: {error}"
    if free is None or need is None:
        return NacreError(message, "use smaller batches, or make the largest layer smaller")
    return NacreError(f"{message}; {need.told(free)}", need.remedy(free[0], sure=not runs))


@dataclass(frozen=True)
class Need:
    """The bytes that a net needs: of `blobs`, for a batch of `batch` records, of parameters, and of what is its `own`.

    That is what its layers and the training make for themselves, and what is temporary while they compute.
    """

    blobs: int
    parameters: int
    own: int
    batch: int

    @classmethod
    def of(cls, memory: Memory, own: int) -> Need:
        """Return what a net with this memory needs, and so many bytes of its own."""
        fed = (value.shape[0] for op in memory.ops if op.is_source for value in op.outputs if value.shape)
        known = {id(one.storage): one for op in memory.ops for one in op.state.parameters if not one.tied}
        numbers = sum(prod(one.shape) * (2 if one.trainable else 1) for one in known.values())
        dtype = memory.ops[0].state.backend.dtype
        return cls(memory.planned_bytes()["planned"], numbers * item_size(dtype), own, max(fed, default=1))

    @property
    def every(self) -> int:
        return self.blobs + self.parameters + self.own

    def told(self, free: tuple[int, int]) -> str:
        """Return a sentence about it, and about the bytes that were free, of all that the device has."""
        fixed = f"{size_text(self.parameters)} for parameters and gradients"
        blobs = f"it needs {size_text(self.blobs)} for a batch of {self.batch}, {fixed}"
        own = f"{size_text(self.own)} for what layers and training make for themselves"
        return f"{blobs} and {own}, and {size_text(free[0])} of {size_text(free[1])} were free"

    def remedy(self, free: int, *, sure: bool) -> str:
        """Return what would do: the largest batch that fits, or if that is not `sure` the one to try."""
        if most := self.most(free):
            return f"a batch of {most} would fit" if sure else f"try a batch of {most}"
        if self.parameters >= free:
            return "not even a batch of 1 would fit: make layers smaller"
        return "use smaller batches, or make layers smaller"

    def most(self, free: int) -> int:
        """Return the largest batch that fits into some bytes, smaller than that which did not; 0 if none does.

        A smaller one may need less of the net's own, but that is not known.
        """
        for_blobs = (free - self.parameters - self.own) * self.batch // max(self.blobs, 1)
        return max(0, min(for_blobs, self.batch - 1))
