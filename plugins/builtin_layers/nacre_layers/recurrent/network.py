"""Network: all layers and directions of a recurrent layer, over a batch of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nacre import Array

from .course import Course
from .recurrence import Recurrence

Weights = Sequence[dict[str, Array]]
"""For each layer and direction, in PyTorch's order, the weights by their names without the suffix."""
States = Sequence[Array | None]
"""For each state (hidden, cell) an array (images, layers · directions, size), or None."""


class Work:
    """What a network uses of a backend: its functions, memory that lasts, and memory for one call, by name."""

    x_dtype: str | None = None
    """The type of the bottom's copy in the order of the steps, if it is not the net's."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.xp, self.dtype = backend, backend.xp, backend.dtype
        self.empty, self.from_host = backend.empty, backend.from_host
        self._slots: dict[str, int] = {}

    def scratch(self, shape: Sequence[int], slot: str, dtype: str | None = None) -> Array:
        return self.backend.scratch(shape, dtype, self._slots.setdefault(slot, len(self._slots)))

    def swap(self, given: Array, made: Array) -> None:
        """Write an array with its first two axes in the other order."""
        self.xp.copyto(made, given.transpose(1, 0, 2))


class Network:
    """The recurrences of a layer on `images` sequences; x and y are as the layer's bottoms and tops.

    A kernel may use one on a part of a batch. `kind` is the recurrence of one layer in one direction.
    """

    def __init__(
        self,
        work: Any,
        layer: Any,
        kind: type[Recurrence],
        shape: tuple[int, int, int],
        *,
        keep: bool,
    ) -> None:
        self.work, self.xp, self.layer = work, work.xp, layer
        self.steps, self.images, self.features = shape
        self.size, self.directions = layer.size, layer.directions
        self.layers: list[list[Recurrence]] = []
        self.joined: list[Array] = []
        width = self.size * len(self.directions)
        for number in range(layer.n_layer):
            inner = (*shape[:2], width if number else self.features)
            self.layers.append([kind(work, layer, inner, backward=one, keep=keep) for one in self.directions])
            self.joined.append(None if self.directions == (False,) else work.empty((*shape[:2], width)))

    def forward(self, x: Array, y: Array, weights: Weights, course: Course, begin: States, end: States) -> None:
        """Write the states of the last layer into `y`, and those after the last steps into `end`."""
        self.course = course
        values = self._arranged(x, "x")
        for number, layer in enumerate(self.layers):
            for place, one in enumerate(layer):
                index = number * len(layer) + place
                starts = [self._sorted(state, index, f"begin{order}") for order, state in enumerate(begin)]
                one.forward(values, weights[index], course, starts)
                for series, state in zip(one.series, end, strict=True):
                    if state is not None:
                        last = self.work.scratch((self.images, series.size), slot="end")
                        series.end(last, course, backward=one.backward_in_time)
                        self._put_back(last, index, state)
            values = self._joined(number)
        self._restore(values, y)

    def backward(
        self,
        x: Array,
        dy: Array | None,
        dend: States,
        dbegin: States,
        dx: Array | None,
        gradients: Sequence[dict[str, Array | None]],
    ) -> None:
        """Write the gradients that are wanted, after `forward`."""
        xp, shape = self.xp, (self.steps, self.images)
        dvalues = None if dy is None else self._arranged(dy, "dy")
        for number in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[number]
            values = self._joined(number - 1, again=True) if number else self._arranged(x, "x")
            wanted = bool(number) or dx is not None
            below = self.work.scratch((*shape, values.shape[2]), slot=f"dx{number % 2}") if wanted else None
            for place, one in enumerate(layer):
                index = number * len(layer) + place
                ends = [self._sorted(state, index, f"dend{order}") for order, state in enumerate(dend)]
                starts = [
                    None if state is None else self.work.scratch((self.images, series.size), slot=f"dbegin{order}")
                    for order, (state, series) in enumerate(zip(dbegin, one.series, strict=True))
                ]
                dout = None if dvalues is None else dvalues[:, :, place * self.size : (place + 1) * self.size]
                part = self.work.scratch(below.shape, slot="dx") if below is not None and place else below
                one.backward(values, dout, ends, starts, part, gradients[index])
                if part is not below:
                    xp.add(below, part, out=below)
                for state, start in zip(dbegin, starts, strict=True):
                    if state is not None:
                        self._put_back(start, index, state)
            dvalues = below
        if dx is not None:
            self._restore(dvalues, dx)

    def _arranged(self, x: Array, name: str) -> Array:
        """Return a bottom, or the gradient of a top, as (steps, images, ...), the longest sequence first."""
        order, features = self.course.order, x.shape[2]
        if self.layer.time_major and order is None:
            return x
        out = self.work.scratch((self.steps, self.images, features), name, self.work.x_dtype if name == "x" else None)
        if order is None:
            self.work.swap(x, out)
        elif self.layer.time_major:
            self.xp.take(x, order, axis=1, out=out, mode="clip")
        else:
            ranked = self.work.scratch(x.shape, slot="ranked")
            self.xp.take(x, order, axis=0, out=ranked, mode="clip")
            self.work.swap(ranked, out)
        self.course.clear(out)
        return out

    def _restore(self, values: Array, out: Array) -> None:
        """Write (steps, images, ...) into an array of the shape and order of the layer's blobs."""
        if self.course.inverse is not None:
            ranked = self.work.scratch(values.shape, slot="ranked")
            self.xp.take(values, self.course.inverse, axis=1, out=ranked, mode="clip")
            values = ranked
        if self.layer.time_major:
            self.xp.copyto(out, values)
        else:
            self.work.swap(values, out)

    def _joined(self, number: int, *, again: bool = False) -> Array:
        """Return what a layer gives to the next one: the states of both directions beside each other."""
        joined = self.joined[number]
        if joined is None:
            return self.layers[number][0].output
        if not again:
            for place, one in enumerate(self.layers[number]):
                self.xp.copyto(joined[:, :, place * self.size : (place + 1) * self.size], one.output)
            self.course.clear(joined)
        return joined

    def _sorted(self, state: Array | None, index: int, name: str) -> Array | None:
        """Return the states of one layer and direction, the longest sequence first."""
        if state is None or self.course.order is None:
            return None if state is None else state[:, index]
        out = self.work.scratch((self.images, state.shape[2]), slot=name)
        self.xp.take(state[:, index], self.course.order, axis=0, out=out, mode="clip")
        return out

    def _put_back(self, state: Array, index: int, out: Array) -> None:
        """Write the states of one layer and direction into those of all, in the order of the batch."""
        if self.course.inverse is not None:
            ranked = self.work.scratch(state.shape, slot="back")
            self.xp.take(state, self.course.inverse, axis=0, out=ranked, mode="clip")
            state = ranked
        self.xp.copyto(out[:, index], state)


@dataclass(frozen=True, eq=False)
class Piece:
    """Some sequences of a batch, `part` of its rows, and the network that works on them."""

    part: slice
    course: Course
    network: Network

    def read(self, second: np.ndarray | None, sequences: str) -> None:
        """Read the lengths (images,), or the numbers of cont (images, steps), of the whole batch."""
        if second is not None and sequences == "lengths":
            self.course.read_lengths(second[self.part])
        elif second is not None:
            self.course.read_starts(second[self.part].T == 0)

    def forward(self, x: Array, y: Array, weights: Weights, begin: States, end: States) -> None:
        """Compute this part of the tops, from arrays of the whole batch."""
        begin, end = self._cut(begin), self._cut(end)
        self.network.forward(x[self.part], y[self.part], weights, self.course, begin, end)

    def backward(
        self,
        x: Array,
        dy: Array | None,
        dend: States,
        dbegin: States,
        dx: Array | None,
        gradients: Sequence[dict[str, Array | None]],
    ) -> None:
        """Compute this part of the bottoms' gradients, and what it adds to those of the parameters."""
        (dy, dx), dend, dbegin = self._cut([dy, dx]), self._cut(dend), self._cut(dbegin)
        self.network.backward(x[self.part], dy, dend, dbegin, dx, gradients)

    def _cut(self, arrays: States) -> States:
        return [None if one is None else one[self.part] for one in arrays]
