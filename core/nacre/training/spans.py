"""Spans: neighbouring parameters that an update treats as one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..engine.arena import ALIGNMENT
from ..engine.parameters import Slot
from ..protocols.array import Array

if TYPE_CHECKING:
    from ..protocols.parameter import Storage


@dataclass
class Span:
    """A stretch of contiguous memory that a method updates in one pass: values and gradients, flat.

    `rate` multiplies the learning rate. `parts` tells where each parameter lies: (name, offset, size), and `storages`
    whose memory it is. Padding between parameters is zero, and stays zero.
    """

    value: Array
    gradient: Array
    rate: float
    parts: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    storages: list[Storage] = field(default_factory=list["Storage"])


def make_spans(slots: Sequence[Slot]) -> list[Span]:
    """Join parameters that lie one behind the other, in value and in gradient, and learn at one rate."""
    runs: list[list[Slot]] = []
    for slot in slots:
        if runs and _follows(runs[-1][-1], slot):
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return [_span(run) for run in runs]


def _follows(one: Slot, other: Slot) -> bool:
    """Return whether `other` begins where `one` ends, but for padding: a frozen parameter between them is larger."""
    step = ALIGNMENT // (8 if one.storage.dtype == "float64" else 4)
    gap = other.storage.offset - one.storage.offset - one.storage.size
    return (
        other.storage.arena is one.storage.arena
        and other.arena is one.arena
        and 0 <= gap < step
        and gap == other.offset - one.offset - one.storage.size
        and other.parameters[0].lr == one.parameters[0].lr
    )


def _span(run: Sequence[Slot]) -> Span:
    first, last = run[0], run[-1]
    length = last.offset + last.storage.size - first.offset
    value = first.storage.arena[first.storage.offset : first.storage.offset + length]
    gradient = first.arena[first.offset : first.offset + length]
    parts = [(slot.name, slot.offset - first.offset, slot.storage.size) for slot in run]
    return Span(value, gradient, first.parameters[0].lr, parts, [slot.storage for slot in run])
