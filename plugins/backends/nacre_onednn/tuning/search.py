"""Which layouts the blobs of a net have, and which ways its kernels take: timed on scratch memory, kept in the plan."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from nacre import NacreError, Own, number_of_threads

from ..dnnl.library import Unimplemented, library
from ..dnnl.primitives import BLOCKED, CHANNELS_LAST, Call
from ..kernels.base import Layouts, OnednnKernel, layout_of
from ..record import Record, rounded_up
from .plans import Kept, key_of, likeness

CANDIDATES = (CHANNELS_LAST, BLOCKED)
ROUNDS = 5
"""Turns of a trial, of which the first warms the caches."""


LONG = 0.02
"""Seconds above which two turns are enough."""


HOPELESS = 2
"""What takes so many times as long as the best in its first turn gets no other."""


SILENT = 2.0
"""Seconds of trials after which people are told what they wait for."""


PAGE = 4096
CLEARLY = 0.97
"""What is not faster than this may be so by chance."""


def decide(
    kernels: Sequence[OnednnKernel], blobs: Sequence[Own], plan: dict[str, Any], machine: Mapping[str, Any]
) -> None:
    """Choose the layouts of a net's blobs, and its kernels' ways.

    Whatever is decided goes into `plan`; what it has decided already is followed, as far as this library can. Else
    the plan is the one that was kept for such a net on such a machine. That of a deterministic net comes from rules.
    """
    if kernels and not _follow(kernels, plan):
        if kernels[0].backend.deterministic:
            found = _by_rule(kernels)
        else:
            found = _kept_or_fastest(kernels, blobs, machine)
        plan.clear()
        plan.update(found)
    for blob in blobs:
        blob.layout = layout_of(blob.shape, plan.get("layout", CHANNELS_LAST))


def _by_rule(kernels: Sequence[OnednnKernel]) -> dict[str, Any]:
    """Let kernels take the first layout and the first ways that there are: the same at every start."""
    for candidate in CANDIDATES:
        if _follow(kernels, {"layout": candidate}):
            ways = {kernel.layer_name: dict(kernel.ways) for kernel in kernels if any(kernel.ways.values())}
            return {"layout": candidate, "ways": ways}
    raise _cannot_run(kernels)


def _cannot_run(kernels: Sequence[OnednnKernel]) -> NacreError:
    names = ", ".join(kernel.layer_name for kernel in kernels)
    return NacreError(
        f"oneDNN {library().version} cannot run {names} on one another's blobs", "take another backend, such as numpy"
    )


def _kept_or_fastest(
    kernels: Sequence[OnednnKernel], blobs: Sequence[Own], machine: Mapping[str, Any]
) -> dict[str, Any]:
    kept = Kept(key_of(kernels, machine))
    found = kept.read()
    if not _follow(kernels, found):
        found = _fastest(kernels, blobs)
        kept.write(found)
    return found


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
            for each in kernels:
                each.taken.clear()
            return False
    return True


def _way_of(plan: Mapping[str, Any], kernel: OnednnKernel, part: str, layouts: Layouts) -> str | None:
    """Return the way that a plan says; None where it says none that this version knows."""
    ways = plan.get("ways")
    ways = ways.get(kernel.layer_name) if isinstance(ways, Mapping) else None
    way = ways.get(part) if isinstance(ways, Mapping) else None
    return way if way in kernel.ways_of(part, layouts) else None


def _fastest(kernels: Sequence[OnednnKernel], blobs: Sequence[Own]) -> dict[str, Any]:
    """Time the kernels in each candidate layout, every part in each of its ways; let them take the fastest.

    Of the layouts, and of the ways of a part, a later one is taken only where it is clearly faster.
    """
    candidates = CANDIDATES if any(layout_of(blob.shape, BLOCKED) == BLOCKED for blob in blobs) else CANDIDATES[:1]
    totals: dict[str, float] = dict.fromkeys(candidates, 0.0)
    taken: dict[str, list[tuple[OnednnKernel, str, Trial]]] = {candidate: [] for candidate in candidates}
    timed: dict[tuple[str, str], dict[tuple[str, str], float]] = {}  # of layers that are alike only the first is timed
    start, told = time.monotonic(), False
    for number, kernel in enumerate(kernels):
        if not told and time.monotonic() - start > SILENT:
            told = True
            done = f"{number} of {len(kernels)} layers are done, and the choice is kept for the next start"
            sys.stderr.write(f"onednn: trying which layouts are fastest for this net; {done}\n")
        like = likeness(kernel)
        for part in kernel.parts():
            trials = _timed(kernel, part, candidates, timed.setdefault((like, part), {}))
            for candidate, each in trials.items():
                seconds, best = _clearly_least([(trial.seconds, trial) for trial in each] or [(inf, None)])
                totals[candidate] += seconds
                if best is not None:
                    taken[candidate].append((kernel, part, best))
    seconds, layout = _clearly_least([(total, candidate) for candidate, total in totals.items()])
    if seconds == inf:
        raise _cannot_run(kernels)
    ways: dict[str, dict[str, str]] = {}
    for kernel, part, trial in taken[layout]:
        kernel.taken[part] = trial.calls
        if trial.way:
            ways.setdefault(kernel.layer_name, {})[part] = trial.way
    return {"layout": layout, "ways": ways}


def _timed(
    kernel: OnednnKernel, part: str, candidates: Sequence[str], known: dict[tuple[str, str], float]
) -> dict[str, list[Trial]]:
    """Return the timed trials of a part in each candidate; times are taken from `known`, or added to it."""
    trials: dict[str, list[Trial]] = {}
    for candidate in candidates:
        before = [trial for each in trials.values() for trial in each]
        trials[candidate] = _trials(kernel, part, _tried(candidate), before)
    found = {(candidate, trial.way): trial for candidate, each in trials.items() for trial in each}
    if unknown := dict.fromkeys(trial for place, trial in found.items() if place not in known):
        time_all(list(unknown))
    for place, trial in found.items():
        trial.seconds = known.setdefault(place, trial.seconds)
    return trials


def _clearly_least(found: Sequence[tuple[float, Any]]) -> tuple[float, Any]:
    best = found[0]
    for one in found[1:]:
        if one[0] < best[0] * CLEARLY:
            best = one
    return best


class Trial:
    """One way of one part, and the least time that it took."""

    def __init__(self, way: str, calls: list[Call]) -> None:
        self.way, self.calls = way, calls
        self.seconds = inf
        self.replay: Callable[[], None] | None = None

    def prepare(self, addresses: Mapping[str, int]) -> None:
        """Compile the primitives, and bind them to memory; what is done once is done here."""
        first, record = Record(), Record()
        for call in self.calls:
            (first if call.once else record).add_call(call, addresses, ())
        threads = number_of_threads()
        first.replay(threads)()
        self.replay = record.replay(threads)

    def run(self) -> None:
        """Run once, and note the time."""
        assert self.replay is not None, "the trial was not prepared"
        start = time.perf_counter()
        self.replay()
        self.seconds = min(self.seconds, time.perf_counter() - start)


def _trials(kernel: OnednnKernel, part: str, layouts: Layouts, before: Sequence[Trial]) -> list[Trial]:
    """Return the ways of a part that differ, and that there is good code for; of those `before`, what is the same."""
    found: list[Trial] = []
    for way in kernel.ways_of(part, layouts):
        try:
            calls = kernel.make(part, way, layouts)
        except Unimplemented:
            continue
        if not any(_same(trial.calls, calls) for trial in found):
            twins = (trial for trial in before if trial.way == way and _same(trial.calls, calls))
            found.append(next(twins, None) or Trial(way, calls))
    return found


def _same(some: Sequence[Call], others: Sequence[Call]) -> bool:
    return len(some) == len(others) and all(
        one.info == other.info and one.buffers == other.buffers for one, other in zip(some, others, strict=True)
    )


def time_all(trials: Sequence[Trial]) -> None:
    """Time trials in turns, so that what disturbs the machine for a moment does not fall on one of them alone."""
    places: dict[str, int] = {}
    for trial in trials:
        for call in trial.calls:
            for name, size in call.sizes().items():
                places[name] = max(size, places.get(name, 0))
    offsets = [0, *itertools.accumulate(rounded_up(size, PAGE) for size in places.values())]
    with contextlib.closing(mmap.mmap(-1, max(offsets[-1], 1))) as memory:  # given back to the system at once
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        addresses = {name: start + offset for name, offset in zip(places, offsets, strict=False)}
        for trial in trials:
            trial.prepare(addresses)
        for number in range(ROUNDS):
            best = min((trial.seconds for trial in trials), default=inf)
            for trial in trials:
                if number == 0 or (trial.seconds < HOPELESS * best and (number == 1 or trial.seconds < LONG)):
                    trial.run()
        for trial in trials:
            trial.replay = None  # the memory goes
