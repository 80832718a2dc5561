"""Which layouts the blobs of a run have, and which ways its kernels take: timed on scratch memory, kept in the plan."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nacre import NacreError, Own

from .kernel import Layouts, OnednnKernel, unpadded
from .library import Argument, Unimplemented, library
from .primitives import BLOCKED, CHANNELS_LAST, Call, Memory
from .record import Scratch

CANDIDATES = (CHANNELS_LAST, BLOCKED)
LONG = 0.02
"""Seconds above which a call is timed once only."""


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
        plan.update(_fastest(undecided, open_blobs))
        _follow(undecided, plan)
    for blob in open_blobs:
        blob.layout = layout_of(blob.shape, plan["layout"])


def _tried(candidate: str) -> Layouts:
    return lambda blob: blob.layout or layout_of(blob.shape, candidate)


def _follow(kernels: Sequence[OnednnKernel], plan: Mapping[str, Any]) -> bool:
    """Let kernels take the ways of a plan; False where it says nothing, or names what cannot be done here."""
    if plan.get("layout") not in CANDIDATES:
        return False
    layouts, ways = _tried(plan["layout"]), plan.get("ways", {})
    for kernel in kernels:
        found = {
            part: ways.get(kernel.layer_name, {}).get(part, kernel.ways_of(part, layouts)[0]) for part in kernel.parts()
        }
        try:
            for part, way in found.items():
                if way not in kernel.ways_of(part, layouts):
                    return False
                kernel.make(part, way, layouts)
        except Unimplemented:
            return False
        kernel.ways, kernel.decided = found, True
    return True


def _fastest(kernels: Sequence[OnednnKernel], blobs: Sequence[Own]) -> dict[str, Any]:
    """Time the kernels in each candidate layout, every part in each of its ways."""
    clock = Clock()
    candidates = CANDIDATES if any(layout_of(blob.shape, BLOCKED) == BLOCKED for blob in blobs) else CANDIDATES[:1]
    found: list[tuple[float, dict[str, Any]]] = []
    for candidate in candidates:
        layouts = _tried(candidate)
        total, ways = 0.0, dict[str, dict[str, str]]()
        for kernel in kernels:
            for part in kernel.parts():
                seconds, way = _best_way(clock, kernel, part, layouts)
                total += seconds
                if len(kernel.ways_of(part, layouts)) > 1:
                    ways.setdefault(kernel.layer_name, {})[part] = way
        found.append((total, {"layout": candidate, "ways": ways}))
    seconds, best = min(found, key=lambda one: one[0])
    if seconds == float("inf"):
        raise NacreError(
            f"oneDNN {library().version} cannot run {', '.join(one.layer_name for one in kernels)} together"
        )
    return best


def _best_way(clock: Clock, kernel: OnednnKernel, part: str, layouts: Layouts) -> tuple[float, str]:
    best, taken, seen = float("inf"), "", list[list[str]]()
    for way in kernel.ways_of(part, layouts):
        try:
            calls = kernel.make(part, way, layouts)
        except Unimplemented:
            continue
        described = [f"{call.primitive.info} {sorted(call.buffers.items(), key=lambda one: one[0])}" for call in calls]
        if described in seen:
            continue
        seen.append(described)
        seconds = clock.seconds(calls)
        if seconds < best:
            best, taken = seconds, way
    return best, taken


class Clock:
    """Times calls on scratch memory of its own."""

    def __init__(self) -> None:
        self.scratch = Scratch()

    def seconds(self, calls: Sequence[Call]) -> float:
        """Give the shortest of a few runs."""
        here = library()
        for call in calls:
            self.scratch.reserve(call.sizes())
        prepared: list[tuple[Any, ...]] = []
        alive: list[Any] = []
        for call in calls:
            memories = [Memory(desc, self.scratch.array(name).ctypes.data) for name, desc in call.buffers.values()]
            arguments = (Argument * len(memories))()
            for argument, number, memory in zip(arguments, call.buffers, memories, strict=True):
                argument.number, argument.memory = number, memory.handle.value
            prepared.append((call.primitive.made, here.stream, len(memories), ctypes.addressof(arguments)))
            alive += [memories, arguments]
        best = float("inf")
        for _ in range(4):
            start = time.perf_counter()
            for one in prepared:
                here.execute(*one)
            best = min(best, time.perf_counter() - start)
            if best > LONG:
                break
        return best
