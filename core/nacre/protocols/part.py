"""Parts: how a layer, a blob or a parameter of a net is divided among ranks, and which part of it one rank has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .array import Array

NONE, BATCH, FEATURES = -1, 0, 1
"""How a layer is divided among the ranks of a net: not at all, along the batch, or along its features."""

DIMS: Mapping[str, int] = {"whole": NONE, "batch": BATCH, "features": FEATURES}


def part_of(length: int, part: int, parts: int) -> tuple[int, int]:
    """Return where a part of so many features, or rows, begins and ends: the lengths differ by one at most."""
    return length * part // parts, length * (part + 1) // parts


class Box(NamedTuple):
    """A part of a blob of the whole net: the `whole` shape, where it begins along each axis, and its own shape."""

    whole: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Micro:
    """Which part of each batch a node works on, of `count` of one length, and the `name` of the layer without parts.

    Random numbers are those of this layer for the whole batch.
    """

    name: str
    number: int
    count: int

    def of_batch(self, first: int, rows: int) -> tuple[int, int]:
        """Return where row `first` of this part, which has so many, is in the whole batch, and how many that has."""
        return self.number * rows + first, self.count * rows

    def box(self, box: Box) -> Box:
        """Return a box of a blob of this part as one of the blob of the whole batch."""
        start, rows = self.of_batch(box.start[0], box.whole[0])
        return Box((rows, *box.whole[1:]), (start, *box.start[1:]), box.shape)


@dataclass(frozen=True)
class Part:
    """Which part of a layer a node is: `number` of `count`; `dim` is -1, 0 (of the records) or 1 (of the features).

    Of `length` records or features of the whole it has those from `start` on, up to `stop`, and of its tops these
    boxes. An `inserted` layer only moves what others have computed: every row of it counts.
    """

    dim: int
    number: int
    count: int
    length: int = 0
    start: int = 0
    stop: int = 0
    inserted: bool = False
    tops: tuple[Box, ...] = ()


@dataclass(frozen=True)
class Cut:
    """Which part of a parameter of the whole net a rank holds.

    Along `axis` the whole has `blocks` blocks of one length, and the part has the numbers `start` to `stop` of each.
    """

    whole: tuple[int, ...]
    axis: int
    start: int
    stop: int
    blocks: int = 1

    def of(self, whole: Array) -> Array:
        """Return the part of a NumPy array of the whole's shape."""
        blocks = self._in_blocks(whole)[(*[slice(None)] * (self.axis + 1), slice(self.start, self.stop))]
        shape = list(self.whole)
        shape[self.axis] = self.blocks * (self.stop - self.start)
        return blocks.reshape(shape)

    def put(self, part: Array, whole: Array) -> None:
        """Write a part into a contiguous NumPy array of the whole's shape."""
        place = self._in_blocks(whole)[(*[slice(None)] * (self.axis + 1), slice(self.start, self.stop))]
        place[...] = part.reshape(place.shape)

    def _in_blocks(self, whole: Array) -> Array:
        shape = self.whole
        return whole.reshape(*shape[: self.axis], self.blocks, -1, *shape[self.axis + 1 :])
