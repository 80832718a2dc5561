"""Replicas of the parameters: the means that they take of each other, and how stale the gradients for them are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nacre import Communicator

from .batches import named


def mean_with_neighbours(between: Communicator, own: np.ndarray[Any, Any], reach: int) -> np.ndarray[Any, Any]:
    """Return the mean of numbers and those of the neighbours among the ranks of a communicator; collective.

    Neighbours are so many ranks before and behind, in a ring; all, if `reach` is 0.
    """
    if not reach:
        total = own.copy()
        between.allreduce(total, ordered=True)
        total /= between.size
        return total
    near = neighbours_of(between.rank, between.size, reach)
    found = {one: np.empty_like(own) for one in near}
    requests = [between.irecv(array, one) for one, array in found.items()]
    requests += [between.isend(own, one) for one in near]
    for request in requests:
        request.wait()
    found[between.rank] = own
    return mean_of([found[one] for one in sorted(found)])


def neighbours_of(place: int, places: int, reach: int) -> list[int]:
    """Return the neighbours of a place in a ring: so many before and behind it."""
    near = {(place + step) % places for step in range(-reach, reach + 1)}
    return sorted(near - {place})


def mean_of(arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Return the mean of arrays, added in their order."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total / len(arrays)


def means_sent(place: int, ranks: Sequence[int], reach: int, sync_freq: int, count: int) -> dict[str, int]:
    """Return what the rank at a place sends for means of `count` numbers, in the mean of all iterations.

    These ranks take them, after every `sync_freq` iterations; `reach` as for `mean_with_neighbours`.
    """
    often = "" if sync_freq == 1 else f", once in {sync_freq} iterations"
    near = neighbours_of(place, len(ranks), reach)
    if not reach and len(ranks) > 1:
        return {f"parameters, which {named(ranks)} add up{often}": round(count / sync_freq)}
    return {f"parameters to rank {ranks[one]}{often}": round(count / sync_freq) for one in near}


def added(staleness: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return how often each staleness was counted by all together: the least one first."""
    total: Counter[str] = Counter()
    for one in staleness:
        total.update(one)
    return {key: total[key] for key in sorted(total, key=int)}
