"""Spans: neighbouring parameters that an update handles as one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..engine.ops import item_size
from ..engine.parameters import Slot
from ..protocols.array import Array
from ..protocols.backend import ALIGNMENT
from ..protocols.parameter import Placed

if TYPE_CHECKING:
    from ..protocols.parameter import Storage


@dataclass(frozen=True)
class Piece:
    """One parameter of a span; its first number is number `offset` of the span."""

    name: str
    offset: int
    storage: Storage

    @property
    def end(self) -> int:
        """Return the index after the parameter's last number."""
        return self.offset + self.storage.size

    def of(self, array: Array) -> Array:
        """Return this parameter's numbers in an array as long as the span, such as a history; it is a view."""
        return array[self.offset : self.end]


@dataclass
class Span:
    """A stretch of contiguous memory that a method updates in one pass: values and gradients, flat.

    `rate` multiplies the learning rate. `pieces` are the parameters in it. Padding between parameters is zero, and
    stays zero.
    """

    value: Array
    gradient: Array
    rate: float
    pieces: Sequence[Piece]


def make_spans(slots: Sequence[Slot]) -> list[Span]:
    """Return spans of parameters that follow each other in memory, in value and gradient, and have the same rate."""
    runs: list[list[Slot]] = []
    for slot in slots:
        if runs and _follows(runs[-1][-1], slot):
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return [_span(run) for run in runs]


def _follows(one: Slot, other: Slot) -> bool:
    """Return whether `other` begins where `one` ends, with only padding between them, not a frozen parameter."""
    step = ALIGNMENT // item_size(one.storage.dtype)
    pairs = list(zip(_places(one), _places(other), strict=True))
    gaps = {after.offset - before.offset - one.storage.size for before, after in pairs}
    return (
        all(after.arena is before.arena for before, after in pairs)
        and len(gaps) == 1
        and 0 <= min(gaps) < step
        and other.parameters[0].lr == one.parameters[0].lr
    )


def _places(slot: Slot) -> tuple[Placed, Placed]:
    """Return where the value and the gradient of a parameter lie."""
    assert slot.storage.placed is not None
    assert slot.placed is not None
    return slot.storage.placed, slot.placed


def _span(run: Sequence[Slot]) -> Span:
    offsets = [gradient.offset for _, gradient in map(_places, run)]
    pieces = [Piece(slot.name, offset - offsets[0], slot.storage) for slot, offset in zip(run, offsets, strict=True)]
    value, gradient = (place.arena[place.offset : place.offset + pieces[-1].end] for place in _places(run[0]))
    return Span(value, gradient, run[0].parameters[0].lr, pieces)
