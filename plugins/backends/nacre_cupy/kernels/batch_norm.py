"""BatchNorm, in C order and with the channels last, with ReLU behind it: see batch_norm.cu."""

from __future__ import annotations

from typing import Any

from nacre import Array, Own
from nacre_layers.normalisation.batch_norm import BatchNormLayer, BatchNormState

from .launch import LANES, THREADS, TYPES, CudaKernel, function

MOST_PARTS = 128
"""Parts in which a channel is summed up, at most."""
ROWS = 16
"""Numbers of a channel that a thread adds up, at least, before there is another part."""


class BatchNormKernel(CudaKernel, reads="inputs"):
    """BatchNorm, unless with `use_batch` or `sync`; applies ReLU itself."""

    in_bf16 = True

    @classmethod
    def supports(cls, layer: BatchNormLayer, inputs: list[Any]) -> str | None:
        if layer.use_batch:
            return "serves no use_batch"
        if layer.sync:
            return "serves the mean and variance of each rank: sync=False"
        if len(inputs[0].shape) == 4 and layer.axis not in (1, -3):  # of images, which may have them last in memory
            return "serves the channels of images"
        return super().supports(layer, inputs)

    def __init__(self, layer: BatchNormLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.own = BatchNormState(layer, backend, inputs, diffs)
        self.parameters, self.learned, self.blobs = self.own.parameters, self.own.learned, self.own.blobs
        self.apply_relu(layer.neuron)

    def ready(self) -> None:
        before, channels, behind = self.own.shape
        if self.inputs[0].layout != "plain":
            before, behind = before * behind, 1
        self.shape, self.kind = (before, channels, behind), TYPES[self.inputs[0].dtype]
        self.wide = "double" if self.kind == "double" else "float"
        wide = "float64" if self.kind == "double" else "float32"
        lanes = LANES[self.kind]
        groups = channels if channels % lanes else channels // lanes
        if behind == 1:
            self.tiles, lines = -(-groups // THREADS), THREADS // min(groups, THREADS)
            wanted = -(-before // (lines * ROWS))
        else:
            self.tiles, wanted = channels, -(-before * behind // (THREADS * lanes * ROWS))
        self.n_parts = max(1, min(wanted, MOST_PARTS))
        empty = self.backend.empty
        self.parts = empty((self.n_parts, channels, 2), "float64")
        self.mean, self.slope = empty((channels,), wide), empty((channels,), wide)
        self.means = empty((channels, 2), wide)

    def _value(self, name: str) -> Array | None:
        return self.learned[name].blob if name in self.learned else None

    def _gradient(self, name: str) -> Array | None:
        return self.learned[name].gradient if name in self.learned else None

    def _sum(self, kernel: str, *arrays: Any) -> None:
        """Sum up the channels, in parts: a block for each part of each tile of channels."""
        given = tuple(0 if one is None else one for one in arrays)
        blocks = (self.tiles * self.n_parts,)
        run = function(self.backend, "batch_norm", f"{kernel}<{self.kind}>")
        run(blocks, (THREADS,), (*given, self.parts, self.n_parts, *self.shape))

    def forward(self, inputs: list[Own]) -> None:
        x, y, kind, follows = inputs[0].memory, self.blobs[0].memory, self.kind, self.own.follows
        if follows:
            self._sum("batch_norm_moments", x)
        running = self.own.mean.blob, self.own.variance.blob
        numbers = float(self.layer.decay), float(self.layer.epsilon)
        parts = (self.parts if follows else None, self.n_parts)
        arrays = (x, *parts, *running, self.mean, self.slope)
        self.launch("batch_norm", f"batch_norm_measure<{kind}>", self.shape[1], *arrays, *numbers, *self.shape)
        arrays = (x, y, self.mean, self.slope, self._value("scale"), self._value("bias"), int(self.relu))
        items = -(-inputs[0].size // LANES[kind])
        self.launch("batch_norm", f"batch_norm_apply<{kind}>", items, *arrays, *self.shape)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        x, dy, kind = inputs[0].memory, self.blobs_diff[0].memory, self.kind
        y = self.blobs[0].memory if self.relu else None
        self._sum("batch_norm_slopes", x, y, dy, self.mean, self.slope)
        count = self.shape[0] * self.shape[2]
        gradients = self._gradient("scale"), self._gradient("bias")
        arrays = (self.parts, self.n_parts, *gradients, self.means, count, int(self.own.follows), self.shape[1])
        self.launch("batch_norm", f"batch_norm_total<{self.wide}>", self.shape[1], *arrays)
        if diffs[0] is not None:
            arrays = (x, y, dy, diffs[0].memory, self.mean, self.slope, self._value("scale"), self.means)
            items = -(-inputs[0].size // LANES[kind])
            self.launch("batch_norm", f"batch_norm_backward<{kind}>", items, *arrays, *self.shape)
