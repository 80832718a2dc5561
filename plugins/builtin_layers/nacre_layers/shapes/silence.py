"""Silence: takes blobs that no other layer reads."""

from __future__ import annotations

from typing import Annotated

from nacre import Array, Layer, LayerState, Names, at_least


class SilenceLayer(Layer, is_sink=True, can_do_bp=True):
    """Take blobs, with a gradient of 0: for tops of a trained layer that no other layer reads.

    dx = 0. Without it such a top is an error, because it is usually a mistake. What it takes in phase `predict` is no
    output there, unless it is asked for by name. After Caffe's `Silence`.

    Example:
        [[layer]]
        type = "Silence"
        bottoms = ["unused"]  # (8, 10)
    """

    bottoms: Annotated[Names, at_least(1), "blobs that no other layer reads"]


class SilenceState(LayerState, of=SilenceLayer, reads="", elementwise=True, capturable=True):
    """`SilenceLayer` on any backend."""

    def forward(self, inputs: list[Array]) -> None:
        """Nothing is made of them."""

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for dx in diffs:
            if dx is not None:
                dx[...] = 0
