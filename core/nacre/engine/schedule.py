"""The steps of a net's passes, with the copies between memories, made from ops and their memory; compiled calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..discovery.blame import answered
from ..errors import NacreError
from ..protocols.backend import Backend, Step, loop
from .memory import Memory
from .ops import HOST, Op, Space, Value, call_named, members, plain_space, returned
from .parameters import Slot, as_own
from .shares import Shares, part_steps


class Schedule:
    """The steps of a net's passes over its memory and its parameters.

    `parameters` has the parameters of each op, with their slots; `copies` lists every copy of a blob between memories
    that the passes need: (blob, from, to). `shares` are those of the losses, of several ranks.
    """

    def __init__(self, memory: Memory, slots: Sequence[Slot], shares: Shares | None = None) -> None:
        self.memory = memory
        self.shares = shares
        self.ops = memory.ops
        self.main = memory.main
        self.slots = slots
        slot_of = {id(use.parameter): slot for slot in slots for use in slot.uses}
        everyone = dict.fromkeys([*self.ops, *members(self.ops)])
        self.parameters = {op: [(slot_of[id(one)], one) for one in op.state.parameters] for op in everyone}
        self.copies: list[tuple[str, Space, Space]] = []
        self._readers: dict[int, list[Op]] = {}
        for op in self.ops:
            for value in op.inputs:
                self._readers.setdefault(id(value), []).append(op)

    def passes(self) -> dict[str, list[Step]]:
        """Return the steps of each pass: "feed" (the sources), "forward" (all other layers) and "backward"."""
        self.copies.clear()
        return {
            "feed": self._forward_steps(sources=True),
            "forward": [
                *self._forward_steps(sources=False),
                *self._keep_buffers(),
                *([self.shares.step()] if self.shares else []),
            ],
            "backward": self._backward_steps(),
        }

    def refuse_copies(self) -> None:
        """Raise a NacreError if the passes copy blobs between memories; it names the layers that are the reason."""
        if self.copies:
            blobs = ", ".join(dict.fromkeys(name for name, _, _ in self.copies))
            missing = ", ".join(op.name for op in self.ops if not op.kernel and not op.is_source)
            raise NacreError(
                f"fallback='error', but the blobs {blobs} are copied between memories, because backend "
                f"'{self.main.name}' has no kernels for {missing}",
                "use fallback='warn', or another backend",
            )

    # Passes

    def _forward_steps(self, *, sources: bool) -> list[Step]:
        """Return the steps of the sources, or those of all other ops, with the copies after them."""
        steps: list[Step] = []
        for op in self.ops:
            if op.is_source != sources:
                continue
            steps += self._fetch_parameters(op)
            steps.append(self._step("forward", op))
            for value in op.outputs:
                for space in self._reading_spaces(value):
                    steps += self._copies(op.name, value, value.space, space)
        return steps

    def _backward_steps(self) -> list[Step]:
        steps: list[Step] = []
        started: set[int] = set()
        for op in reversed(self.ops):
            if not op.backward:
                continue
            steps.append(self._step("backward", op))
            steps += part_steps(op, self.ops)
            if self.shares is not None and op in self.shares.losing:
                steps.append(self.shares.backward_step(op))
            steps += self._add_gradients(op)
            for index, value in enumerate(op.inputs):
                part = op.input_diffs[index]
                if part is None or value.gradient is None:
                    continue
                plain = plain_space(self.main)
                ends = {value.gradient.space, plain} if value.gradient.pinned else {value.gradient.space}
                start = op.space(value)
                if id(value) in self.memory.sums:
                    space = self.memory.sum_space(value)
                    steps += self._copies(op.name, part, start, space)
                    if part is not value.gradient:  # the first may have written into the sum directly
                        steps.append(self._sum(op, part, value, space, first=id(value) not in started))
                    started.add(id(value))
                    if part is not self.memory.sums[id(value)][-1][1]:
                        continue
                    start = space
                for end in sorted(ends - {start}):
                    steps += self._copies(op.name, value.gradient, start, end)
        return steps

    def _sum(self, op: Op, part: Value, value: Value, space: Space, *, first: bool) -> Step:
        total, memory = value.gradient, self.memory
        assert total is not None
        memory.need(part, space)
        memory.need(total, space)
        if space[0] == "own":
            owner, blobs = memory.backends[space[1]], (memory.own(part, space), memory.own(total, space))
            return Step("accumulate", op.name, lambda: owner.add(*blobs, first=first), owner, None, "add")

        parts: list[Any] = []
        main = self.main
        by_kernels = bool(op.kernel) and op.backend is main and main.elementwise and space == plain_space(main)

        def add() -> None:
            if not parts:
                arrays = (memory.array(one, space) for one in (part, total))
                parts.extend((as_own(main, one) for one in arrays) if by_kernels else arrays)
            if by_kernels:
                main.add(*parts, first=first)
            elif first:
                main.xp.copyto(parts[1], parts[0])
            else:
                main.xp.add(parts[1], parts[0], out=parts[1])

        return Step("accumulate", op.name, add, main if main.captures or by_kernels else None)

    def _step(self, method: str, op: Op) -> Step:
        state = op.state
        records = op.backend.captures and state.capturable and not type(state).host_only
        own = op.backend if op.kernel or records else None
        if method == "forward":

            def call() -> None:
                if (result := state.forward(op.given)) is not None:
                    raise returned(state, method, result, "self.blobs[0]")
        else:

            def call() -> None:
                if (result := state.backward(op.given, op.given_diffs)) is not None:
                    raise returned(state, method, result, "diffs[0]")

        return Step(method, op.name, partial(call_named, op.node, call) if op.node.inside else call, own, state, method)

    def _reading_spaces(self, value: Value) -> list[Space]:
        spaces = [op.space(value) for op in self._readers.get(id(value), ())]
        if self.memory.keep_all or value.pinned or value.name in self.memory.keep:
            spaces.append(plain_space(self.main))
        return sorted(set(spaces) - {value.space})

    def _copies(self, name: str, value: Value, start: Space, end: Space) -> list[Step]:
        """Return the steps that copy a value from one space to another, maybe through others."""
        if start == end:
            return []
        path = _path(start, end, self.memory.backends)
        steps: list[Step] = []
        for one, other in itertools.pairwise(path):
            self.memory.need(value, one)
            self.memory.need(value, other)
            self.copies.append((value.name, one, other))
            steps.append(self._copy(name, value, one, other))
        return steps

    def _copy(self, name: str, value: Value, one: Space, other: Space) -> Step:
        memory = self.memory
        owner = memory.backends[(one if one[0] != "host" else other)[1]]
        if "own" in (one[0], other[0]):
            out = one[0] == "own"
            blob = memory.own(value, one if out else other)
            space = other if out else one
            key, arrays = (id(value), space), memory.converted

            def convert() -> None:
                if key not in arrays:
                    arrays[key] = memory.array(value, space)
                if out:
                    owner.unpack(blob, arrays[key])
                else:
                    owner.pack(arrays[key], blob)

            return Step("copy", name, convert, owner, None, "unpack" if out else "pack")

        def move() -> None:
            if other == HOST:
                memory.array(value, HOST)[...] = owner.to_host(memory.array(value, one))
            else:
                owner.upload(memory.array(value, HOST), memory.array(value, other))

        return Step("copy", name, move, None, None, "to_host" if other == HOST else "from_host")

    # Copies of parameters

    def _fetch_parameters(self, op: Op) -> list[Step]:
        """Return the steps that copy parameters to a state that needs NumPy arrays."""
        return [
            Step("copy", slot.name, partial(slot.fetch, parameter, self.main))
            for slot, parameter in self.parameters[op]
            if parameter in slot.on_host
        ]

    def _keep_buffers(self) -> list[Step]:
        """Return the steps that copy the buffers of states that need NumPy arrays back to the device."""
        return [
            Step("copy", slot.name, partial(slot.keep, parameter, self.main))
            for slot in self.slots
            for parameter in slot.on_host
            if not slot.trainable and not parameter.tied
        ]

    def _add_gradients(self, op: Op) -> list[Step]:
        """Return the steps that add an op's gradients of shared parameters to the others."""
        steps: list[Step] = []
        for slot, parameter in self.parameters[op]:
            if slot.frozen:
                continue
            if slot.on_host.get(parameter) is not None:
                steps.append(Step("copy", slot.name, partial(slot.give_back, parameter, self.main)))
            if parameter in slot.parts:
                steps.append(slot.add_step(parameter, self.main, op.backend if op.kernel else None))
        return steps


def _path(start: Space, end: Space, backends: dict[str, Backend]) -> list[Space]:
    """Return the path from one memory to another: own blobs, plain arrays, the host, and up again."""

    def down(space: Space) -> list[Space]:
        path = [space]
        if path[-1][0] == "own":
            path.append(plain_space(backends[space[1]]))
        if path[-1] != HOST:
            path.append(HOST)
        return path

    first, second = down(start), down(end)
    meeting = next(space for space in first if space in second)
    return first[: first.index(meeting) + 1] + second[: second.index(meeting)][::-1]


def failing_step(error: BaseException, steps: Sequence[Step]) -> Step | None:
    """Return the step of a compiled pass that raised: the traceback goes through a frame that holds it, or its call."""
    known = {id(one): step for step in steps for one in (step, step.call)}
    traceback = error.__traceback__
    while traceback is not None:
        for value in traceback.tb_frame.f_locals.values():
            if (step := known.get(id(value))) is not None:
                return step
        traceback = traceback.tb_next
    return steps[0] if len(steps) == 1 else None


def compile_steps(steps: Sequence[Step]) -> Callable[[], None]:
    """Return one function that runs a list of steps; neighbours that belong to one backend are compiled by it."""
    calls: list[Callable[[], None]] = []
    for own, run in itertools.groupby(steps, key=lambda step: step.own):
        members = list(run)
        if own is None:
            calls += [step.call for step in members]
            for step in members:
                if step.kind == "phase":
                    step.call()  # so that the next steps are recorded in this phase
        else:
            compiled = own.compile(members)
            calls.append(answered(own, "compile", compiled, Callable, "a function that runs the steps"))
    return loop([Step("run", "", call) for call in calls])
