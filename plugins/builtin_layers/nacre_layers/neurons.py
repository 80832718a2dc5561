"""Neurons: activation functions, most of them with a gradient that is a function of their output."""

from __future__ import annotations

import math
from typing import Annotated, Any

from nacre import Array, Neuron, finite, one_of, positive

from .error_function import erf


class ReLU(Neuron):
    """y = max(epsilon, x); the gradient passes where y > epsilon, and is 0 at the kink.

    After Mocha.jl's `Neurons.ReLU`.
    """

    epsilon: Annotated[float, finite, "the smallest output"] = 0.0

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.maximum(x, self.epsilon, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp, cut = backend.xp, backend.scratch(y.shape, "bool")
        xp.greater(y, self.epsilon, out=cut)
        xp.logical_not(cut, out=cut)
        xp.copyto(dx, dy)
        xp.copyto(dx, 0, where=cut)  # whatever dy is: a product with 0 would let a NaN through


def is_relu(neuron: Neuron) -> bool:
    """Say whether a neuron is max(0, x) and nothing else: what a kernel means by ReLU."""
    return type(neuron) is ReLU and neuron.epsilon == 0


class Sigmoid(Neuron):
    """y = 1 / (1 + exp(-x)); computed as (1 + tanh(x / 2)) / 2, which cannot overflow."""

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        xp = backend.xp
        xp.multiply(x, 0.5, out=y)
        xp.tanh(y, out=y)
        xp.add(y, 1.0, out=y)
        xp.multiply(y, 0.5, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope = backend.scratch(y.shape, str(y.dtype))
        xp.subtract(1.0, y, out=slope)
        xp.multiply(slope, y, out=slope)
        xp.multiply(dy, slope, out=dx)


class Tanh(Neuron):
    """y = tanh(x)."""

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.tanh(x, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(y, y, out=slope)
        xp.subtract(1.0, slope, out=slope)
        xp.multiply(dy, slope, out=dx)


class STanh(Neuron):
    """y = outer · tanh(inner · x): LeCun's scaled tanh, with f(1) = 1. After SINGA's `STanhLayer`."""

    outer: Annotated[float, positive, finite, "the largest output"] = 1.7159047
    inner: Annotated[float, positive, finite, "multiplies x"] = 2 / 3

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        xp = backend.xp
        xp.multiply(x, self.inner, out=y)
        xp.tanh(y, out=y)
        xp.multiply(y, self.outer, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(y, y, out=slope)
        xp.multiply(slope, -self.inner / self.outer, out=slope)
        xp.add(slope, self.inner * self.outer, out=slope)
        xp.multiply(dy, slope, out=dx)


class LReLU(Neuron):
    """y = x where x > 0, else slope · x. After Mocha.jl's `Neurons.LReLU`; `slope` is Caffe's `negative_slope`."""

    slope: Annotated[float, positive, finite, "slope below 0"] = 0.01

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        xp = backend.xp
        part = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(x, self.slope, out=part)
        larger = xp.maximum if self.slope <= 1 else xp.minimum
        larger(x, part, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        slope = backend.scratch(y.shape, str(y.dtype))
        slope[...] = self.slope
        _pass_above_zero(backend, y, dy, slope, dx)


class ELU(Neuron):
    """y = x where x > 0, else alpha · (exp(x) - 1).

    Clevert et al., "Fast and accurate deep network learning by exponential linear units", 2016.
    """

    alpha: Annotated[float, positive, finite, "the output far below 0 is -alpha"] = 1.0

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        xp = backend.xp
        part = backend.scratch(y.shape, str(y.dtype))
        xp.minimum(x, 0, out=part)
        xp.expm1(part, out=part)
        xp.multiply(part, self.alpha, out=part)
        xp.maximum(x, 0, out=y)
        xp.add(y, part, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        slope = backend.scratch(y.shape, str(y.dtype))
        backend.xp.minimum(y, 0, out=slope)
        backend.xp.add(slope, self.alpha, out=slope)
        _pass_above_zero(backend, y, dy, slope, dx)


def _pass_above_zero(backend: Any, y: Array, dy: Array, slope: Array, dx: Array) -> None:
    """Write dy into dx where y > 0, and dy · slope elsewhere; the slope, which is finite, is used up."""
    xp = backend.xp
    above, below = (backend.scratch(y.shape, "bool", slot=slot) for slot in (0, 1))
    xp.greater(y, 0, out=above)
    xp.logical_not(above, out=below)
    xp.multiply(slope, below, out=slope)  # a copy with `where` takes five times as long
    xp.add(slope, above, out=slope)
    xp.multiply(dy, slope, out=dx)


class Softplus(Neuron):
    """y = log(1 + exp(beta · x)) / beta = max(0, x) + log(1 + exp(-beta |x|)) / beta, which cannot overflow.

    With `beta` 1 it is Caffe's `BNLL`.
    """

    beta: Annotated[float, positive, finite, "how sharp the bend is"] = 1.0

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        xp = backend.xp
        part = backend.scratch(y.shape, str(y.dtype))
        xp.abs(x, out=part)
        xp.multiply(part, -self.beta, out=part)
        xp.exp(part, out=part)
        xp.log1p(part, out=part)
        xp.divide(part, self.beta, out=part)
        xp.maximum(x, 0, out=y)
        xp.add(y, part, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(y, -self.beta, out=slope)
        xp.expm1(slope, out=slope)  # 1 - exp(-beta y) = sigmoid(beta x)
        xp.negative(slope, out=slope)
        xp.multiply(dy, slope, out=dx)


class Exponential(Neuron):
    """y = exp(x). After Mocha.jl's `Neurons.Exponential`."""

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.exp(x, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        backend.xp.multiply(dy, y, out=dx)


class SiLU(Neuron):
    """y = x · sigmoid(beta · x). After Caffe's `Swish`; Elfwing et al., "Sigmoid-weighted linear units", 2018."""

    needs_input = True
    beta: Annotated[float, finite, "how sharp the bend is"] = 1.0

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.multiply(x, self._sigmoid(backend, x), out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        sigmoid, slope = self._sigmoid(backend, x), backend.scratch(y.shape, str(y.dtype), slot=1)
        xp.subtract(1.0, sigmoid, out=slope)  # f' = sigmoid + beta · y · (1 - sigmoid)
        xp.multiply(slope, y, out=slope)
        xp.multiply(slope, self.beta, out=slope)
        xp.add(slope, sigmoid, out=slope)
        xp.multiply(dy, slope, out=dx)

    def _sigmoid(self, backend: Any, x: Any) -> Array:
        """Give sigmoid(beta · x), computed as `Sigmoid` does, in the scratch array of slot 0."""
        xp = backend.xp
        part = backend.scratch(x.shape, str(x.dtype))
        xp.multiply(x, self.beta / 2, out=part)
        xp.tanh(part, out=part)
        xp.add(part, 1.0, out=part)
        xp.multiply(part, 0.5, out=part)
        return part


class GELU(Neuron):
    """y = x · Φ(x), where Φ is the standard normal distribution function.

    With `approximate="tanh"` Φ(x) is (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2. Hendrycks and Gimpel, "Gaussian error
    linear units", 2016.
    """

    needs_input = True
    approximate: Annotated[str, one_of("none", "tanh"), "how Φ is computed"] = "none"

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.multiply(x, self._share(backend, x), out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        share, slope, part = self._share(backend, x), *_scratches(backend, y, 0, 1)
        _clip(backend, x, slope)
        xp.multiply(slope, slope, out=part)
        if self.approximate == "none":  # x · Φ'(x) is x · exp(-x²/2) / √(2π)
            xp.multiply(part, -0.5, out=part)
            xp.exp(part, out=part)
            xp.multiply(part, 1 / math.sqrt(2 * math.pi), out=part)
            xp.multiply(slope, part, out=slope)
        else:  # x · √(2/π) (1 + 3 · 0.044715 x²) · 2 Φ (1 - Φ)
            xp.multiply(part, 3 * CUBIC, out=part)
            xp.add(part, 1, out=part)
            xp.multiply(slope, part, out=slope)
            xp.subtract(1, share, out=part)
            xp.multiply(part, share, out=part)
            xp.multiply(part, 2 * math.sqrt(2 / math.pi), out=part)
            xp.multiply(slope, part, out=slope)
        xp.add(slope, share, out=slope)
        xp.multiply(dy, slope, out=dx)

    def _share(self, backend: Any, x: Any) -> Array:
        """Give Φ(x), in the scratch array of slot 2."""
        xp = backend.xp
        part, share = _scratches(backend, x, 0, 2)
        if self.approximate == "none":
            xp.multiply(x, math.sqrt(0.5), out=share)
            erf(backend, share, share)
        else:
            _clip(backend, x, share)
            xp.multiply(share, share, out=part)
            xp.multiply(part, CUBIC, out=part)
            xp.add(part, 1, out=part)
            xp.multiply(share, part, out=share)
            xp.multiply(share, math.sqrt(2 / math.pi), out=share)
            xp.tanh(share, out=share)
        xp.multiply(share, 0.5, out=share)
        xp.add(share, 0.5, out=share)
        return share


CUBIC = 0.044715


def _scratches(backend: Any, like: Array, *slots: int) -> list[Array]:
    return [backend.scratch(like.shape, str(like.dtype), slot=slot) for slot in slots]


def _clip(backend: Any, x: Any, y: Array) -> None:
    """Write x into y, but at most ±40: there GELU is bent no more, and powers of x cannot overflow."""
    backend.xp.clip(x, -40, 40, out=y)
