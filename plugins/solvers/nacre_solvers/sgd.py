"""SGD: stochastic gradient descent with momentum; Nesterov: the same, looking ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre import Array, Method, MethodState, Span

from .elementwise import ElementwiseState


class SGD(Method):
    """v = momentum · v - rate · gradient; w = w + v.

    The learning rate is inside the momentum, as in Caffe and Mocha.jl.
    """

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return SGDState(self, backend, spans)


class SGDState(ElementwiseState):
    """`SGD` on any backend."""

    names = ("velocity",)

    def change(self, rate: float, w: Array, g: Array, v: Array) -> None:
        xp, part = self.backend.xp, self.backend.scratch(w.shape)
        xp.multiply(v, self.backend.scalars["momentum"], out=v)
        xp.multiply(g, rate, out=part)
        xp.subtract(v, part, out=v)
        xp.add(w, v, out=w)


class Nesterov(Method):
    """v = momentum · v - rate · gradient; w = w + momentum · v - rate · gradient.

    Nesterov's accelerated gradient in the form of Bengio et al. (arXiv 1212.0901), as in Caffe, SINGA and PyTorch.
    """

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return NesterovState(self, backend, spans)


class NesterovState(ElementwiseState):
    """`Nesterov` on any backend."""

    names = ("velocity",)

    def change(self, rate: float, w: Array, g: Array, v: Array) -> None:
        xp, part = self.backend.xp, self.backend.scratch(w.shape)
        momentum = self.backend.scalars["momentum"]
        xp.multiply(v, momentum, out=v)
        xp.multiply(g, rate, out=part)
        xp.subtract(v, part, out=v)
        xp.subtract(w, part, out=w)
        xp.multiply(v, momentum, out=part)
        xp.add(w, part, out=w)
