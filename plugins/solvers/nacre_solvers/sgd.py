"""SGD: stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre import Method, MethodState
from nacre.solver import Span


class SGD(Method):
    """v = momentum · v - rate · gradient; w = w + v.

    The learning rate stands inside the momentum, as in Caffe and Mocha.jl.
    """

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return SGDState(self, backend, spans)


class SGDState(MethodState):
    """`SGD` on any backend."""

    def __init__(self, method: SGD, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.velocity = self.history("velocity")

    def update(self) -> None:
        xp, scalars = self.backend.xp, self.backend.scalars
        for span, v in zip(self.spans, self.velocity, strict=True):
            part = self.backend.scratch(v.shape)
            xp.multiply(v, scalars["momentum"], out=v)
            xp.multiply(span.gradient, scalars["rate"] * span.rate, out=part)
            xp.subtract(v, part, out=v)
            xp.add(span.value, v, out=span.value)
