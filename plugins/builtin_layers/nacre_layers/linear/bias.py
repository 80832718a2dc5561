"""Bias: add a learned or given number to each channel."""

from __future__ import annotations

from typing import Any

from nacre import Array, Parameter

from .operand import OperandLayer, OperandState


class BiasLayer(OperandLayer):
    """y = x + bias, where bias is repeated along the axes that it does not have.

    With one bottom, x, the bias is learned, and has the shape of x's `n_axes` axes from `axis` on, by default
    (channels,). With two bottoms the second is the bias; its axes match those of x from `axis` on, each of the same
    length or of length 1. After Caffe's `Bias`.

    Example:
        [[layer]]
        type = "Bias"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["shifted1"]  # (8, 20, 12, 12)
    """


class BiasState(OperandState, of=BiasLayer, reads="", capturable=True):
    """`BiasLayer` on any backend."""

    def __init__(self, layer: BiasLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        if len(inputs) == 1:
            self.parameters = [Parameter.of(layer, "bias", self.operand)]

    def forward(self, inputs: list[Array]) -> None:
        bias = self.parameters[0].blob if self.parameters else inputs[1]
        self.backend.xp.add(inputs[0], bias.reshape(self.wide), out=self.blobs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        dy = self.blobs_diff[0]
        gradient = self.parameters[0].gradient if self.parameters else diffs[1]
        if gradient is not None:
            self.add_up(dy, gradient)
        if diffs[0] is not None:
            self.backend.xp.copyto(diffs[0], dy)
