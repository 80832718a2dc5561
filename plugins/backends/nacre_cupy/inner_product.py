"""InnerProduct by cuBLASLt, which adds the bias while it multiplies."""

from __future__ import annotations

from typing import Any

from nacre import Array, Own
from nacre_layers.linear.inner_product import InnerProductLayer, InnerProductState


class InnerProductKernel(InnerProductState, reads="inputs", on_plain=True, dtypes=("float32", "float64")):
    """The layer's own state, but for the bias, for which no further pass over the tops is needed."""

    @classmethod
    def supports(cls, layer: InnerProductLayer, inputs: list[Any]) -> str | None:
        if layer.axis in (0, -len(inputs[0].shape)):
            return "serves no batch that is one row of features: axis=0"
        return None if layer.bias and not layer.transpose else "serves layers with a bias and an untransposed weight"

    def _rows(self, x: Any, dy: Any) -> tuple[Array, Array]:
        return super()._rows(*(one.memory if isinstance(one, Own) else one for one in (x, dy)))

    def forward(self, inputs: list[Own]) -> None:
        backend: Any = self.backend.backend
        weight, bias = self.parameters
        for bottom, top in zip(inputs, self.blobs, strict=True):
            x, y = self._rows(bottom, top)
            backend.products.linear(x, weight.blob, bias.blob, y)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        super().backward(inputs, [None if one is None else one.memory for one in diffs])
