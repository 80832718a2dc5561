"""NewName: every number takes steps of one size, into the direction of its mean gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from nacre import Method, MethodState, Span, fraction


class NewName(Method):
    """m = β · m + (1 - β) · gradient; w = w - rate · sign(m)."""

    has_momentum = False  # it does not use the solver's momentum policy

    beta: Annotated[float, fraction, "share of the mean that is kept in each update"] = 0.9

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        """Make the state for the parameters of a net."""
        return NewNameState(self, backend, spans)


class NewNameState(MethodState):
    """`NewName` on any backend. A span is a stretch of memory with many parameters."""

    def __init__(self, method: NewName, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.means = self.history("mean")  # an array for each span, which snapshots keep

    def update(self) -> None:
        """Change the parameters by their gradients."""
        xp, beta, rate = self.backend.xp, self.method.beta, self.backend.scalars["rate"]
        for span, mean in zip(self.spans, self.means, strict=True):
            part = self.backend.scratch(mean.shape)
            xp.multiply(mean, beta, out=mean)
            xp.multiply(span.gradient, 1 - beta, out=part)
            xp.add(mean, part, out=mean)
            xp.sign(mean, out=part)
            xp.multiply(part, rate * span.rate, out=part)
            xp.subtract(span.value, part, out=span.value)
