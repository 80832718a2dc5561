"""Neurons: activation functions whose gradient is a function of their output."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Neuron, finite


class ReLU(Neuron):
    """y = max(epsilon, x); the gradient passes where y > epsilon, and is 0 at the kink.

    After Mocha.jl's `Neurons.ReLU`.
    """

    epsilon: Annotated[float, finite, "the smallest output"] = 0.0

    def forward(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.maximum(x, self.epsilon, out=y)

    def backward(self, backend: Any, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        passes = backend.scratch(y.shape, "bool")
        backend.xp.greater(y, self.epsilon, out=passes)
        backend.xp.multiply(dy, passes, out=dx)


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
