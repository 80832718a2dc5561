"""Processors: each of the ranks on a machine gets its share of them."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

LOCAL = ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
"""Variables in which an MPI's launcher tells a rank's number among those on its machine, and how many these are."""


def part_of(processors: Sequence[int], rank: int, ranks: int) -> list[int]:
    """Return a rank's share of some processors; if they are fewer than the ranks, several ranks have the same one."""
    first, end = rank * len(processors) // ranks, (rank + 1) * len(processors) // ranks
    return [*processors[first : max(end, first + 1)]]


@contextmanager
def share_of(rank: int, ranks: int) -> Generator[None]:
    """Bind this thread to a rank's share in the block: a process that is started there has it from the start."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, part_of(sorted(every), rank, ranks))
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def take_share() -> None:
    """Bind this process to its share, if an MPI's launcher has started it and has not bound it.

    It has to be called before NumPy is imported, which starts a thread for each processor that it sees, and after MPI's
    own start, during which MPICH's launcher runs on one processor after the other to look at each.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    for rank, ranks in LOCAL:
        if os.environ.get(rank, "").isdecimal() and os.environ.get(ranks, "").isdecimal():
            mine = os.sched_getaffinity(0)
            with suppress(OSError):
                if mine == os.sched_getaffinity(os.getppid()):
                    os.sched_setaffinity(0, part_of(sorted(mine), int(os.environ[rank]), int(os.environ[ranks])))
