"""Swirl on the numpy backend: a pair of channels is one complex number, and turning it one multiplication."""

from __future__ import annotations

from typing import Any

import numpy as np
from nacre_swirl.swirl import SwirlLayer, pair_count

from nacre import Array, LayerState, Own, Parameter


class SwirlKernel(LayerState, reads="blobs", dtypes=("float32", "float64")):
    """y = x · exp(i · angle), on blobs whose channels lie last in memory."""

    @classmethod
    def supports(cls, layer: SwirlLayer, inputs: list[Any]) -> str | None:
        """Decline blobs whose channels do not lie last."""
        if all(len(one.shape) in (2, 4) for one in inputs):
            return None
        return "only bottoms of 2 or 4 axes have their channels last"

    def __init__(self, layer: SwirlLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.angle = Parameter.of(layer, "angle", (pair_count(layer, inputs),))
        self.parameters = [self.angle]
        self.blobs = [backend.blob(one.shape) for one in inputs]
        self.turn, self.back = np.empty((2, *self.angle.shape), np.result_type(backend.dtype, np.complex64))

    def forward(self, inputs: list[Own]) -> None:
        """Turn every bottom."""
        np.cos(self.angle.blob, out=self.turn.real)
        np.sin(self.angle.blob, out=self.turn.imag)
        for x, y in zip(inputs, self.blobs, strict=True):
            np.multiply(pairs(x), self.turn, out=pairs(y))

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        """Turn every gradient back; that of an angle is the sum of Im(dy · conj(y))."""
        total = self.angle.gradient
        if total is not None:
            total[...] = 0
            for y, dy in zip(self.blobs, self.blobs_diff, strict=True):
                part = self.backend.scratch(pairs(y).shape, self.turn.dtype.name)
                np.conjugate(pairs(y), out=part)
                np.multiply(part, pairs(dy), out=part)
                np.add(total, part.imag.sum(axis=0), out=total)
        np.conjugate(self.turn, out=self.back)
        for dx, dy in zip(diffs, self.blobs_diff, strict=True):
            if dx is not None:
                np.multiply(pairs(dy), self.back, out=pairs(dx))

    def shutdown(self) -> None:
        """Nothing is held."""


def pairs(blob: Own) -> Array:
    """Read a blob as (pixels of all images, pairs of channels), complex, without a copy.

    On the numpy backend the channels of four axes lie last; a blob of two axes, or of single pixels, is plain.
    """
    flat = blob.memory.reshape(-1, blob.shape[1])
    return flat.view(np.result_type(flat.dtype, np.complex64))
