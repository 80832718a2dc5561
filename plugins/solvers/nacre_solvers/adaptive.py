"""AdaGrad, RMSProp and AdaDelta: every number's step is divided by the size of its gradients so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from nacre import Array, Method, MethodState, Span, fraction, positive

from .elementwise import ElementwiseState, Rooted


class AdaGrad(Rooted):
    """h = h + g²; w = w - rate · g / (√h + ε), for every number by itself.

    By Duchi et al., as in Caffe and PyTorch. (Mocha.jl had one h for all numbers of a parameter.)
    """

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return AdaGradState(self, backend, spans)


class AdaGradState(ElementwiseState):
    """`AdaGrad` on any backend."""

    names = ("square",)

    def change(self, rate: float, w: Array, g: Array, h: Array) -> None:
        xp, part = self.backend.xp, self.backend.scratch(w.shape)
        xp.multiply(g, g, out=part)
        xp.add(h, part, out=h)
        self.descend(w, g, self.root(h, self.method.epsilon), rate)


class RMSProp(Rooted):
    """h = ρh + (1 - ρ)g²; v = momentum · v - rate · g / (√h + ε); w = w + v.

    With `centered` the divisor is √(h - m²) + ε, of the mean m = ρm + (1 - ρ)g: the gradients' standard deviation. By
    Tieleman and Hinton, as in Caffe and SINGA, which have no momentum, and in PyTorch, where the rate stands outside
    the momentum: the same as long as it does not change.
    """

    has_momentum = True

    rho: Annotated[float, fraction, "share of the mean square that is kept in each update"] = 0.99
    centered: Annotated[bool, "whether to subtract the square of the mean gradient from h"] = False

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return RMSPropState(self, backend, spans)


class RMSPropState(ElementwiseState):
    """`RMSProp` on any backend."""

    def __init__(self, method: RMSProp, backend: Any, spans: Sequence[Span]) -> None:
        self.names = ("square", "velocity", "mean") if method.centered else ("square", "velocity")
        super().__init__(method, backend, spans)

    def change(self, rate: float, w: Array, g: Array, h: Array, v: Array, *mean: Array) -> None:
        xp, rho, step = self.backend.xp, self.method.rho, self.backend.scratch(w.shape, slot=1)
        self.average_square(h, g, rho)
        if mean:
            self.average(mean[0], g, rho)
            xp.multiply(mean[0], mean[0], out=step)
            xp.subtract(h, step, out=step)
            h = xp.maximum(step, 0, out=step)  # equal gradients leave a rounding error instead of 0
        xp.divide(g, self.root(h, self.method.epsilon), out=step)
        xp.multiply(step, rate, out=step)
        xp.multiply(v, self.backend.scalars["momentum"], out=v)
        xp.subtract(v, step, out=v)
        xp.add(w, v, out=w)


class AdaDelta(Method):
    """h = ρh + (1 - ρ)g²; d = g · √(u + ε) / √(h + ε); u = ρu + (1 - ρ)d²; w = w - rate · d.

    By Zeiler (arXiv 1212.5701), who has no rate: there it is 1. As in Caffe, Mocha.jl, SINGA and PyTorch.
    """

    has_momentum = False

    rho: Annotated[float, fraction, "share of the two mean squares that is kept in each update"] = 0.95
    epsilon: Annotated[float, positive, "makes the first steps possible, and keeps the divisor above zero"] = 1e-6

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return AdaDeltaState(self, backend, spans)


class AdaDeltaState(ElementwiseState):
    """`AdaDelta` on any backend."""

    names = ("square", "step_square")

    def change(self, rate: float, w: Array, g: Array, h: Array, u: Array) -> None:
        xp, epsilon = self.backend.xp, self.method.epsilon
        part, d = self.backend.scratch(w.shape), self.backend.scratch(w.shape, slot=1)
        self.average_square(h, g, self.method.rho)
        xp.add(u, epsilon, out=d)
        xp.add(h, epsilon, out=part)
        xp.divide(d, part, out=d)
        xp.sqrt(d, out=d)
        xp.multiply(d, g, out=d)
        self.average_square(u, d, self.method.rho)
        xp.multiply(d, rate, out=d)
        xp.subtract(w, d, out=w)
