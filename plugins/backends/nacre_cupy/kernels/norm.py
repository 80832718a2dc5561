"""LayerNorm and RMSNorm: see norm.cu."""

from __future__ import annotations

from typing import Any, ClassVar

from nacre import Array, Own
from nacre_layers.normalisation.layer_norm import LayerNormState
from nacre_layers.normalisation.rms_norm import RMSNormState

from .bias import parts_of, total
from .launch import LANES, THREADS, TYPES, CudaKernel, function, is_image, memory

KEPT = 3
"""Numbers that are kept of a row, as `Kept` in norm.cu."""
MOST_PARTS = 512
"""Parts in which the gradients of scale and bias are summed up, at most: of packs few blocks would read much."""
LONG = 8
"""Packs of each thread of a warp, above which a row is one for a whole block."""


class LayerNormKernel(CudaKernel, reads="inputs"):
    """LayerNorm of blobs that are no images; of a row it keeps three numbers and computes the rest anew in backward."""

    in_bf16 = True

    state: ClassVar[type[LayerNormState]] = LayerNormState
    """The layer's own."""
    centred = True

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        if is_image(inputs[0].shape):
            return "serves no images, which may lie with their channels last"
        return super().supports(layer, inputs)

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        own = self.state(layer, backend, inputs, diffs)
        self.learned, self.parameters, self.blobs = own.learned, own.parameters, own.blobs
        _, self.rows, self.size = own.shape
        self.wide = "float64" if inputs[0].dtype == "float64" else "float32"
        self.intermediates = [backend.blob((KEPT * self.rows,), self.wide)] if own.trains else []

    def ready(self) -> None:
        self.kind = TYPES[self.inputs[0].dtype]
        each = LANES[self.kind] if self.size % LANES[self.kind] == 0 else 1
        packs = -(-self.size // each)
        self.lanes = THREADS if packs > 32 * LONG else min(1 << (packs - 1).bit_length(), 32)
        self.n_parts = parts_of(self.rows, self.size, MOST_PARTS)

    def _value(self, name: str) -> Array | None:
        return self.learned[name].blob if name in self.learned else None

    def forward(self, inputs: list[Own]) -> None:
        kept = self.intermediates[0] if self.intermediates else None
        arrays = (inputs[0].memory, self.blobs[0].memory, self._value("scale"), self._value("bias"), kept)
        sizes = (self.rows, self.size, int(self.centred), float(self.layer.epsilon), self.lanes)
        self.launch("norm", f"norm_forward<{self.kind}>", self.rows * self.lanes, *arrays, *sizes)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        x, dy, dx = inputs[0].memory, self.blobs_diff[0].memory, memory(diffs[0])
        (kept,) = self.intermediates
        if any(one.gradient is not None for one in self.parameters):
            sums = self.backend.scratch((2, self.n_parts, self.size), "float64")
            run = function(self.backend, "norm", f"norm_columns<{self.kind}>")
            blocks = -(-self.size // THREADS) * self.n_parts
            run((blocks,), (THREADS,), (x, dy, kept, *sums, self.n_parts, self.rows, self.size))
            for parts, name in zip(sums, ("scale", "bias"), strict=True):
                gradient = self.learned[name].gradient if name in self.learned else None
                if gradient is not None:
                    total(self.backend, parts, gradient)
        if dx is not None:
            arrays = (x, dy, dx, self._value("scale"), kept)
            sizes = (self.rows, self.size, int(self.centred), self.lanes)
            self.launch("norm", f"norm_backward<{self.kind}>", self.rows * self.lanes, *arrays, *sizes)


class RMSNormKernel(LayerNormKernel, reads="inputs"):
    """RMSNorm of blobs that are no images."""

    state = RMSNormState
    centred = False
