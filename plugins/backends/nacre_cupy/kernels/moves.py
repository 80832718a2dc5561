"""Concat, Slice and Transpose: copies between blobs in any layout, in the type that the net computes in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import Any

from nacre import Own
from nacre_layers.shapes.concat import ConcatState
from nacre_layers.shapes.slice import SliceState
from nacre_layers.shapes.transpose import TransposeState

from .blobs import Piece, copy_rows, transpose
from .launch import CudaKernel, not_floating, too_large


class JoiningKernel(CudaKernel, reads=""):
    """Copies between a blob, and others that are its parts along an axis."""

    in_bf16 = as_below = True

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        if layer.axis in (0, -len(inputs[0].shape)):
            return "serves no axis=0, of which every pass looks at the number of rows"
        whole = [sum(one.size for one in inputs)]
        return not_floating(inputs) or too_large([whole])

    def _copies(
        self, whole: Own, parts: Sequence[Own | None], shapes: Sequence[Own]
    ) -> Iterator[tuple[Piece, Piece, int, int]]:
        """Yield what `copy_rows` is told of a whole, each of its parts that is wanted, rows and width.

        `shapes` are blobs as the parts are. Beside images with the channels last, those of one channel or pixel, which
        lie in C order, lie so, too.
        """
        count = len(whole.shape)
        order = next((in_memory(one) for one in (whole, *shapes) if one.layout != "plain"), [*range(count)])
        place = order.index(self.layer.axis % count)
        rows, behind = (prod(whole.shape[axis] for axis in some) for some in (order[:place], order[place + 1 :]))
        widths = [one.shape[order[place]] * behind for one in shapes]
        for part, width, start in zip(parts, widths, accumulate(widths, initial=0), strict=False):
            if part is not None:
                yield (whole.memory, start, sum(widths)), (part.memory, 0, width), rows, width

    def _join(self, parts: Sequence[Own | None], whole: Own, shapes: Sequence[Own]) -> None:
        for there, part, rows, width in self._copies(whole, parts, shapes):
            copy_rows(self.backend, part, there, rows, width)

    def _part(self, whole: Own, parts: Sequence[Own | None], shapes: Sequence[Own]) -> None:
        for there, part, rows, width in self._copies(whole, parts, shapes):
            copy_rows(self.backend, there, part, rows, width)


class ConcatKernel(JoiningKernel, reads=""):
    """Concat."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = ConcatState(layer, backend, inputs, diffs).blobs

    def forward(self, inputs: list[Own]) -> None:
        self._join(inputs, self.blobs[0], inputs)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        self._part(self.blobs_diff[0], diffs, self.inputs)


class SliceKernel(JoiningKernel, reads=""):
    """Slice."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = SliceState(layer, backend, inputs, diffs).blobs

    def forward(self, inputs: list[Own]) -> None:
        self._part(inputs[0], self.blobs, self.blobs)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if diffs[0] is None:
            return
        if any(one is None for one in self.blobs_diff):  # no loss is behind it
            diffs[0].memory.fill(0)
        self._join(self.blobs_diff, diffs[0], self.blobs)


class TransposeKernel(CudaKernel, reads=""):
    """Transpose, of any number of bottoms."""

    in_bf16 = as_below = True

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        own = TransposeState(layer, backend, inputs, diffs)
        self.blobs, self.orders = own.blobs, own.orders

    def ready(self) -> None:
        self.moves = [
            turned(x.memory.shape, [in_memory(x).index(order[axis]) for axis in in_memory(y)])
            for x, y, order in zip(self.inputs, self.blobs, self.orders, strict=True)
        ]

    def forward(self, inputs: list[Own]) -> None:
        for x, y, (shape, order) in zip(inputs, self.blobs, self.moves, strict=True):
            self._turn(x, y, shape, order)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        for dy, dx, (shape, order) in zip(self.blobs_diff, diffs, self.moves, strict=True):
            if dx is not None:
                back = [order.index(axis) for axis in range(len(order))]
                self._turn(dy, dx, [shape[axis] for axis in order], back)

    def _turn(self, given: Own, made: Own, shape: Sequence[int], order: Sequence[int]) -> None:
        """Copy an array of a shape with its axes in another order."""
        if list(order) == [0, 2, 1]:
            transpose(self.backend, given.memory, made.memory, *shape[1:])
            return
        there = made.memory.reshape([shape[axis] for axis in order])
        self.backend.xp.copyto(there, given.memory.reshape(shape).transpose(order))


def in_memory(blob: Own) -> list[int]:
    """Return the axes of a blob in the order in which they lie in memory."""
    count = len(blob.shape)
    return [*range(count)] if blob.layout == "plain" else [0, *range(2, count), 1]


def turned(shape: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the same copy of an array with its axes in another order, but with as few axes as describe it, or three.

    Axes that stay side by side are one, and those of length 1 are left out.
    """
    groups: list[list[int]] = []
    for axis in order:
        if shape[axis] == 1:
            continue
        before = range(groups[-1][-1] + 1, axis) if groups else range(0)
        if groups and groups[-1][-1] < axis and all(shape[one] == 1 for one in before):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    ahead = sorted(range(len(groups)), key=lambda number: groups[number])
    sizes, places = (
        [prod(shape[axis] for axis in groups[number]) for number in ahead],
        [*map(ahead.index, range(len(groups)))],
    )
    while len(sizes) < 3:
        sizes, places = [1, *sizes], [0, *(place + 1 for place in places)]
    return sizes, places
