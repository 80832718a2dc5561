"""Adam: steps of a size of their own for every number, from the gradients' mean and mean square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Annotated, Any

from nacre import Array, Method, MethodState, fraction, one_of, positive
from nacre.solver import Span

from .elementwise import ElementwiseState


class Adam(Method):
    """m = β₁m + (1 - β₁)g; v = β₂v + (1 - β₂)g²; w = w - rate · m̂ / (√v̂ + ε).

    m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ) make up for beginning at zero; t counts the updates from 1. By Kingma and Ba
    (arXiv 1412.6980), who use a rate of 0.001. With `epsilon_place="uncorrected"` as in Caffe and Mocha.jl (whose v,
    though, never forgot); with `epsilon_place="inside"` and `bias_correction=False` as in SINGA.
    """

    has_momentum = False

    beta1: Annotated[float, fraction, "how much of the mean stays in each update"] = 0.9
    beta2: Annotated[float, fraction, "how much of the mean square stays in each update"] = 0.999
    epsilon: Annotated[float, positive, "keeps the divisor above zero"] = 1e-8
    epsilon_place: Annotated[
        str,
        one_of("outside", "uncorrected", "inside"),
        "outside: √v̂ + ε, as PyTorch; uncorrected: (√v + ε) / √(1 - β₂ᵗ), as Caffe; inside: √(v̂ + ε), as SINGA",
    ] = "outside"
    bias_correction: Annotated[bool, "whether to make up for beginning at zero"] = True

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return AdamState(self, backend, spans)


class AdamW(Adam):
    """Adam that regularises apart from the gradient: w = w - rate · regu_coef · penalty'(w), and then Adam's step.

    The weight decay of other frameworks is the solver's `regu_coef`, and acts on parameters that have an `L2`. By
    Loshchilov and Hutter (arXiv 1711.05101), as in PyTorch.
    """

    decoupled = True


class AdamState(ElementwiseState):
    """`Adam` and `AdamW` on any backend.

    The scalars "adam_factor" and "adam_epsilon" hold √(1 - β₂ᵗ) / (1 - β₁ᵗ), and the ε that then stands beside √v, or
    inside it.
    """

    names = ("mean", "square")

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.count = 0
        for name in ("adam_factor", "adam_epsilon"):
            backend.scalars.declare(name)

    def advance(self) -> None:
        self.count += 1
        method, scalars = self.method, self.backend.scalars
        scale1 = 1 - method.beta1**self.count if method.bias_correction else 1.0
        scale2 = 1 - method.beta2**self.count if method.bias_correction else 1.0
        place = {"outside": sqrt(scale2), "uncorrected": 1.0, "inside": scale2}
        scalars["adam_factor"] = sqrt(scale2) / scale1
        scalars["adam_epsilon"] = method.epsilon * place[method.epsilon_place]

    def change(self, rate: float, w: Array, g: Array, m: Array, v: Array) -> None:
        xp, part, scalars = self.backend.xp, self.backend.scratch(w.shape), self.backend.scalars
        xp.multiply(m, self.method.beta1, out=m)
        xp.multiply(g, 1 - self.method.beta1, out=part)
        xp.add(m, part, out=m)
        self.average_square(v, g, self.method.beta2)
        self.descend(w, m, self.root(v, scalars["adam_epsilon"]), rate * scalars["adam_factor"])

    def memory(self) -> Mapping[str, Any]:
        return {"count": self.count}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.count = int(memory["count"])
