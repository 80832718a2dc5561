"""Adam, AdamW and AdaMax: the step of every number depends on the mean and the size of its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Annotated, Any, ClassVar, Literal

from nacre import Array, Method, MethodState, Span, count_in, fraction, positive

from .elementwise import ElementwiseState


class Moments(Method):
    """A method whose step is the mean m of the gradients, divided by their size."""

    has_momentum = False

    beta1: Annotated[float, fraction, "share of the mean that is kept in each update"] = 0.9
    beta2: Annotated[float, fraction, "share of the mean square that is kept in each update"] = 0.999
    epsilon: Annotated[float, positive, "keeps the divisor above zero"] = 1e-8
    bias_correction: Annotated[bool, "whether to correct for the start at zero"] = True


class Adam(Moments):
    """m = β₁m + (1 - β₁)g; v = β₂v + (1 - β₂)g²; w = w - rate · m̂ / (√v̂ + ε).

    m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ) correct for the start at zero; t counts the updates from 1. By Kingma and
    Ba (arXiv 1412.6980), who use a rate of 0.001. With `epsilon_place="uncorrected"` as in Caffe and Mocha.jl (where,
    however, v kept everything); with `epsilon_place="inside"` and `bias_correction=False` as in SINGA.
    """

    epsilon_place: Annotated[
        Literal["outside", "uncorrected", "inside"],
        "outside: √v̂ + ε, as PyTorch; uncorrected: (√v + ε) / √(1 - β₂ᵗ), as Caffe; inside: √(v̂ + ε), as SINGA",
    ] = "outside"

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return AdamState(self, backend, spans)


class AdamW(Adam):
    """Adam with regularisation outside the gradient: w = w - rate · regu_coef · penalty'(w), then Adam's step.

    The weight decay of other frameworks is the solver's `regu_coef`, and acts on parameters that have an `L2`. By
    Loshchilov and Hutter (arXiv 1711.05101), as in PyTorch.
    """

    decoupled = True


class AdaMax(Moments):
    """m = β₁m + (1 - β₁)g; u = max(β₂u, |g| + ε); w = w - rate · m̂ / u.

    m̂ = m / (1 - β₁ᵗ) corrects for the start at zero. By Kingma and Ba (arXiv 1412.6980), who use a rate of 0.002, as
    in PyTorch; with `bias_correction=False` SINGA's AdamMax, which added ε to u again in each update.
    """

    beta2: Annotated[float, fraction, "share of the largest gradient that is kept in each update"] = 0.999

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return AdaMaxState(self, backend, spans)


class MomentsState(ElementwiseState):
    """The common state: the `count` of updates, and 1 - βᵗ, or 1 without the correction."""

    scalars: ClassVar[tuple[str, ...]]

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.count = 0
        for name in self.scalars:
            backend.scalars.declare(name)

    def scale(self, beta: float) -> float:
        """Return 1 - βᵗ."""
        return 1 - beta**self.count if self.method.bias_correction else 1.0

    def memory(self) -> Mapping[str, Any]:
        return {"count": self.count}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.count = count_in(memory, "count")


class AdamState(MomentsState):
    """`Adam` and `AdamW` on any backend.

    The scalars "adam_factor" and "adam_epsilon" hold √(1 - β₂ᵗ) / (1 - β₁ᵗ), and the ε to add to √v, or to v.
    """

    names = ("mean", "square")
    scalars = ("adam_factor", "adam_epsilon")

    def advance(self) -> None:
        self.count += 1
        method, scalars = self.method, self.backend.scalars
        scale1, scale2 = self.scale(method.beta1), self.scale(method.beta2)
        factors = {"outside": sqrt(scale2), "uncorrected": 1.0, "inside": scale2}
        scalars["adam_factor"] = sqrt(scale2) / scale1
        scalars["adam_epsilon"] = method.epsilon * factors[method.epsilon_place]

    def change(self, rate: float, w: Array, g: Array, m: Array, v: Array) -> None:
        scalars = self.backend.scalars
        self.average(m, g, self.method.beta1)
        self.average_square(v, g, self.method.beta2)
        self.descend(w, m, self.root(v, scalars["adam_epsilon"]), rate * scalars["adam_factor"])


class AdaMaxState(MomentsState):
    """`AdaMax` on any backend; the scalar "adamax_factor" holds 1 / (1 - β₁ᵗ)."""

    names = ("mean", "largest")
    scalars = ("adamax_factor",)

    def advance(self) -> None:
        self.count += 1
        self.backend.scalars["adamax_factor"] = 1 / self.scale(self.method.beta1)

    def change(self, rate: float, w: Array, g: Array, m: Array, u: Array) -> None:
        xp, part = self.backend.xp, self.backend.scratch(w.shape)
        self.average(m, g, self.method.beta1)
        xp.multiply(u, self.method.beta2, out=u)
        xp.abs(g, out=part)
        xp.add(part, self.method.epsilon, out=part)
        xp.maximum(u, part, out=u)
        xp.copyto(part, u)
        self.descend(w, m, part, rate * self.backend.scalars["adamax_factor"])
