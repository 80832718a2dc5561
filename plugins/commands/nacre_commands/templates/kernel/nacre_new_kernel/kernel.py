"""GLU on the numpy backend: for vectors, with the gate as a tangent."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre import LayerState, Own


class NewNameKernel(LayerState, reads="inputs", dtypes=("float32", "float64"), version=1):
    """y = a · σ(b), where σ(b) = (1 + tanh(b / 2)) / 2; a and b are the halves of each row.

    It computes version 1 of the layer. If the layer's own code ever computes something else, its version rises, and
    nacre leaves this kernel out until you have looked at it again.
    """

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        """Return why this kernel cannot be used for a layer on such inputs, or None."""
        if type(layer.gate).__name__ != "Sigmoid":
            return "only a Sigmoid as the gate"
        return None if all(len(one.shape) == 2 for one in inputs) else "only bottoms of 2 axes"

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((one.shape[0], one.shape[1] // 2)) for one in inputs]
        self.intermediates = [backend.blob(y.shape) for y in self.blobs]  # the gates, which backward needs too

    def forward(self, inputs: list[Own]) -> None:
        """Open the gates, and let the first halves through."""
        for x, y, gate in zip(inputs, self.blobs, self.intermediates, strict=True):
            first, second = np.split(x.memory, 2, axis=1)
            np.multiply(second, 0.5, out=gate)
            np.tanh(gate, out=gate)
            np.add(gate, 1, out=gate)
            np.multiply(gate, 0.5, out=gate)
            np.multiply(first, gate, out=y.memory)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        """Write da = dy · σ(b) and db = dy · a · σ(b) · (1 - σ(b))."""
        for x, dy, dx, gate in zip(inputs, self.blobs_diff, diffs, self.intermediates, strict=True):
            if dx is None:
                continue
            first, _ = np.split(x.memory, 2, axis=1)
            da, db = np.split(dx.memory, 2, axis=1)
            np.multiply(dy.memory, gate, out=da)
            np.subtract(1, gate, out=db)
            np.multiply(db, da, out=db)
            np.multiply(db, first, out=db)
