"""HingeLoss: scores should be on the right side, by a margin of 1."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np

from nacre import Array, Names, exactly, non_zero

from .base import Loss, PairLossState, alike
from .classes import Classes


class HingeLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = weight / N · Σ max(0, 1 - x y)^p, over the N rows that count, with p = 1 ("L1") or 2 ("L2").

    Bottoms are the scores x, and labels in one of two forms. Of the shape of the scores (axes of length 1 may differ),
    they are the y themselves, -1 or 1, and have a gradient. Else they are classes, whole numbers counted from 0, in the
    shape (N,), (N, 1), or that of the scores with `axis` of length 1: y is 1 for the score of the label's class and -1
    for all others. After Mocha.jl's `HingeLossLayer` (the first form) and Caffe's `HingeLoss` (the second).

    Example:
        [[layer]]
        type = "HingeLoss"
        bottoms = ["score", "label"]  # (8, 10), (8,)
        norm = "L2"
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]
    norm: Annotated[Literal["L1", "L2"], "L2 squares the missing part of the margin"] = "L1"
    axis: Annotated[int, non_zero, "axis of the classes, if labels are classes"] = 1

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> HingeLossState:
        signs = alike(inputs[0].shape, inputs[1].shape)
        return (HingeLossState if signs else ClassHingeLossState)(self, backend, inputs, diffs)


class HingeLossState(PairLossState, reads="inputs"):
    """`HingeLossLayer` with labels -1 and 1, on any backend."""

    def _missing(self, x: Array, y: Array, out: Array) -> None:
        """Write max(0, 1 - x y) into `out`."""
        xp = self.backend.xp
        xp.multiply(x, y, out=out)
        xp.subtract(1.0, out, out=out)
        xp.maximum(out, 0.0, out=out)

    def terms(self, a: Array, b: Array, out: Array) -> None:
        self._missing(a, b, out)
        if self.layer.norm == "L2":
            self.backend.xp.multiply(out, out, out=out)

    def slope(self, index: int, a: Array, b: Array, out: Array) -> None:
        xp = self.backend.xp
        self._missing(a, b, out)
        if self.layer.norm == "L2":
            xp.multiply(out, -2.0, out=out)
        else:
            xp.sign(out, out=out)
            xp.negative(out, out=out)
        xp.multiply(out, b if index == 0 else a, out=out)


class ClassHingeLossState(HingeLossState, reads="inputs"):
    """`HingeLossLayer` with classes as labels, on any backend: it makes the signs."""

    def __init__(self, layer: HingeLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, [inputs[0], inputs[0]], diffs)
        self.classes = Classes(layer, backend, inputs[0].shape, inputs[1].shape)

    def ready(self) -> None:
        super().ready()
        self.classes.ready()
        self.signs = self.backend.empty(self.classes.shape)
        self.hit = self.backend.constant(np.ones(1))

    def forward(self, inputs: list[Array]) -> None:
        self.signs[...] = -1
        self.signs.reshape(-1)[self.classes.pick(inputs[1])] = self.hit
        super().forward([inputs[0], self.signs])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        super().backward([inputs[0], self.signs], [diffs[0], None])
        if diffs[1] is not None:
            diffs[1][...] = 0
