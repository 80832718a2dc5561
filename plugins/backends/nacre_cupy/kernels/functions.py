"""Functions of one number as layers, and neurons as layers: links of chains, see chain.cu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre import Own
from nacre_layers.elementwise.functions import (
    AbsValLayer,
    ClipLayer,
    ExpLayer,
    FunctionLayer,
    LogLayer,
    PowerLayer,
    log_of,
)

from .chain import ChainKernel, Link, LinkedKernel

FUNCTIONS: dict[type, Callable[[Any], Link]] = {
    AbsValLayer: lambda layer: Link("AbsVal", (), "x"),
    ClipLayer: lambda layer: Link("Clip", (layer.low, layer.high), "x"),
    ExpLayer: lambda layer: Link("Exp", (layer.scale * log_of(layer.base), layer.shift * log_of(layer.base)), "y"),
    LogLayer: lambda layer: Link("Log", (layer.scale, layer.shift, 1 / log_of(layer.base)), "x"),
    PowerLayer: lambda layer: Link("Power", (layer.scale, layer.shift, layer.power), "x"),
}


class FunctionKernel(ChainKernel):
    """AbsVal, Clip, Exp, Log and Power, of one bottom."""

    @classmethod
    def supports(cls, layer: FunctionLayer, inputs: list[Any]) -> str | None:
        return super().supports(layer, inputs) if len(inputs) == 1 else "serves one bottom"

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs, links=[FUNCTIONS[type(layer)](layer)])


class ActivationKernel(LinkedKernel, reads=""):
    """Activation: the top is the bottom, to which the net applies the neuron; so it is part of chains."""

    in_bf16 = True

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        return super().supports(layer, inputs) if len(inputs) == 1 else "serves one bottom"

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(inputs[0])]

    def links(self, index: int) -> list[Link]:
        return []

    def forward(self, inputs: list[Own]) -> None:
        """Do nothing: the top is the bottom."""

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        """Do nothing: the gradient is that of the top."""
