"""Methods of updates, number by number, as papers print them."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any


def one_number(
    method: Any, gradients: Sequence[float], rates: Sequence[float], momenta: Sequence[float], w: float = 1.0
) -> float:
    """Follow one number through the formulas as papers print them."""
    v, h, u, m = 0.0, 0.0, 0.0, 0.0
    kind = type(method).__name__
    inside = getattr(method, "epsilon_place", "") == "inside"
    for t, (g, rate, momentum) in enumerate(zip(gradients, rates, momenta, strict=True), 1):
        if kind in ("SGD", "Nesterov"):
            v = momentum * v - rate * g
            w += v if kind == "SGD" else momentum * v - rate * g
        elif kind in ("Adam", "AdamW"):
            v = method.beta1 * v + (1 - method.beta1) * g
            h = method.beta2 * h + (1 - method.beta2) * g * g
            one, two = (1 - method.beta1**t, 1 - method.beta2**t) if method.bias_correction else (1.0, 1.0)
            divisor = sqrt(h / two + method.epsilon) if inside else sqrt(h / two) + method.epsilon
            if method.epsilon_place == "uncorrected":
                divisor = (sqrt(h) + method.epsilon) / sqrt(two)
            w -= rate * v / one / divisor
        elif kind == "AdaMax":
            m = method.beta1 * m + (1 - method.beta1) * g
            u = max(method.beta2 * u, abs(g) + method.epsilon)
            w -= rate * m / u / (1 - method.beta1**t if method.bias_correction else 1.0)
        elif kind == "AdaDelta":
            h = method.rho * h + (1 - method.rho) * g * g
            d = g * sqrt(u + method.epsilon) / sqrt(h + method.epsilon)
            u = method.rho * u + (1 - method.rho) * d * d
            w -= rate * d
        elif kind == "RMSProp":
            h = method.rho * h + (1 - method.rho) * g * g
            m = method.rho * m + (1 - method.rho) * g
            spread = max(h - m * m, 0.0) if method.centered else h
            v = momentum * v - rate * g / (sqrt(spread + method.epsilon) if inside else sqrt(spread) + method.epsilon)
            w += v
        else:
            h = h + g * g
            w -= rate * g / (sqrt(h + method.epsilon) if inside else sqrt(h) + method.epsilon)
    return w
