"""The end of `make bench`: each figure beside its floor, and whether it is met.

A ratio of speed is the time of the best peer to nacre's, and one of memory is nacre's peak to the smallest of the
peers'. The best is that of the peers that were measured and count. In training the nets of `benchmarks/files` only
PyTorch's eager and channels last count, and compiled modes are reported beside; elsewhere every peer counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .nets import FILES, NETS

NEAR = 0.03  # so near to its floor a median meets it
INFERENCE = 1.0  # the floor of every net's inference
MEMORY = 1.0  # and of its memory, which is to be at most so much


@dataclass(frozen=True)
class Case:
    """What one table measures: a net, and what is done with it. A `batch` of 0 is the net's own."""

    net: str
    predict: bool
    bf16: bool
    threads: int
    batch: int

    @property
    def what(self) -> str:
        work = "inference" if self.predict else "training"
        records = {0: "", 1: " of one record"}.get(self.batch, f" of {self.batch} records")
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{work}{records}, {'bf16' if self.bf16 else 'float32'}, {threads}"

    @property
    def floor(self) -> float | None:
        """The least ratio to the best peer, on onednn; nets for GPUs have none, nor has training with another batch."""
        net = NETS[self.net]
        if net.on_gpus or (self.batch and not self.predict):
            return None
        return INFERENCE if self.predict else net.floors[self.bf16]

    def counts(self, peer: str) -> bool:
        """Return whether the floor is one to this peer, too."""
        plain = peer in ("PyTorch eager", "PyTorch channels last")
        return plain or self.predict or not NETS[self.net].file.startswith(FILES)


@dataclass(frozen=True)
class Row:
    """A line of the summary: ratios to the best peer, one for each round, or the `problem` for which there are none."""

    net: str
    what: str
    ratios: Sequence[float] = ()
    best: str = ""
    floor: float | None = None
    memory: bool = False
    missing: Sequence[str] = ()
    """Peers that count, and are not installed."""
    problem: str = ""

    @property
    def met(self) -> bool:
        if self.problem or self.floor is None:
            return not self.problem
        share = statistics.median(self.ratios) / self.floor
        return share <= 1 + NEAR if self.memory else share >= 1 - NEAR

    def __str__(self) -> str:
        ratio = floor = met = ""
        if self.ratios:
            ratio = f"{statistics.median(self.ratios):.2f}"
        if len(self.ratios) > 1:
            ratio += f" ({min(self.ratios):.2f} to {max(self.ratios):.2f})"
        if self.floor is not None:
            floor = f"{'at most ' if self.memory else ''}{self.floor:.2f}"
            met = "yes" if self.met else "**no**"
        if self.problem:
            met = f"**no**: {self.problem}"
        without = f" (without {', '.join(self.missing)})" if self.missing else ""
        return f"| {self.net} | {self.what} | {ratio} | {self.best}{without} | {floor} | {met} |"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the summary, and what was not compared with."""
    yield "| net | figure | ratio to the best | the best | floor | met, within 3 % |"
    yield "|---|---|---|---|---|---|"
    yield from map(str, rows)
    if missing := sorted({name for row in rows for name in row.missing}):
        yield f"\nNot installed, so not compared with: {', '.join(missing)}; README.md says what to install."


def verdict(rows: Sequence[Row], unmeasured: int) -> str:
    """Return what is wrong, in a sentence, or nothing; an interrupted run has left `unmeasured` tables unmade."""
    refused = sum(bool(row.problem) for row in rows)
    below = sum(not row.met for row in rows) - refused
    found = {
        f"{below} of {len(rows)} lines are below their floors": below,
        f"{refused} of {len(rows)} lines could not be measured": refused,
        f"the run was interrupted before {unmeasured} of its tables": unmeasured,
    }
    return "; ".join(text for text, number in found.items() if number)
