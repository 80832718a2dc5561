"""SoftmaxLoss: the cross-entropy of softmax probabilities and labels."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from nacre import Array, Layer, LayerState, Names, exactly, non_negative, non_zero

from .classes import Classes
from .softmax import softmax


class SoftmaxLossLayer(Layer, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / M · Σ log softmax(x)[label], over the M labels of the rows that count.

    Bottoms are the scores and the labels. Labels are whole numbers counted from 0, of any type, in the shape (N,),
    (N, 1), or that of the scores with `axis` of length 1. Raises DataError where a label is out of range. After
    Mocha.jl's `SoftmaxLossLayer`.
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the labels"]
    axis: Annotated[int, non_zero, "axis of the classes"] = 1
    weight: Annotated[float, non_negative, "multiplies the loss"] = 1.0

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> SoftmaxLossState:
        return SoftmaxLossState(self, backend, inputs, diffs)


class SoftmaxLossState(LayerState, reads=""):
    """`SoftmaxLossLayer` on any backend."""

    def __init__(self, layer: SoftmaxLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.classes = Classes(layer, backend, inputs[0].shape, inputs[1].shape)
        self.shape = self.classes.shape
        self.tiny = float(np.finfo(backend.dtype).tiny)
        self.loss: Any = 0.0

    def ready(self) -> None:
        before, classes, behind = self.shape
        empty, labels = self.backend.empty, before * behind
        self.probability = empty(self.shape)
        self.places, self.picked, self.chosen = empty((labels,), "int64"), empty((labels,), "int64"), empty((labels,))
        # the flat index of the probability of class 0 at each label's place
        starts = [outer * classes * behind + inner for outer in range(before) for inner in range(behind)]
        self.backend.from_host(np.array(starts, np.int64), self.places)

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        self.count = self.classes.count
        softmax(self.backend, inputs[0].reshape(self.shape), self.probability)
        label = self.classes.labels(inputs[1], self.count)
        picked, chosen = self.picked[: self.count], self.chosen[: self.count]
        xp.multiply(label, self.shape[2], out=picked)
        xp.add(picked, self.places[: self.count], out=picked)
        xp.take(self.probability.reshape(-1), picked, out=chosen, mode="clip")
        log = self.backend.scratch(chosen.shape)
        xp.maximum(chosen, self.tiny, out=log)
        xp.log(log, out=log)
        self.loss = -self.layer.weight / self.count * xp.sum(log)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        dx = diffs[0]
        if dx is None:
            return
        xp = self.backend.xp
        flat = dx.reshape(-1)
        xp.copyto(dx.reshape(self.shape), self.probability)
        chosen = self.backend.scratch((self.count,))
        xp.subtract(self.chosen[: self.count], 1, out=chosen)
        flat[self.picked[: self.count]] = chosen
        xp.multiply(dx, self.layer.weight / self.count, out=dx)
        if self.backend.rows < self.classes.images:
            dx[self.backend.rows :] = 0

    def shutdown(self) -> None:
        """Nothing is held."""
