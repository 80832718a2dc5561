"""Where the values of a net lie: versions, in-place takeover, buffers shared by lifetime, and the memory itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .backend import Backend, HostMemory, Own
from .component import Array
from .errors import ContractError
from .values import HOST, Group, Op, Space, Value, item_size, plain_space, value_bytes


class Memory:
    """The memory of a net: planned when it is made, there after `allocate`.

    Args:
        ops: in the order of the forward pass.
        main: the net's backend.
        keep: names of blobs that stay readable after the step; None keeps all, and shares no memory.
    """

    def __init__(self, ops: list[Op], main: Backend, keep: Iterable[str] | None) -> None:
        self.ops = ops
        self.main = main
        self.backends = {main.name: main, **{op.backend.name: op.backend for op in ops}}
        self.keep_all = keep is None
        self.keep = set(keep or ())
        self.values = [value for op in ops for value in op.outputs]
        self.final = {value.name: value for value in self.values}
        self.extra: list[Value] = []
        self._plan_forward()
        self._plan_backward()

    # Planning: pure decisions, nothing is allocated

    def _plan_forward(self) -> None:
        count = len(self.ops)
        for time, op in enumerate(self.ops):
            for value in op.inputs:
                value.read.append(time)
                if op.backward and "inputs" in op.state.reads.split():
                    value.read.append(2 * count - time)
                value.group.spaces.add(op.space(value))
            for value in op.outputs:
                value.group.spaces.add(op.space(value))
                value.written = time
                if op.backward and "blobs" in op.state.reads.split():
                    value.read.append(2 * count - time)
                value.pinned = op.is_source or self.keep_all
        for value in self.final.values():
            value.pinned |= value.name in self.keep
        for time, op in enumerate(self.ops):
            for place, above in op.aliases:
                op.inputs[place].group.join(above.group)
            if op.in_place and not self.keep_all:
                for below, above in zip(op.inputs, op.outputs, strict=True):
                    free = not below.group.pinned and below.group.last <= time and below.group.fixed is None
                    if free and (below.shape, below.dtype) == (above.shape, above.dtype):
                        below.group.join(above.group)

    def _plan_backward(self) -> None:
        count = len(self.ops)
        writers: dict[int, list[tuple[Op, int]]] = {}
        for op in reversed(self.ops):
            if op.backward:
                for place, value in enumerate(op.inputs):
                    if value.gradient is not None:
                        writers.setdefault(id(value), []).append((op, place))
        self.sums: dict[int, list[tuple[Op, Value]]] = {}
        for time, op in enumerate(self.ops):
            op.output_diffs = [value.gradient for value in op.outputs]
            for value in op.outputs:
                if value.gradient is not None:
                    value.gradient.space = value.space if op.backward else plain_space(self.main)
                    value.gradient.read.append(2 * count - time)
                    value.gradient.pinned = value.pinned
        for value in self.values:
            if value.gradient is None:
                continue
            contributions = writers.get(id(value), [])
            for number, (op, place) in enumerate(contributions):
                part = value.gradient
                time = 2 * count - self.ops.index(op)
                if len(contributions) > 1:
                    part = Value(value.gradient.name, value.shape, value.dtype, op.space(value))
                    part.read.append(time + 0.5)
                    self.extra.append(part)
                    self.sums.setdefault(id(value), []).append((op, part))
                op.input_diffs[place] = part
                part.group.spaces.add(op.space(value))
                if part.written < 0:
                    part.written = time
                if number == 0:
                    value.gradient.written = time
        for op in self.ops:
            self._join_gradients(op)
        for value in self.values:
            if value.gradient is not None:
                value.gradient.group.spaces.add(value.gradient.space)

    def _join_gradients(self, op: Op) -> None:
        """Let gradients that flow through an in-place or aliasing op lie in one memory."""
        if not op.backward:
            return
        for place, part in enumerate(op.input_diffs):
            aliased = [above for one, above in op.aliases if one == place]
            above: Value | None = None
            if len(aliased) == 1:
                above = aliased[0].gradient
            elif op.in_place and not self.keep_all:
                above = op.outputs[place].gradient
                if above is not None and part is not None and (above.group.pinned or part.group.pinned):
                    above = None
            if part is not None and above is not None and part.group is not above.group:
                part.group.join(above.group)

    def _groups(self) -> list[Group]:
        gradients = [value.gradient for value in self.values if value.gradient is not None]
        values = [*self.values, *gradients, *self.extra]
        return list({id(value.group): value.group for value in values}.values())

    def planned_bytes(self) -> dict[str, int]:
        """Give the bytes of the blobs: with a buffer for each value, and as planned."""
        naive = planned = 0
        for group in self._groups():
            naive += sum(value_bytes(value) for value in group.members) * max(1, len(group.spaces))
        for groups in self._classes().values():
            planned += sum(size for size in share_buffers(groups).values())
        for group in self._groups():
            owns = {(space, value.shape) for space in group.spaces if space[0] == "own" for value in group.members}
            planned += sum(max(value_bytes(value) for value in group.members) for _ in owns)
        return {"blobs": naive, "planned": planned}

    def _classes(self) -> dict[tuple[Space, str, bool], list[Group]]:
        """Give the groups that may share plain memory: of one space, one type, and one pass."""
        gradients = {id(value.gradient.group) for value in self.values if value.gradient is not None}
        gradients |= {id(value.group) for value in self.extra}
        classes: dict[tuple[Space, str, bool], list[Group]] = {}
        for group in self._groups():
            if group.fixed is not None:
                continue
            for space in group.spaces:
                if space[0] != "own":
                    key = (space, group.members[0].dtype, id(group) in gradients)
                    classes.setdefault(key, []).append(group)
        return classes

    # Memory

    def need(self, value: Value, space: Space) -> None:
        value.group.spaces.add(space)

    def allocate(self) -> None:
        """Give every group its memory, and fill the lists of the states."""
        for (space, dtype, _), groups in self._classes().items():
            for members, size in share_buffers(groups).items():
                base = self._owner(space).empty((size // item_size(dtype),), dtype)
                for group in members:
                    group.arrays[space] = base
                    if len(members) > 1:
                        for value in group.members:
                            value.shared = True
        for op in self.ops:
            state = op.state
            op.input_arrays[:] = [self.memory(op, value) for value in op.inputs]
            op.diff_arrays[:] = [None if value is None else self.memory(op, value) for value in op.input_diffs]
            state.blobs[:] = [self.memory(op, value) for value in op.outputs]
            state.blobs_diff[:] = [None if value is None else self.memory(op, value) for value in op.output_diffs]

    def give_rest(self, plan: dict[str, Any]) -> None:
        """Give memory to own blobs that lie in no compiled run: between states that work on their elements."""
        for group in self._groups():
            for (name, _), blob in group.own.items():
                if blob.layout is None:
                    self.backends[name].compile((), [blob], plan.setdefault(f"{name}:elements", {}))

    def memory(self, op: Op, value: Value) -> Any:
        """Give the array or own blob that an op sees as a value."""
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
            value.group.own[key] = self.backends[space[1]].own(value.shape, value.dtype)
        return value.group.own[key]

    def array(self, value: Value, space: Space) -> Array:
        """Give a value's plain or NumPy array."""
        group = value.group
        if group.fixed is not None and space == plain_space(self.main):
            same = tuple(group.fixed.shape) == value.shape
            return group.fixed if same else self.main.view(group.fixed, value.shape)
        return self._owner(space).view(group.arrays[space], value.shape)

    def _owner(self, space: Space) -> Backend:
        """Give the backend that makes arrays in a space."""
        if space == HOST:
            return self.main if self.main.on_host else HostMemory.shared()
        return self.backends[space[1]]


class Elements:
    """Stands in a list for the elements of an own blob, until its memory is there."""

    def __init__(self, own: Own, backend: Backend) -> None:
        self.own = own
        self.backend = backend


def settle(values: list[Any]) -> None:
    """Put arrays in the place of `Elements`, once own blobs have memory."""
    for place, value in enumerate(values):
        if isinstance(value, Elements):
            array = value.backend.elements(value.own)
            if array is None:
                raise ContractError(f"backend '{value.backend.name}' says elementwise, but gives no elements of a blob")
            values[place] = array


def share_buffers(groups: Sequence[Group]) -> dict[tuple[Group, ...], int]:
    """Put groups whose lifetimes do not meet into one buffer; give the bytes of each buffer.

    Groups are taken by their first write; a buffer is free again after its last read. Of the free ones the smallest
    that is large enough is taken, else the largest, which then grows.
    """
    buffers: list[tuple[list[Group], int]] = []
    for group in sorted(groups, key=lambda one: one.first):
        size = max(value_bytes(value) for value in group.members)
        free = [
            place
            for place, (members, _) in enumerate(buffers)
            if not group.pinned and all(not one.pinned and one.last < group.first for one in members)
        ]
        if not free:
            buffers.append(([group], size))
            continue
        fits = [place for place in free if buffers[place][1] >= size]
        place = min(fits, key=lambda one: buffers[one][1]) if fits else max(free, key=lambda one: buffers[one][1])
        members, capacity = buffers[place]
        members.append(group)
        buffers[place] = (members, max(capacity, size))
    return {tuple(members): size for members, size in buffers}
