"""Chooses the layouts of a net's blobs and the ways of its kernels, by timing them on scratch memory."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf, prod
from typing import Any

from nacre import NacreError, Own

from ..dnnl.library import Unimplemented, library
from ..dnnl.primitives import BLOCKED, CHANNELS_LAST, IN_ORDER, Call
from ..helper.native import lanes
from ..helper.product import PanelProduct
from ..kernels.base import Layouts, OnednnKernel, layout_of
from ..kernels.element_wise import ElementWiseKernel
from ..record import Record, recorder, rounded_up, sizes_of
from .plans import Kept, key_of, likeness

CANDIDATES = (CHANNELS_LAST, BLOCKED)
ROUNDS = 5
"""Rounds in which every trial is timed. The first also warms the caches."""


LONG = 0.02
"""A trial that takes more seconds than this is timed in two rounds only."""


HOPELESS = 2
"""A trial slower than this multiple of the best in the first round is dropped."""


TURNS = 4
"""How often a trial that takes little time is run in a round: on a busy machine its threads may have to wait, for a
hundred times as long as it takes."""


SHORT, AT_FIRST = 2e-4, 5e-3
"""The seconds after which a round runs a trial no more; the first one is longer, since it drops trials."""


SILENT = 2.0
"""Seconds of trials after which a message says what takes so long."""


PAGE = 4096
CACHED = 1 << 22
"""Bytes of parameters that caches next to the cores hold: of more, a prediction finds none of a layer's there."""


CLEARLY = 0.97
"""A trial replaces an earlier one only if it needs less than this share of its time: less may be chance."""


def decide(
    kernels: Sequence[OnednnKernel], blobs: Sequence[Own], plan: dict[str, Any], machine: Mapping[str, Any]
) -> None:
    """Choose the layouts of a net's blobs, and its kernels' ways.

    A plan that has been decided already is followed, if this library can. Otherwise it becomes the one on disk for such
    a net on such a machine, or else a new one by trials. A deterministic net gets one by rules, and so does one
    for whose trials there is no memory; that is not kept on disk.
    """
    _keep_in_order(kernels, blobs)
    for kernel in kernels:
        if isinstance(kernel, ElementWiseKernel):
            kernel.take_over()
    if kernels and not _follow(kernels, plan):
        if kernels[0].backend.deterministic:
            found = _by_rule(kernels)
        else:
            found = _kept_or_fastest(kernels, blobs, machine)
        plan.clear()
        plan.update(found)
    for blob in blobs:
        blob.layout = blob.layout or layout_of(blob.shape, plan.get("layout", CHANNELS_LAST))


def _keep_in_order(kernels: Sequence[OnednnKernel], blobs: Sequence[Own]) -> None:
    """Let blobs of bf16 with three or five axes lie in C order, unless they are images.

    They are images where a kernel reads them by their channels, and none wants them in C order, nor blobs that must lie
    as they do. (In float32 the latter kernels get plain arrays.)
    """
    free = {id(blob) for blob in blobs if blob.dtype == "bf16" and len(blob.shape) in (3, 5)}
    groups = [(kernel.LIES, {id(one) for one in group} & free) for kernel in kernels for group in kernel.ends()]
    together = [group for _, group in groups if len(group) > 1]

    def spread(wanted: str) -> set[int]:
        found = set[int]().union(*(group for lies, group in groups if lies == wanted))
        before = -1
        while len(found) > before:
            before = len(found)
            for group in (*together, *reversed(together)):
                if found & group:
                    found |= group
        return found

    images = spread("by channels") - spread("in order")
    for blob in blobs:
        if id(blob) in free - images:
            blob.layout = IN_ORDER


def _by_rule(kernels: Sequence[OnednnKernel]) -> dict[str, Any]:
    """Let kernels take the first layout and the first ways that oneDNN has: the same at every start."""
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
        try:
            found = _fastest(kernels, blobs)
        except MemoryError:
            sys.stderr.write("onednn: no memory to try which layouts are fastest for this net: they are by rule\n")
            return _by_rule(kernels)
        kept.write(found)
    return found


def _tried(candidate: str) -> Layouts:
    return lambda blob: blob.layout or layout_of(blob.shape, candidate)


def _follow(kernels: Sequence[OnednnKernel], plan: Mapping[str, Any]) -> bool:
    """Let kernels take the ways of a plan; return False if it is empty, or has what cannot be done here."""
    if plan.get("layout") not in CANDIDATES:
        return False
    layouts = _tried(plan["layout"])
    for kernel in kernels:
        try:
            for stage in kernel.stages():
                kernel.make_first(stage, layouts, _way_of(plan, kernel, stage, layouts))
        except Unimplemented:
            for each in kernels:
                each.taken.clear()
            return False
    return True


def _way_of(plan: Mapping[str, Any], kernel: OnednnKernel, stage: str, layouts: Layouts) -> str | None:
    """Return the way that a plan has for a stage, or None if it has none that this version knows."""
    ways = plan.get("ways")
    ways = ways.get(kernel.layer_name) if isinstance(ways, Mapping) else None
    way = ways.get(stage) if isinstance(ways, Mapping) else None
    return way if way in kernel.ways_of(stage, layouts) else None


def _fastest(kernels: Sequence[OnednnKernel], blobs: Sequence[Own]) -> dict[str, Any]:
    """Time the kernels in each candidate layout, every stage in each of its ways; let them take the fastest.

    Of the layouts, and of the ways of a stage, a later one is taken only where it is clearly faster.
    """
    candidates = CANDIDATES if any(layout_of(blob.shape, BLOCKED) == BLOCKED for blob in blobs) else CANDIDATES[:1]
    totals: dict[str, float] = dict.fromkeys(candidates, 0.0)
    taken: dict[str, list[tuple[OnednnKernel, str, Trial]]] = {candidate: [] for candidate in candidates}
    timed: dict[tuple[str, str], dict[tuple[str, str], float]] = {}  # of layers that are alike only the first is timed
    others = _what_others_read(kernels)
    start, announced = time.monotonic(), False
    for number, kernel in enumerate(kernels):
        if not announced and time.monotonic() - start > SILENT:
            announced = True
            done = f"{number} of {len(kernels)} layers are done, and the choice is kept for the next start"
            sys.stderr.write(f"onednn: trying which layouts are fastest for this net; {done}\n")
        like = likeness(kernel)
        for stage in kernel.stages():
            trials = _timed(kernel, stage, candidates, timed.setdefault((like, stage), {}), others)
            for candidate, each in trials.items():
                seconds, best = _clearly_least([(trial.seconds, trial) for trial in each] or [(inf, None)])
                totals[candidate] += seconds
                if best is not None:
                    taken[candidate].append((kernel, stage, best))
    seconds, layout = _clearly_least([(total, candidate) for candidate, total in totals.items()])
    if seconds == inf:
        raise _cannot_run(kernels)
    ways: dict[str, dict[str, str]] = {}
    for kernel, stage, trial in taken[layout]:
        kernel.taken[stage] = trial.calls
        if trial.way:
            ways.setdefault(kernel.layer_name, {})[stage] = trial.way
    return {"layout": layout, "ways": ways}


def _what_others_read(kernels: Sequence[OnednnKernel]) -> list[Call]:
    """Return calls that read what caches hold, as the other layers of a large net do between two runs of one.

    They are a product of the helper's; the list is empty if parameters stay in caches, or are written in each step.
    """
    bytes_read = sum({id(one): 4 * prod(one.shape) for each in kernels for one in each.parameters}.values())
    if not kernels[0].keeps or bytes_read <= CACHED or not lanes():
        return []
    features = 1024
    ours = PanelProduct(1, features, 2 * CACHED // (4 * features), keeps=True)
    return ours.forward("x of others", "weight of others", "", "y of others")[1:]


def _timed(
    kernel: OnednnKernel,
    stage: str,
    candidates: Sequence[str],
    known: dict[tuple[str, str], float],
    others: Sequence[Call],
) -> dict[str, list[Trial]]:
    """Return the timed trials of a stage in each candidate; times are taken from `known`, or added to it.

    `others` run before each of them, if it reads parameters.
    """
    trials: dict[str, list[Trial]] = {}
    for candidate in candidates:
        before = [trial for each in trials.values() for trial in each]
        trials[candidate] = _trials(kernel, stage, _tried(candidate), before)
    found = {(candidate, trial.way): trial for candidate, each in trials.items() for trial in each}
    if unknown := dict.fromkeys(trial for key, trial in found.items() if key not in known):
        time_all(list(unknown), others if kernel.parameters else ())
    for key, trial in found.items():
        trial.seconds = known.setdefault(key, trial.seconds)
    return trials


def _clearly_least(found: Sequence[tuple[float, Any]]) -> tuple[float, Any]:
    best = found[0]
    for one in found[1:]:
        if one[0] < best[0] * CLEARLY:
            best = one
    return best


class Trial:
    """One way of one stage on so many threads, and the least time that it took."""

    def __init__(self, way: str, calls: list[Call], threads: int) -> None:
        self.way, self.calls, self.threads = way, calls, threads
        self.seconds = inf
        self.replay: Callable[[], None] | None = None

    def prepare(self, addresses: Mapping[str, int]) -> None:
        """Compile the primitives, bind them to memory, and run the calls with `once`."""
        first, record = Record(), Record()
        for call in self.calls:
            (first if call.once else record).add_call(call, addresses, ())
        first.replay(self.threads)()
        self.replay = record.replay(self.threads)

    def run(self, most: float, before: Callable[[], None] | None) -> None:
        """Run some times, until these took so many seconds, and note the least time; `before` runs before each."""
        assert self.replay is not None, "the trial was not prepared"
        spent = 0.0
        for _ in range(TURNS):
            if before is not None:
                before()
            start = time.perf_counter()
            self.replay()
            spent += (taken := time.perf_counter() - start)
            self.seconds = min(self.seconds, taken)
            if spent > most:
                break


def _trials(kernel: OnednnKernel, stage: str, layouts: Layouts, before: Sequence[Trial]) -> list[Trial]:
    """Return a trial for each way that differs and has good code; trials of `before` are used again."""
    found: list[Trial] = []
    for way in kernel.ways_of(stage, layouts):
        try:
            calls = kernel.make(stage, way, layouts)
        except Unimplemented:
            continue
        if not any(_same(trial.calls, calls) for trial in found):
            twins = (trial for trial in before if trial.way == way and _same(trial.calls, calls))
            found.append(next(twins, None) or Trial(way, calls, recorder(kernel.backend).threads))
    return found


def _same(some: Sequence[Call], others: Sequence[Call]) -> bool:
    return len(some) == len(others) and all(
        one.info == other.info and one.buffers == other.buffers for one, other in zip(some, others, strict=True)
    )


def time_all(trials: Sequence[Trial], others: Sequence[Call] = ()) -> None:
    """Time trials in rounds, so that a disturbance of the machine does not fall on one of them alone.

    The calls of `others` are run before each.

    Raises:
        MemoryError: there is no memory for them.
    """
    sizes = sizes_of([*(call for trial in trials for call in trial.calls), *others])
    offsets = [0, *itertools.accumulate(rounded_up(size, PAGE) for size in sizes.values())]
    try:
        mapped = mmap.mmap(-1, max(offsets[-1], 1))
    except OSError as error:
        raise MemoryError(f"no {offsets[-1]:,} bytes for trials: {error}") from error
    with contextlib.closing(mapped) as memory:  # given back to the system at once
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        # on some systems, such as gVisor, reading a page that nobody has written costs 20 microseconds every time
        ctypes.memset(start, 0, offsets[-1])
        addresses = {name: start + offset for name, offset in zip(sizes, offsets, strict=False)}
        for trial in trials:
            trial.prepare(addresses)
        before = None
        if others:
            before = Trial("", list(others), trials[0].threads)
            before.prepare(addresses)
        for number in range(ROUNDS):
            best = min((trial.seconds for trial in trials), default=inf)
            for trial in trials:
                if number == 0 or (trial.seconds < HOPELESS * best and (number == 1 or trial.seconds < LONG)):
                    trial.run(SHORT if number else AT_FIRST, before and before.replay)
        for trial in (*trials, *([before] if before else [])):
            trial.replay = None  # the memory goes
