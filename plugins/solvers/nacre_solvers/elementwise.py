"""The common code of methods that change every number on its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from nacre import Array, Method, MethodState, Span, positive

CHUNK = 1 << 15
"""Numbers per piece on the host, so that parameters, gradients and histories stay in the cache."""


class Rooted(Method):
    """A method that divides by the root of a history h of squared gradients, and by an ε that keeps it above zero."""

    has_momentum = False

    epsilon: Annotated[float, positive, "keeps the divisor above zero"] = 1e-8
    epsilon_place: Annotated[
        Literal["outside", "inside"], "outside: √h + ε, as PyTorch and Caffe; inside: √(h + ε), as SINGA"
    ] = "outside"


class ElementwiseState(MethodState):
    """A method on any backend, piece by piece; a subclass defines the `names` of its histories, and `change`."""

    names: tuple[str, ...] = ()

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        histories = [self.history(name) for name in self.names]
        self.pieces: list[tuple[float, tuple[Array, ...]]] = []
        for number, span in enumerate(spans):
            arrays = (span.value, span.gradient, *(history[number] for history in histories))
            size = span.value.shape[0]
            step = min(size, CHUNK) if backend.backend.on_host else size
            for start in range(0, size, step):
                self.pieces.append((span.rate, tuple(array[start : start + step] for array in arrays)))

    def update(self) -> None:
        for rate, arrays in self.pieces:
            self.change(self.backend.scalars["rate"] * rate, *arrays)

    def change(self, rate: float, w: Array, g: Array, *histories: Array) -> None:
        """Change the parameters `w` and the histories by the gradients `g`, all of one shape."""
        raise NotImplementedError

    def average(self, m: Array, g: Array, rho: float) -> None:
        """Compute m = ρm + (1 - ρ)g."""
        xp, part = self.backend.xp, self.backend.scratch(m.shape)
        xp.multiply(m, rho, out=m)
        xp.multiply(g, 1 - rho, out=part)
        xp.add(m, part, out=m)

    def average_square(self, h: Array, g: Array, rho: float) -> None:
        """Compute h = ρh + (1 - ρ)g²."""
        xp, part = self.backend.xp, self.backend.scratch(h.shape)
        xp.multiply(h, rho, out=h)
        xp.multiply(g, g, out=part)
        xp.multiply(part, 1 - rho, out=part)
        xp.add(h, part, out=h)

    def root(self, h: Array, epsilon: float) -> Array:
        """Return the root of h, with ε inside or outside of it, in scratch memory."""
        xp, part = self.backend.xp, self.backend.scratch(h.shape)
        if self.method.epsilon_place == "inside":
            xp.add(h, epsilon, out=part)
            return xp.sqrt(part, out=part)
        xp.sqrt(h, out=part)
        return xp.add(part, epsilon, out=part)

    def descend(self, w: Array, step: Array, divisor: Array, rate: float) -> None:
        """Compute w = w - rate · step / divisor; the divisor is overwritten."""
        xp = self.backend.xp
        xp.divide(step, divisor, out=divisor)
        xp.multiply(divisor, rate, out=divisor)
        xp.subtract(w, divisor, out=w)
