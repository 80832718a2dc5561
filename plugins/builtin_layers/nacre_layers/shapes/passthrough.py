"""The state of layers whose tops are their bottoms: nothing is computed or copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre import Array, LayerState


class AliasState(LayerState, reads="", capturable=True):
    """The tops are the bottoms, under other shapes if `shapes` has them, on any backend."""

    def __init__(
        self,
        layer: Any,
        backend: Any,
        inputs: list[Any],
        diffs: list[Any],
        shapes: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(layer, backend, inputs, diffs)
        given = [one.shape for one in inputs] if shapes is None else shapes
        self.blobs = [backend.alias(one, shape) for one, shape in zip(inputs, given, strict=True)]

    def forward(self, inputs: list[Array]) -> None:
        """Do nothing: the tops are the bottoms."""

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: the gradients are those of the tops, if there are any."""
