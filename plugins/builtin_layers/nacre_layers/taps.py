"""Taps: a linear map along one axis, of which each result is a weighted sum of a few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nacre import Array


class Taps:
    """y[i] = Σ weight · x[place] along one axis, for the `entries` (i, place, weight) of each i below `count`.

    `length` is that of the axis of x. Where an i has no entries, y is 0. `back` are the taps of the gradient. The work
    is one pass over y for each entry of the i that has most of them; where the others lack one it is `absent`, and
    what is read there is not used, even if it is not finite.
    """

    def __init__(self, count: int, length: int, entries: Iterable[tuple[int, int, float]]) -> None:
        self.count, self.length = count, length
        self.entries = [(i, place, weight) for i, place, weight in entries if weight]
        of_each: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        for i, place, weight in self.entries:
            of_each[i].append((place, weight))
        most = max(1, *map(len, of_each))
        self.places, self.weights = np.zeros((most, count), np.int64), np.ones((most, count))
        self.absent = np.ones((most, count), bool)
        for i, some in enumerate(of_each):
            for tap, (place, weight) in enumerate(some):
                self.places[tap, i], self.weights[tap, i], self.absent[tap, i] = place, weight, False

    @property
    def back(self) -> Taps:
        """The transposed map: y[place] = Σ weight · x[i]."""
        return Taps(self.length, self.count, ((place, i, weight) for i, place, weight in self.entries))

    def placed(self, backend: Any) -> PlacedTaps:
        """Return the taps in the memory of a backend."""
        return PlacedTaps(self, backend)


class PlacedTaps:
    """Taps in the memory of a backend."""

    def __init__(self, taps: Taps, backend: Any) -> None:
        self.backend = backend
        self.places: list[Array] = []
        self.weights: list[Array | None] = []
        self.absent: list[Array | None] = []
        self.nothing = backend.constant(np.zeros(()))  # a plain 0 would be copied to a device, in every pass
        for places, weights, absent in zip(taps.places, taps.weights, taps.absent, strict=True):
            self.places.append(backend.constant(places, "int64"))
            self.weights.append(None if (weights == 1).all() else backend.constant(weights))
            self.absent.append(backend.constant(np.flatnonzero(absent), "int64") if absent.any() else None)

    def apply(self, x: Array, axis: int, y: Array, slot: int) -> None:
        """Write the map of x along an axis into y; uses the scratch array of a slot."""
        xp = self.backend.xp
        wide, before = [-1 if index == axis else 1 for index in range(y.ndim)], (slice(None),) * axis
        taps = zip(self.places, self.weights, self.absent, strict=True)
        for tap, (places, weights, absent) in enumerate(taps):
            part = y if tap == 0 else self.backend.scratch(y.shape, str(y.dtype), slot=slot)
            xp.take(x, places, axis=axis, out=part, mode="clip")
            if weights is not None:
                xp.multiply(part, weights.reshape(wide), out=part)
            if absent is not None:
                part[(*before, absent)] = self.nothing
            if tap:
                xp.add(y, part, out=y)


def through(backend: Any, x: Array, ways: Sequence[tuple[int, PlacedTaps]], y: Array) -> None:
    """Write x, mapped along one (axis, taps) after the other, into y; uses scratch arrays of slots from 7 on."""
    if x.dtype != y.dtype:
        given, x = x, backend.scratch(x.shape, str(y.dtype), slot=7)
        backend.xp.copyto(x, given)
    for number, (axis, taps) in enumerate(ways):
        shape = (*x.shape[:axis], y.shape[axis], *x.shape[axis + 1 :])
        last = number + 1 == len(ways)
        result = y if last else backend.scratch(shape, str(y.dtype), slot=9 + number % 2)
        taps.apply(x, axis, result, slot=8)
        x = result
