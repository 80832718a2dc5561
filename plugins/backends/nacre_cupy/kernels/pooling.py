"""Max and mean pooling over up to three neighbouring axes, in C order and with the channels last: see pooling.cu."""

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
    """An array read as (outer, planes, rows, columns, inner), with windows along planes, rows and columns."""

    outer: int
    inner: int
    through: WindowAxis
    down: WindowAxis
    across: WindowAxis

    def pixels(self, lanes: int) -> int:
        """Return how many threads the numbers in the array keep busy."""
        return self.outer * prod(one.length for one in self.all) * self._groups(lanes)

    def windows(self, lanes: int) -> int:
        """Return how many threads an array with a number for each window keeps busy."""
        return self.outer * self.windows_of_image * self._groups(lanes)

    @property
    def windows_of_image(self) -> int:
        """How many windows there are for each index of the outer and the inner axis."""
        return prod(one.count for one in self.all)

    def _groups(self, lanes: int) -> int:
        return self.inner if self.inner % lanes else self.inner // lanes

    @cached_property
    def arguments(self) -> tuple[int, ...]:
        """What the kernels of pooling.cu are told."""
        numbers = [self.outer, *divisor(self.inner)]
        for one in self.all:
            numbers += [*divisor(one.length), one.kernel, *divisor(one.stride), one.pad, one.length + one.tail]
            numbers += divisor(one.count)
        return tuple(numbers)

    @property
    def all(self) -> tuple[WindowAxis, WindowAxis, WindowAxis]:
        """The windows along planes, rows and columns."""
        return self.through, self.down, self.across

    @property
    def deep(self) -> str:
        """Whether there are windows along planes, in C++."""
        return str(self.through != ONE).lower()


ONE = WindowAxis(1, 1)
"""An axis of one pixel, which is its only window."""


def extent_of(shape: Sequence[int], axes: Mapping[int, WindowAxis], layout: str | None) -> Extent:
    """Return a blob as pooling.cu reads it: `axes` are up to three, neighbours in the layout."""
    order = list(range(len(shape)))
    if layout != "plain":  # the channels last
        order = [0, *order[2:], 1]
    places = sorted(order.index(axis) for axis in axes)
    before, behind = order[: places[0]], order[places[-1] + 1 :]
    windows = [axes[order[place]] for place in places]
    through, down, across = [*[ONE] * (3 - len(windows)), *windows]
    outer, inner = (prod(shape[axis] for axis in some) for some in (before, behind))
    return Extent(outer, inner, through, down, across)


def unfit_axes(axes: Sequence[int], most: int) -> str | None:
    """Return why no kernel of so many axes at most serves windows along these of a blob in any layout, or None."""
    first, *others = sorted(axes) or [0]
    if len(others) >= most or (others and ([first, *others] != list(range(first, first + len(axes))) or first < 2)):
        return f"serves one axis, or up to {most} neighbours behind the channels"
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
            if reason := unfit_axes(axes, 3):
                return reason
            images = is_image(one.shape)  # which may lie in another order than their masks
            if _has_masks(layer) and images and len(axes) < len(one.shape) - 2:
                return "makes masks of images if all of their axes are pooled"
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
                self.launch(
                    "pooling", f"mean_forward<{kind}, {extent.deep}>", items, *ends, self.divide_by, *extent.arguments
                )
                continue
            mask = self.blobs[len(inputs) + index] if _has_masks(self.layer) else None
            # distances of neighbouring windows and channels in the mask, which may lie in another order than y
            steps = (extent.inner, 1)
            if mask is not None and mask.layout == "plain" != self.layouts[index]:
                steps = (1, extent.windows_of_image)
            kept = None if self.diffs[index] is None else self.intermediates[self.winners[index]]
            name = f"max_forward<{kind}, {self.indices[index]}, {extent.deep}>"
            self.launch("pooling", name, items, *ends, kept, memory(mask), *steps, *extent.arguments)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        for index, (dx, extent) in enumerate(zip(diffs, self.extents, strict=True)):
            if dx is None:
                continue
            kind = TYPES[dx.dtype]
            items, ends = extent.pixels(LANES[kind]), (self.blobs_diff[index].memory, dx.memory)
            if self.is_max:
                name = f"max_backward<{kind}, {self.indices[index]}, {extent.deep}>"
                kept = self.intermediates[self.winners[index]]
                self.launch("pooling", name, items, kept, *ends, *extent.arguments)
            else:
                self.launch(
                    "pooling", f"mean_backward<{kind}, {extent.deep}>", items, *ends, self.divide_by, *extent.arguments
                )

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
