"""SoftlabelSoftmaxLoss: the cross-entropy of softmax probabilities and a distribution over the classes."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, LayerState, Names, exactly, non_zero

from ..axes import axis_of, split_shape
from ..elementwise.softmax import log_softmax
from .base import Factor, Loss, check_alike


class SoftlabelSoftmaxLossLayer(Loss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / M · Σ q log softmax(x), over the M positions in the rows that count: all axes except `axis`.

    Bottoms are the scores x and, of the same shape, a distribution q over the classes; it need not add up to 1. Both
    have a gradient. After Mocha.jl's `SoftlabelSoftmaxLossLayer`.

    Example:
        [[layer]]
        type = "SoftlabelSoftmaxLoss"
        bottoms = ["score", "target"]  # (8, 10), (8, 10)
    """

    bottoms: Annotated[Names, exactly(2), "the scores and the distributions"]
    axis: Annotated[int, non_zero, "axis of the classes"] = 1

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> SoftlabelSoftmaxLossState:
        check_alike(self, inputs)
        return SoftlabelSoftmaxLossState(self, backend, inputs, diffs)


class SoftlabelSoftmaxLossState(LayerState, reads="inputs", capturable="rows"):
    """`SoftlabelSoftmaxLossLayer` on any backend."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.images = inputs[0].shape[0]
        self.shape = split_shape(inputs[0].shape, axis_of(layer, inputs[0].shape))
        self.loss: Any = 0.0

    def ready(self) -> None:
        self.log, self.factors = self.backend.empty(self.shape), Factor(self.backend)

    @property
    def real(self) -> int:
        """The number of positions before the classes in rows that count."""
        return self.shape[0] * min(self.backend.rows, self.images) // self.images

    def targets(self, inputs: list[Array]) -> Array:
        """Return q as (before, classes, after), for the rows that count; valid until the end of `backward`."""
        return inputs[1].reshape(self.shape)[: self.real]

    def divisor(self) -> int:
        """Return M; called after `targets`."""
        return self.real * self.shape[2]

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        log_softmax(self.backend, inputs[0].reshape(self.shape), self.log)
        self.q = self.targets(inputs)
        self.factor = self.factors.of(self.layer.weight, self.divisor())
        part = self.backend.scratch(self.q.shape)
        xp.multiply(self.log[: self.real], self.q, out=part)
        nothing = self.backend.scratch(self.q.shape, "bool")
        xp.equal(self.q, 0, out=nothing)
        xp.copyto(part, 0, where=nothing)  # also where the logarithm is infinite
        self.loss = -self.factor * xp.sum(part)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, real = self.backend.xp, self.real
        log = self.log[:real]
        if diffs[0] is not None:
            # softmax · Σ q - q
            dx, total = diffs[0].reshape(self.shape), self.backend.scratch((real, 1, self.shape[2]))
            xp.sum(self.q, axis=1, keepdims=True, out=total)
            xp.exp(log, out=dx[:real])
            xp.multiply(dx[:real], total, out=dx[:real])
            xp.subtract(dx[:real], self.q, out=dx[:real])
            xp.multiply(dx[:real], self.factor, out=dx[:real])
            dx[real:] = 0
        if diffs[1] is not None:
            self.label_gradient(diffs[1], log)

    def label_gradient(self, diff: Array, log: Array) -> None:
        """Write the gradient of the second bottom."""
        dq = diff.reshape(self.shape)
        self.backend.xp.multiply(log, -self.factor, out=dq[: self.real])
        dq[self.real :] = 0
