"""LRN across channels, and within those of images, in C order and with the channels last: see lrn.cu."""

from __future__ import annotations

from typing import Any

from nacre import Own
from nacre_layers.normalisation.lrn import LRNLayer, LRNState
from nacre_layers.windows import WindowAxis

from .launch import LANES, TYPES, CudaKernel, divisor
from .pooling import Extent, extent_of, unfit_axes


class LRNKernel(CudaKernel, reads="inputs"):
    """Windows along one axis, or along two neighbours; of any number of bottoms."""

    in_bf16 = True

    @classmethod
    def supports(cls, layer: LRNLayer, inputs: list[Any]) -> str | None:
        if reason := super().supports(layer, inputs):
            return reason
        if layer.mode == "across":
            return None
        counts = [len(one.shape) for one in inputs]
        within = ([axis for axis in range(1, count) if axis != layer.axis % count] for count in counts)
        return next(filter(None, (unfit_axes(axes, 2) for axes in within)), None)

    def __init__(self, layer: LRNLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        own = LRNState(layer, backend, inputs, diffs)
        self.axes, self.blobs, self.down, self.up = own.axes, own.blobs, own.down, own.up
        self.norms: list[int | None] = []  # for each bottom, the index of the intermediate with the divisors
        for one, diff in zip(inputs, diffs, strict=True):
            self.norms.append(None if diff is None else len(self.intermediates))
            self.intermediates += [] if diff is None else [backend.blob(one.shape)]

    def ready(self) -> None:
        self.extents = [self._extent(one, axes) for one, axes in zip(self.inputs, self.axes, strict=True)]

    def _extent(self, one: Own, axes: tuple[int, ...]) -> tuple[Extent, tuple[int, ...]]:
        """Return a blob as lrn.cu reads it, and what its kernels are told."""
        extent = extent_of(one.shape, {axis: WindowAxis(one.shape[axis], 1) for axis in axes}, one.layout)
        _, down, across = extent.all
        if len(axes) == 1:  # windows along what lrn.cu calls the rows
            down, across = across, down
        columns = (self.down, self.up) if len(axes) == 2 else (0, 0)
        sizes = (number for size in (extent.inner, down.length, across.length) for number in divisor(size))
        return extent, (extent.outer, *sizes, self.down, self.up, *columns)

    def forward(self, inputs: list[Own]) -> None:
        layer = self.layer
        for x, y, norm, axes, (extent, numbers) in zip(
            inputs, self.blobs, self.norms, self.axes, self.extents, strict=True
        ):
            kind, factor = TYPES[x.dtype], layer.scale / layer.kernel ** len(axes)
            ends = (x.memory, y.memory, None if norm is None else self.intermediates[norm])
            items = self._items(extent, kind)
            self.launch("lrn", f"lrn_forward<{kind}>", items, *ends, factor, layer.shift, layer.power, *numbers)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        layer = self.layer
        for index, (x, dx, norm, (extent, numbers)) in enumerate(
            zip(inputs, diffs, self.norms, self.extents, strict=True)
        ):
            if dx is None or norm is None:
                continue
            kind, twice = TYPES[x.dtype], 2 * layer.power * layer.scale / layer.kernel ** len(self.axes[index])
            ends = (x.memory, self.intermediates[norm], self.blobs_diff[index].memory, dx.memory)
            items = self._items(extent, kind)
            self.launch("lrn", f"lrn_backward<{kind}>", items, *ends, twice, layer.power, *numbers)

    def _items(self, extent: Extent, kind: str) -> int:
        """Return how many threads there is work for; where windows lie along neighbours, each does several numbers."""
        lanes = LANES[kind]
        return -(-extent.pixels(1) // lanes) if extent.inner == 1 else extent.pixels(lanes)
