"""Split: one blob under several names."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, LayerState, Names, at_least, exactly

from ..cutting import OnNumbers


class SplitLayer(OnNumbers, can_do_bp=True):
    """Every top is the bottom, y_i = x; the gradients of the tops are added up, dx = Σ dy_i.

    Nothing is copied: a layer that changes one branch in place gets memory of its own. After Mocha.jl's `SplitLayer`.

    Example:
        [[layer]]
        type = "Split"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["left", "right"]  # (8, 3, 32, 32), (8, 3, 32, 32)
    """

    bottoms: Annotated[Names, exactly(1), "the blob"]
    tops: Annotated[Names, at_least(1), "its copies"]


class SplitState(LayerState, of=SplitLayer, reads="", elementwise=True, capturable=True):
    """`SplitLayer` on any backend."""

    def __init__(self, layer: SplitLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(inputs[0]) for _ in layer.tops]

    def forward(self, inputs: list[Array]) -> None:
        """Do nothing: the tops are the bottom."""

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        wanted = [dy for dy in self.blobs_diff if dy is not None]
        if diffs[0] is None or len(wanted) == 1:  # the one gradient lies in the bottom's memory
            return
        self.backend.xp.add(wanted[0], wanted[1], out=diffs[0])
        for dy in wanted[2:]:
            self.backend.xp.add(diffs[0], dy, out=diffs[0])
