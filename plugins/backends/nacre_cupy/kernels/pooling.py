"""Max and mean pooling over one or two neighbouring axes, in C order and with the channels last: see pooling.cu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

from nacre import Own
from nacre_layers.pooling.base import Pools
from nacre_layers.pooling.channel_pooling import ChannelPoolingState
from nacre_layers.pooling.functions import Max, Mean
from nacre_layers.pooling.pooling import PoolingState
from nacre_layers.windows import WindowAxis

from .launch import LANES, TYPES, CudaKernel, divisor, is_image, memory

DIVISORS = {"padded": 0, "kernel": 1, "image": 2}
"""Numbers of `Mean.divide_by` in pooling.cu."""
BYTE = 256
"""The number of a cell in a window of up to so many cells fits into a byte."""


@dataclass(frozen=True)
class Extent:
    """An array read as (outer, rows, columns, inner), with windows along rows and columns."""

    outer: int
    inner: int
    down: WindowAxis
    across: WindowAxis

    def pixels(self, lanes: int) -> int:
        """Return how many threads the numbers in the array keep busy."""
        return self.outer * self.down.length * self.across.length * self._groups(lanes)

    def windows(self, lanes: int) -> int:
        """Return how many threads an array with a number for each window keeps busy."""
        return self.outer * self.down.count * self.across.count * self._groups(lanes)

    def _groups(self, lanes: int) -> int:
        return self.inner if self.inner % lanes else self.inner // lanes

    @cached_property
    def arguments(self) -> tuple[int, ...]:
        """What the kernels of pooling.cu are told."""
        numbers = [self.outer, *divisor(self.inner)]
        for one in self.both:
            numbers += [*divisor(one.length), one.kernel, *divisor(one.stride), one.pad, one.length + one.tail]
            numbers += divisor(one.count)
        return tuple(numbers)

    @property
    def both(self) -> tuple[WindowAxis, WindowAxis]:
        """The windows along rows and columns."""
        return self.down, self.across


def extent_of(shape: Sequence[int], axes: Mapping[int, WindowAxis], layout: str | None) -> Extent:
    """Return a blob as pooling.cu reads it: `axes` are one or two, neighbours in the layout."""
    order = list(range(len(shape)))
    if layout != "plain":  # the channels last
        order = [0, *order[2:], 1]
    places = sorted(order.index(axis) for axis in axes)
    before, behind = order[: places[0]], order[places[-1] + 1 :]
    windows = [axes[order[place]] for place in places]
    down, across = windows if len(windows) == 2 else (WindowAxis(1, 1), windows[0])
    return Extent(prod(shape[axis] for axis in before), prod(shape[axis] for axis in behind), down, across)


def unfit_axes(axes: Sequence[int]) -> str | None:
    """Return why no kernel serves windows along these axes of a blob in any layout, or None."""
    first, *others = sorted(axes) or [0]
    if others and (others != [first + 1] or first < 2):
        return "serves one axis, or two neighbours behind the channels"
    return None


class PoolingKernel(CudaKernel):
    """Max, which keeps where each maximum was, and Mean; of any number of bottoms."""

    in_bf16 = True

    state: ClassVar[type[Pools]] = PoolingState
    """The layer's own."""

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        if reason := super().supports(layer, inputs):
            return reason
        if type(layer.pooling) not in (Max, Mean):
            return f"serves Max and Mean, not {layer.pooling!r}"
        for one in inputs:
            axes = cls.axes(layer, len(one.shape))
            if reason := unfit_axes(axes):
                return reason
            images = is_image(one.shape)  # which may lie in another order than their masks
            if _has_masks(layer) and images and len(axes) < 2:
                return "makes masks of images if both of their axes are pooled"
        return None

    @staticmethod
    def axes(layer: Any, count: int) -> tuple[int, ...]:
        """Return the indices of the axes that are pooled, of so many; whether there are such is not checked."""
        return layer.axes or tuple(range(2, count))

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reads = ""
        own = self.state(layer, backend, inputs, diffs)
        self.blobs, self.grids = own.blobs, [grids[0] for grids in own.grids]
        self.is_max = type(layer.pooling) is Max
        self.winners: list[int] = []  # for each bottom, the index of the intermediate with the maxima's cells
        self.indices: list[str] = []
        for grid, diff in zip(self.grids, diffs, strict=True):
            small = prod(axis.kernel for axis in grid.axes.values()) <= BYTE
            self.indices.append("u8" if small else "int")
            self.winners.append(len(self.intermediates))
            if self.is_max and diff is not None:
                self.intermediates.append(backend.blob(grid.counts, "uint8" if small else "int32"))

    def ready(self) -> None:
        # images of one pixel, or one channel, are plain; the windows along their padding make others of them
        pairs = list(zip(self.inputs, self.blobs, strict=False))
        self.layouts = [x.layout if x.layout != "plain" else y.layout for x, y in pairs]
        triples = zip(self.inputs, self.grids, self.layouts, strict=True)
        self.extents = [extent_of(x.shape, grid.axes, layout) for x, grid, layout in triples]

    def forward(self, inputs: list[Own]) -> None:
        for index, (x, y, extent) in enumerate(zip(inputs, self.blobs, self.extents, strict=False)):
            kind = TYPES[x.dtype]
            items, ends = extent.windows(LANES[kind]), (x.memory, y.memory)
            if not self.is_max:
                self.launch("pooling", f"mean_forward<{kind}>", items, *ends, self.divide_by, *extent.arguments)
                continue
            mask = self.blobs[len(inputs) + index] if _has_masks(self.layer) else None
            # distances of neighbouring windows and channels in the mask, which may lie in another order than y
            steps = (extent.inner, 1)
            if mask is not None and mask.layout == "plain" != self.layouts[index]:
                steps = (1, extent.down.count * extent.across.count)
            kept = None if self.diffs[index] is None else self.intermediates[self.winners[index]]
            name = f"max_forward<{kind}, {self.indices[index]}>"
            self.launch("pooling", name, items, *ends, kept, memory(mask), *steps, *extent.arguments)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        for index, (dx, extent) in enumerate(zip(diffs, self.extents, strict=True)):
            if dx is None:
                continue
            kind = TYPES[dx.dtype]
            items, ends = extent.pixels(LANES[kind]), (self.blobs_diff[index].memory, dx.memory)
            if self.is_max:
                name, kept = f"max_backward<{kind}, {self.indices[index]}>", self.intermediates[self.winners[index]]
                self.launch("pooling", name, items, kept, *ends, *extent.arguments)
            else:
                self.launch("pooling", f"mean_backward<{kind}>", items, *ends, self.divide_by, *extent.arguments)

    @property
    def divide_by(self) -> int:
        """The number of the mean's divisor in pooling.cu."""
        return DIVISORS[self.layer.pooling.divide_by]


class ChannelPoolingKernel(PoolingKernel):
    """The same along one axis."""

    state = ChannelPoolingState

    @staticmethod
    def axes(layer: Any, count: int) -> tuple[int, ...]:
        return (layer.axis,)


def _has_masks(layer: Any) -> bool:
    return len(layer.tops) > len(layer.bottoms)
