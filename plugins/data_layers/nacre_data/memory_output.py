"""MemoryOutput: blobs kept in memory, batch by batch."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from nacre import Layer, LayerState, Names, at_least


class MemoryOutputLayer(Layer, is_sink=True):
    """Keep a copy of the rows of every bottom that count, after each forward pass.

    outputs[bottom][pass] = x[:rows], where `net.node_ops[name].state.outputs` has a list for each bottom,
    with one array for each pass; `reset_outputs()` empties them. They grow until then. After Mocha.jl's
    `MemoryOutputLayer`.

    Example:
        [[layer]]
        type = "MemoryOutput"
        bottoms = ["prob"]  # (8, 10)
    """

    bottoms: Annotated[Names, at_least(1), "what is kept"]


class MemoryOutputState(LayerState, of=MemoryOutputLayer, reads="", host_only=True):
    """`MemoryOutputLayer` on any backend."""

    outputs: list[list[np.ndarray]]

    def __init__(self, layer: MemoryOutputLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reset_outputs()

    def reset_outputs(self) -> None:
        """Drop all arrays that were kept."""
        self.outputs = [[] for _ in self.layer.bottoms]

    def forward(self, inputs: list[Any]) -> None:
        for x, kept in zip(inputs, self.outputs, strict=True):
            kept.append(x[: self.backend.rows].copy())

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing: kept blobs have no gradient."""
