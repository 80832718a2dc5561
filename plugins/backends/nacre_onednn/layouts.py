"""Which layouts the blobs of a run have, and which ways its kernels take: timed on scratch memory, kept in the plan."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nacre import NacreError, Own

from .kernel import Layouts, OnednnKernel, unpadded
from .library import Unimplemented, library
from .primitives import BLOCKED, CHANNELS_LAST, Call, Memory
from .record import Scratch, make_arguments

CANDIDATES = (CHANNELS_LAST, BLOCKED)
ROUNDS = 5
"""Turns of a trial, of which the first warms the caches."""
LONG = 0.02
"""Seconds above which two turns are enough."""
CLEARLY = 0.97
"""What is not faster than this may be so by chance."""


def layout_of(shape: tuple[int, ...], candidate: str) -> str:
    """Give the layout of own blobs of a shape: blocks only where none would be padded."""
    return unpadded(shape, candidate)


def decide(kernels: Sequence[OnednnKernel], blobs: Sequence[Own], plan: dict[str, Any]) -> None:
    """Give layouts to blobs that have none, and ways to kernels that have not taken theirs.

    Whatever is decided goes into `plan`; what it has decided already is followed, as far as this library can.
    """
    undecided = [kernel for kernel in kernels if not kernel.decided]
    open_blobs = [blob for blob in blobs if blob.layout is None]
    if not undecided and not open_blobs:
        return
    if not _follow(undecided, plan):
        found = _fastest(undecided, open_blobs)
        plan.update(found, ways={**plan.get("ways", {}), **found["ways"]})
        _follow(undecided, plan)
    for blob in open_blobs:
        blob.layout = layout_of(blob.shape, plan["layout"])


def _tried(candidate: str) -> Layouts:
    return lambda blob: blob.layout or layout_of(blob.shape, candidate)


def _follow(kernels: Sequence[OnednnKernel], plan: Mapping[str, Any]) -> bool:
    """Let kernels take the ways of a plan; False where it says nothing, or names what cannot be done here."""
    if plan.get("layout") not in CANDIDATES:
        return False
    layouts = _tried(plan["layout"])
    for kernel in kernels:
        try:
            for part in kernel.parts():
                kernel.make_first(part, layouts, _way_of(plan, kernel, part, layouts))
        except Unimplemented:
            kernel.ways.clear()
            return False
        kernel.decided = True
    return True


def _way_of(plan: Mapping[str, Any], kernel: OnednnKernel, part: str, layouts: Layouts) -> str | None:
    """Give the way that a plan says; None where it says none that this version knows."""
    ways = plan.get("ways")
    ways = ways.get(kernel.layer_name) if isinstance(ways, Mapping) else None
    way = ways.get(part) if isinstance(ways, Mapping) else None
    return way if way in kernel.ways_of(part, layouts) else None


def _fastest(kernels: Sequence[OnednnKernel], blobs: Sequence[Own]) -> dict[str, Any]:
    """Time the kernels in each candidate layout, every part in each of its ways.

    Of the layouts, and of the ways of a part, a later one is taken only where it is clearly faster.
    """
    candidates = CANDIDATES if any(layout_of(blob.shape, BLOCKED) == BLOCKED for blob in blobs) else CANDIDATES[:1]
    trials = {
        (candidate, kernel.layer_name, id(kernel), part): _trials(kernel, part, _tried(candidate))
        for candidate in candidates
        for kernel in kernels
        for part in kernel.parts()
    }
    time_all([trial for each in trials.values() for trial in each])
    found: list[tuple[float, dict[str, Any]]] = []
    for candidate in candidates:
        total, ways = 0.0, dict[str, dict[str, str]]()
        for (tried, name, _, part), each in trials.items():
            if tried == candidate:
                seconds, way = _clearly_least([(trial.seconds, trial.way) for trial in each] or [(float("inf"), "")])
                total += seconds
                if way:
                    ways.setdefault(name, {})[part] = way
        found.append((total, {"layout": candidate, "ways": ways}))
    seconds, best = _clearly_least(found)
    if seconds == float("inf"):
        names = ", ".join(kernel.layer_name for kernel in kernels)
        raise NacreError(f"oneDNN {library().version} cannot run {names} on one another's blobs")
    return best


def _clearly_least(found: Sequence[tuple[float, Any]]) -> tuple[float, Any]:
    best = found[0]
    for one in found[1:]:
        if one[0] < best[0] * CLEARLY:
            best = one
    return best


class Trial:
    """One way of one part, and the least time that it took."""

    def __init__(self, way: str, calls: Sequence[Call]) -> None:
        self.way, self.calls = way, calls
        self.seconds = float("inf")
        self.prepared: list[tuple[Any, ...]] = []
        self.alive: list[Any] = []

    def prepare(self, scratch: Scratch) -> None:
        """Compile the primitives, and bind them to scratch memory."""
        here = library()
        for call in self.calls:
            memories = [Memory(desc, scratch.array(name).ctypes.data) for name, desc in call.buffers.values()]
            arguments = make_arguments(call, memories)
            self.prepared.append((call.primitive.made, here.stream, len(memories), ctypes.addressof(arguments)))
            self.alive += [memories, arguments]

    def run(self) -> None:
        """Run once, and note the time."""
        execute = library().execute
        start = time.perf_counter()
        for one in self.prepared:
            execute(*one)
        self.seconds = min(self.seconds, time.perf_counter() - start)


def _trials(kernel: OnednnKernel, part: str, layouts: Layouts) -> list[Trial]:
    """Give the ways of a part that differ, and that oneDNN has good code for."""
    found: list[Trial] = []
    for way in kernel.ways_of(part, layouts):
        try:
            calls = kernel.make(part, way, layouts)
        except Unimplemented:
            continue
        if not any(_same(trial.calls, calls) for trial in found):
            found.append(Trial(way, calls))
    return found


def _same(some: Sequence[Call], others: Sequence[Call]) -> bool:
    return len(some) == len(others) and all(
        one.primitive.info == other.primitive.info and one.buffers == other.buffers
        for one, other in zip(some, others, strict=True)
    )


def time_all(trials: Sequence[Trial]) -> None:
    """Time trials in turns, so that what disturbs the machine for a moment does not fall on one of them alone."""
    scratch = Scratch()
    for trial in trials:
        for call in trial.calls:
            scratch.reserve(call.sizes())
    for trial in trials:
        trial.prepare(scratch)
    for number in range(ROUNDS):
        for trial in trials:
            if number < 2 or trial.seconds < LONG:
                trial.run()
