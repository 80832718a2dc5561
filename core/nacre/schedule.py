"""From states and blobs to lists of steps: versions, in-place takeover, memory, and copies between memories.

The words here: an `Op` is one state in the schedule (a layer's, or a neuron's). A `Value` is one version of a blob, or
of its gradient. A `Group` is a set of values that lie in one memory. A `Space` says which kind of memory: ("own",
backend) are a backend's own blobs, ("plain", backend) its plain arrays, and ("host", "") NumPy arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .backend import Backend, HostMemory, Own, loop
from .blob import Blob
from .component import Array
from .errors import ContractError
from .layer import LayerState

Space = tuple[str, str]
HOST: Space = ("host", "")


@dataclass
class Step:
    """One call of an iteration: what is done, for which layer, and by whose code.

    `own` is the backend whose compiled run may contain the step; None means plain Python, which splits a run. `arrays`
    are the lists of what the call reads and writes, filled when memory stands; `blobs` are the own blobs among them.
    """

    kind: str
    name: str
    call: Callable[[], None]
    own: Backend | None = None
    state: Any = None
    method: str = ""
    arrays: tuple[list[Any], ...] = ()

    @property
    def blobs(self) -> list[Own]:
        found = [one.own if isinstance(one, Elements) else one for one in itertools.chain(*self.arrays)]
        return [one for one in found if isinstance(one, Own)]


class Group:
    """Values in one memory; `first` and `last` are the times of its first write and its last read."""

    def __init__(self, value: Value) -> None:
        self.members = [value]
        self.spaces: set[Space] = set()
        self.fixed: Array | None = None
        self.arrays: dict[Space, Array] = {}
        self.own: dict[tuple[str, tuple[int, ...]], Own] = {}

    @property
    def first(self) -> float:
        return min(value.written for value in self.members)

    @property
    def last(self) -> float:
        return max(max(value.read, default=value.written) for value in self.members)

    @property
    def pinned(self) -> bool:
        return any(value.pinned for value in self.members)

    def join(self, other: Group) -> None:
        """Take over the members of another group."""
        self.spaces |= other.spaces
        for value in other.members:
            value.group = self
        self.members += other.members
        if other.fixed is not None:
            self.fixed = other.fixed


class Value:
    """One version of a blob, or of its gradient: written once a pass at time `written`, read at the times `read`."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, space: Space) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.space = space
        self.written: float = -1
        self.read: list[float] = []
        self.pinned = False
        self.group = Group(self)
        self.gradient: Value | None = None
        self.blob: Any = None
        self.shared = False


class Op:
    """One state in the schedule, with the values that it reads and writes."""

    def __init__(
        self,
        name: str,
        state: LayerState,
        backend: Backend,
        *,
        kernel: bool,
        inputs: list[Value],
        in_place: bool,
        is_source: bool = False,
    ) -> None:
        self.name = name
        self.state = state
        self.backend = backend
        self.kernel = kernel
        self.inputs = inputs
        self.in_place = in_place
        self.is_source = is_source
        self.backward = False
        self.outputs: list[Value] = []
        self.aliases: list[tuple[int, Value]] = []  # (place of the input, the top that is its alias)
        self.input_arrays: list[Any] = []
        self.diff_arrays: list[Any] = []
        self.input_diffs: list[Value | None] = [None] * len(inputs)
        self.output_diffs: list[Value | None] = []
        self.choice: Any = None
        self.layer: Any = None

    @property
    def on_elements(self) -> bool:
        """Whether the state may run on the elements of own blobs, in any order."""
        return not self.kernel and getattr(type(self.state), "elementwise", False) and self.backend.elementwise

    def space(self, value: Value) -> Space:
        """Give the kind of memory in which this op wants a value."""
        backend = self.backend
        if self.kernel and not backend.layout_is_plain(value.shape, value.dtype):
            return ("own", backend.name)
        if self.on_elements and self.inputs and self.inputs[0].space == ("own", backend.name):
            return ("own", backend.name)
        return plain_space(backend, host_only=type(self.state).host_only and not self.kernel)


def plain_space(backend: Backend, *, host_only: bool = False) -> Space:
    """Give the space of a backend's plain arrays."""
    return HOST if backend.on_host or host_only else ("plain", backend.name)


class Schedule:
    """The steps of a net's passes, and the memory that they work on.

    Args:
        ops: in the order of the forward pass.
        backends: by name: the net's, and those of its lineage that have kernels in it.
        main: the net's backend.
        keep: names of blobs that stay readable after the step; None keeps all, and shares no memory.
    """

    def __init__(self, ops: list[Op], main: Backend, keep: Iterable[str] | None) -> None:
        self.ops = ops
        self.main = main
        self.backends = {main.name: main, **{op.backend.name: op.backend for op in ops}}
        self.keep_all = keep is None
        self.keep = set(keep or ())
        self.copies: list[tuple[str, Space, Space]] = []
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
            planned += sum(size for size in _share(groups).values())
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
            for members, size in _share(groups).items():
                base = self._owner(space).empty((size // _size(dtype),), dtype)
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

    # Steps

    def forward_steps(self, before: Callable[[Op], list[Step]], *, sources: bool) -> list[Step]:
        """Give the steps of the sources, or those of all other ops, with the copies after them.

        `before` gives the steps that come before an op's own.
        """
        steps: list[Step] = []
        for op in self.ops:
            if op.is_source != sources:
                continue
            steps += before(op)
            steps.append(self._step("forward", op, op.input_arrays, op.state.blobs))
            for value in op.outputs:
                for space in self._reading_spaces(value):
                    steps += self._copies(op.name, value, value.space, space)
        return steps

    def backward_steps(self, after: Callable[[Op], list[Step]]) -> list[Step]:
        """Give the steps of the backward pass; `after` gives those that follow an op's own."""
        steps: list[Step] = []
        started: set[int] = set()
        for op in reversed(self.ops):
            if not op.backward:
                continue
            lists = (op.input_arrays, op.diff_arrays, op.state.blobs, op.state.blobs_diff)
            steps.append(self._step("backward", op, *lists))
            steps += after(op)
            for place, value in enumerate(op.inputs):
                part = op.input_diffs[place]
                if part is None or value.gradient is None:
                    continue
                plain = plain_space(self.main)
                ends = {value.gradient.space, plain} if value.gradient.pinned else {value.gradient.space}
                start = op.space(value)
                if id(value) in self.sums:
                    steps += self._sum(op, part, value, first=id(value) not in started)
                    started.add(id(value))
                    if part is not self.sums[id(value)][-1][1]:
                        continue
                    start = plain
                for end in sorted(ends - {start}):
                    steps += self._copies(op.name, value.gradient, start, end)
        return steps

    def _sum(self, op: Op, part: Value, value: Value, *, first: bool) -> list[Step]:
        plain = plain_space(self.main)
        total = value.gradient
        assert total is not None
        steps = self._copies(op.name, part, op.space(value), plain)
        self.need(part, plain)
        self.need(total, plain)

        arrays: list[Any] = []
        xp = self.main.xp

        def add() -> None:
            if not arrays:
                arrays.extend((self.array(total, plain), self.array(part, plain)))
            if first:
                xp.copyto(*arrays)
            else:
                xp.add(*arrays, out=arrays[0])

        steps.append(Step("accumulate", op.name, add))
        return steps

    def _step(self, method: str, op: Op, *lists: list[Any]) -> Step:
        state = op.state
        own = op.backend if op.kernel else None
        if method == "forward":
            arrays = op.input_arrays

            def call() -> None:
                state.forward(arrays)
        else:
            arrays, diffs = op.input_arrays, op.diff_arrays

            def call() -> None:
                state.backward(arrays, diffs)

        return Step(method, op.name, call, own, state, method, lists)

    def _reading_spaces(self, value: Value) -> list[Space]:
        readers = [op for op in self.ops if any(one is value for one in op.inputs)]
        spaces = [space for op in readers if (space := op.space(value)) != value.space]
        if self.keep_all or value.pinned or value.name in self.keep:
            spaces.append(plain_space(self.main))
        return sorted(set(spaces) - {value.space})

    def _copies(self, name: str, value: Value, start: Space, end: Space) -> list[Step]:
        """Give the steps that copy a value from one space to another, hop by hop."""
        if start == end:
            return []
        path = _path(start, end, self.backends)
        steps: list[Step] = []
        for one, other in itertools.pairwise(path):
            self.need(value, one)
            self.need(value, other)
            self.copies.append((value.name, one, other))
            steps.append(self._copy(name, value, one, other))
        return steps

    def _copy(self, name: str, value: Value, one: Space, other: Space) -> Step:
        owner = self.backends[(one if one[0] != "host" else other)[1]]
        if "own" in (one[0], other[0]):
            out = one[0] == "own"
            blob = self.own(value, one if out else other)
            space = other if out else one

            arrays: list[Any] = []

            def convert() -> None:
                if not arrays:
                    arrays.append(self.array(value, space))
                if out:
                    owner.unpack(blob, arrays[0])
                else:
                    owner.pack(arrays[0], blob)

            return Step("copy", name, convert, owner, None, "unpack" if out else "pack", ([blob], arrays))

        def move() -> None:
            if other == HOST:
                self.array(value, HOST)[...] = owner.to_host(self.array(value, one))
            else:
                owner.from_host(self.array(value, HOST), self.array(value, other))

        return Step("copy", name, move, None, None, "to_host" if other == HOST else "from_host")


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


def value_bytes(value: Value) -> int:
    """Give the bytes of a plain array of a value."""
    return Blob(value.shape, value.dtype).size * _size(value.dtype)


def _size(dtype: str) -> int:
    return {"float64": 8, "int64": 8, "uint64": 8, "int32": 4, "uint32": 4, "uint8": 1, "bool": 1, "int8": 1}.get(
        dtype, 2 if dtype.endswith("16") else 4
    )


def _share(groups: Sequence[Group]) -> dict[tuple[Group, ...], int]:
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


def _path(start: Space, end: Space, backends: dict[str, Backend]) -> list[Space]:
    """Give the way from one memory to another: own blobs, plain arrays, the host, and up again."""

    def down(space: Space) -> list[Space]:
        way = [space]
        if way[-1][0] == "own":
            way.append(plain_space(backends[space[1]]))
        if way[-1] != HOST:
            way.append(HOST)
        return way

    first, second = down(start), down(end)
    meeting = next(space for space in first if space in second)
    return first[: first.index(meeting) + 1] + second[: second.index(meeting)][::-1]


def compile_steps(steps: Sequence[Step], plan: dict[str, Any]) -> Callable[[], None]:
    """Make one call of a list of steps: each run of a backend's own steps is compiled by that backend."""
    calls: list[Callable[[], None]] = []
    for own, run in itertools.groupby(steps, key=lambda step: step.own):
        members = list(run)
        if own is None:
            calls += [step.call for step in members]
        else:
            blobs = list({id(blob): blob for step in members for blob in step.blobs}.values())
            first, last = members[0], members[-1]  # the same run has the same name in whatever list it stands
            name = f"{own.name}: {first.kind} {first.name} to {last.kind} {last.name}"
            part: dict[str, Any] = plan.setdefault(name, {})
            calls.append(own.compile(members, blobs, part))
    return loop([Step("run", "", call) for call in calls])
