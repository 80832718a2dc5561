"""From ops and their memory to lists of steps, with the copies between memories, and to compiled calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..protocols.backend import Backend, Step, loop
from .memory import Memory
from .ops import HOST, Op, Space, Value, plain_space


class Schedule(Memory):
    """The steps of a net's passes over its memory.

    `copies` lists every copy between memories that they need: (blob, from, to).
    """

    def __init__(self, ops: list[Op], main: Backend, keep: Iterable[str] | None) -> None:
        super().__init__(ops, main, keep)
        self.copies: list[tuple[str, Space, Space]] = []
        self.readers: dict[int, list[Op]] = {}
        for op in ops:
            for value in op.inputs:
                self.readers.setdefault(id(value), []).append(op)

    def forward_steps(self, before: Callable[[Op], list[Step]], *, sources: bool) -> list[Step]:
        """Return the steps of the sources, or those of all other ops, with the copies after them.

        `before` gives the steps that come before an op's own.
        """
        steps: list[Step] = []
        for op in self.ops:
            if op.is_source != sources:
                continue
            steps += before(op)
            steps.append(self._step("forward", op))
            for value in op.outputs:
                for space in self._reading_spaces(value):
                    steps += self._copies(op.name, value, value.space, space)
        return steps

    def backward_steps(self, after: Callable[[Op], list[Step]]) -> list[Step]:
        """Return the steps of the backward pass; `after` gives those that follow an op's own."""
        steps: list[Step] = []
        started: set[int] = set()
        for op in reversed(self.ops):
            if not op.backward:
                continue
            steps.append(self._step("backward", op))
            steps += after(op)
            for place, value in enumerate(op.inputs):
                part = op.input_diffs[place]
                if part is None or value.gradient is None:
                    continue
                plain = plain_space(self.main)
                ends = {value.gradient.space, plain} if value.gradient.pinned else {value.gradient.space}
                start = op.space(value)
                if id(value) in self.sums:
                    space = self.sum_space(value)
                    steps += self._copies(op.name, part, start, space)
                    if part is not value.gradient:  # which the first may have written itself
                        steps.append(self._sum(op, part, value, space, first=id(value) not in started))
                    started.add(id(value))
                    if part is not self.sums[id(value)][-1][1]:
                        continue
                    start = space
                for end in sorted(ends - {start}):
                    steps += self._copies(op.name, value.gradient, start, end)
        return steps

    def _sum(self, op: Op, part: Value, value: Value, space: Space, *, first: bool) -> Step:
        total = value.gradient
        assert total is not None
        self.need(part, space)
        self.need(total, space)
        if space[0] == "own":
            owner, blobs = self.backends[space[1]], (self.own(part, space), self.own(total, space))
            return Step("accumulate", op.name, lambda: owner.add(*blobs, first=first), owner, None, "add")

        arrays: list[Any] = []
        xp = self.main.xp

        def add() -> None:
            if not arrays:
                arrays.extend((self.array(total, space), self.array(part, space)))
            if first:
                xp.copyto(*arrays)
            else:
                xp.add(*arrays, out=arrays[0])

        return Step("accumulate", op.name, add)

    def _step(self, method: str, op: Op) -> Step:
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

        return Step(method, op.name, call, own, state, method)

    def _reading_spaces(self, value: Value) -> list[Space]:
        spaces = [op.space(value) for op in self.readers.get(id(value), ())]
        if self.keep_all or value.pinned or value.name in self.keep:
            spaces.append(plain_space(self.main))
        return sorted(set(spaces) - {value.space})

    def _copies(self, name: str, value: Value, start: Space, end: Space) -> list[Step]:
        """Return the steps that copy a value from one space to another, hop by hop."""
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

            return Step("copy", name, convert, owner, None, "unpack" if out else "pack")

        def move() -> None:
            if other == HOST:
                self.array(value, HOST)[...] = owner.to_host(self.array(value, one))
            else:
                owner.from_host(self.array(value, HOST), self.array(value, other))

        return Step("copy", name, move, None, None, "to_host" if other == HOST else "from_host")


def _path(start: Space, end: Space, backends: dict[str, Backend]) -> list[Space]:
    """Return the way from one memory to another: own blobs, plain arrays, the host, and up again."""

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


def compile_steps(steps: Sequence[Step]) -> Callable[[], None]:
    """Make one call of a list of steps: each run of a backend's own steps is compiled by that backend."""
    calls: list[Callable[[], None]] = []
    for own, run in itertools.groupby(steps, key=lambda step: step.own):
        members = list(run)
        if own is None:
            calls += [step.call for step in members]
        else:
            calls.append(own.compile(members))
    return loop([Step("run", "", call) for call in calls])
