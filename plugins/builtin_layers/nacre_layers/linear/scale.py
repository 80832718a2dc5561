"""Scale: multiply a blob by one of fewer axes, which is learned or a second bottom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Array, Parameter

from ..fields import ScaleFields
from .operand import OperandLayer, OperandState


class ScaleLayer(OperandLayer, ScaleFields):
    """y = x · scale + bias, where scale and bias are repeated along the axes that they do not have.

    With one bottom, x, scale is learned, and so is the bias if there is one: both have the shape of x's `n_axes` axes
    from `axis` on, by default (channels,). With two bottoms the second is the scale; its axes match those of x from
    `axis` on, each of the same length or of length 1, such as the gate (images, channels) of a squeeze-and-excitation
    net. After Caffe's `Scale`.

    Example:
        [[layer]]
        type = "Scale"
        bottoms = ["conv1", "gate"]  # (8, 20, 12, 12), (8, 20)
        tops = ["gated1"]  # (8, 20, 12, 12)
    """

    bias: Annotated[bool, "whether to add a learned bias; only with a learned scale"] = False

    def complaints(self) -> Iterator[str]:
        """Check that there is a learned scale, whose shape the bias has."""
        yield from super().complaints()
        if self.bias and len(self.bottoms) > 1:
            yield "bias=True, but the scale is a second bottom: add a Bias layer after it"


class ScaleState(OperandState, of=ScaleLayer, reads="inputs", capturable=True):
    """`ScaleLayer` on any backend."""

    def __init__(self, layer: ScaleLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.learned = len(inputs) == 1
        names = ["scale"] * self.learned + ["bias"] * layer.bias
        self.parameters = [Parameter.of(layer, name, self.operand) for name in names]

    def forward(self, inputs: list[Array]) -> None:
        xp, y = self.backend.xp, self.blobs[0]
        xp.multiply(inputs[0], self._scale(inputs), out=y)
        if self.layer.bias:
            xp.add(y, self.parameters[-1].blob.reshape(self.wide), out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, dy = self.backend.xp, self.blobs_diff[0]
        if self.layer.bias and (gradient := self.parameters[-1].gradient) is not None:
            self.add_up(dy, gradient)
        gradient = self.parameters[0].gradient if self.learned else diffs[1]
        if gradient is not None:
            product = self.backend.scratch(dy.shape)
            xp.multiply(dy, inputs[0], out=product)
            self.add_up(product, gradient)
        if diffs[0] is not None:
            xp.multiply(dy, self._scale(inputs), out=diffs[0])

    def _scale(self, inputs: list[Array]) -> Array:
        return (self.parameters[0].blob if self.learned else inputs[1]).reshape(self.wide)
