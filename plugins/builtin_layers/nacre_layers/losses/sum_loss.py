"""SumLoss: any blob as a loss."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, LayerState, Names, exactly

from .base import Loss


class SumLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = weight · Σ x, over all numbers of the rows that count; to divide by their number, use `weight`.

    So any result of layers can be a loss: after `Subtract` and `AbsVal`, for example, the sum of absolute errors. The
    bottom is of any shape. After the `loss_weight` that any top may have in Caffe.

    Example:
        [[layer]]
        type = "SumLoss"
        bottoms = ["error"]  # (8, 10)
        weight = 0.0125
    """

    bottoms: Annotated[Names, exactly(1), "the blob to add up"]


class SumLossState(LayerState, of=SumLossLayer, reads="", capturable="rows"):
    """`SumLossLayer` on any backend."""

    loss: Any = 0.0
    divided_by = "nothing"

    def forward(self, inputs: list[Array]) -> None:
        self.rows = min(self.backend.rows, inputs[0].shape[0])
        self.loss = self.layer.weight * self.backend.xp.sum(inputs[0][: self.rows])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        dx = diffs[0]
        if dx is not None:
            dx[: self.rows] = self.layer.weight
            dx[self.rows :] = 0
