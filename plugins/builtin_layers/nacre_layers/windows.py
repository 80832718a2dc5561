"""Windows along the axes of an array: how many there are, and which pixels each of them covers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

from nacre import Array

T = TypeVar("T")
Index = tuple[slice, ...]


@dataclass(frozen=True)
class WindowAxis:
    """Windows along one axis of an image: cell k of window i is pixel i · stride - pad + k · dilation.

    The image has `length` pixels, with `pad` pixels of padding in front and `tail` behind. All windows inside this
    padded image count; with `rounding` "ceil" also the next one, which hangs over, unless it begins behind the image.
    """

    length: int
    kernel: int
    stride: int = 1
    pad: int = 0
    tail: int = 0
    dilation: int = 1
    rounding: Literal["ceil", "floor"] = "floor"

    @property
    def extent(self) -> int:
        """Number of pixels from the first cell of a window to its last one."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """Number of pixels of the padded image."""
        return self.pad + self.length + self.tail

    @property
    def count(self) -> int:
        """Number of windows; below 1 if a window does not fit."""
        whole, left = divmod(self.padded - self.extent, self.stride)
        begins = (whole + 1) * self.stride - self.pad
        return whole + 1 + (self.rounding == "ceil" and left > 0 and begins < self.length)

    @property
    def span(self) -> int:
        """Number of pixels from the first cell of the first window to the last cell of the last one."""
        return (self.count - 1) * self.stride + self.extent

    @property
    def reach(self) -> int:
        """Number of pixels of the padded image and what the last window has behind it."""
        return max(self.padded, self.span)

    @property
    def behind(self) -> int:
        """Number of pixels that the last window has behind the image."""
        return max(0, self.span - self.pad - self.length)

    @property
    def image(self) -> slice:
        """The index of the image in the padded one."""
        return slice(self.pad, self.pad + self.length)

    @property
    def starts(self) -> range:
        """The first pixel of each window."""
        return range(-self.pad, self.count * self.stride - self.pad, self.stride)

    @property
    def back(self) -> WindowAxis:
        """The windows of a convolution's top, one for each pixel of the image, that lead back where the stride is 1."""
        pad, tail = self.extent - 1 - self.pad, self.extent - 1 - self.tail
        return WindowAxis(self.count, self.kernel, 1, pad, tail, self.dilation)

    def sizes(self, within: str) -> list[int]:
        """Return how many cells of each window lie in the "image", in the "padded" image, or anywhere ("kernel")."""
        if within == "kernel":
            return [self.kernel] * self.count
        low, high = (0, self.length) if within == "image" else (-self.pad, self.length + self.tail)
        whole, step = range(low, high - self.extent + 1), self.dilation
        return [
            self.kernel  # the usual case, which needs no count
            if start in whole
            else _below(high, start, step, self.kernel) - _below(low, start, step, self.kernel)
            for start in self.starts
        ]

    def windows_with(self, cell: int) -> range:
        """Return the windows that have this cell inside the image."""
        start = cell * self.dilation - self.pad
        return range(*(_below(limit, start, self.stride, self.count) for limit in (0, self.length)))

    def index(self, cell: int) -> slice:
        """Return the index of this cell of all windows in the padded image."""
        start = cell * self.dilation
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)


def _below(limit: int, start: int, step: int, count: int) -> int:
    """Return how many of the `count` numbers start, start + step, start + 2 · step, ... are below a limit."""
    return min(count, max(0, -((start - limit) // step)))


class WindowGrid:
    """Windows over arrays of one shape, along the axes {index: windows}.

    `counts` is the shape of an array of one number for each window, `padded` that of an array with padding, where every
    cell of a window lies, and `image` the index of the array in there.
    """

    def __init__(self, shape: Sequence[int], axes: Mapping[int, WindowAxis]) -> None:
        self.shape, self.axes = tuple(shape), axes
        self.counts = self._replaced(shape, [axis.count for axis in axes.values()])
        self.padded = self._replaced(shape, [axis.reach for axis in axes.values()])
        self.image = self._index([axis.image for axis in axes.values()])

    @cached_property
    def cells(self) -> list[Index]:
        """For each cell of a window, row by row, its index in the padded array, for all windows."""
        along = ([axis.index(cell) for cell in range(axis.kernel)] for axis in self.axes.values())
        return [self._index(slices) for slices in itertools.product(*along)]

    def along(self, index: int, numbers: Array) -> Array:
        """Return numbers, one for each window along an axis, as an array of as many axes as the windows have."""
        return numbers.reshape([-1 if axis == index else 1 for axis in range(len(self.shape))])

    def _replaced(self, entries: Sequence[T], values: Sequence[T]) -> tuple[T, ...]:
        """Return the entries of all axes, with these values for the axes of the windows."""
        replaced = list(entries)
        for index, value in zip(self.axes, values, strict=True):
            replaced[index] = value
        return tuple(replaced)

    def _index(self, slices: Sequence[slice]) -> Index:
        return self._replaced([slice(None)] * len(self.shape), slices)
