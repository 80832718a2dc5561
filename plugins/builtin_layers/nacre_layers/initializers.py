"""Initializers: the first values of parameters. Axis 0 of a shape counts the outputs."""

from __future__ import annotations

from math import prod, sqrt
from typing import Annotated, Any

from nacre import Array, Initializer, finite, non_negative


class Constant(Initializer):
    """Every value is `value`."""

    value: Annotated[float, finite, "the value"] = 0.0

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        import numpy as np

        return np.full(shape, self.value)


class Uniform(Initializer):
    """Uniform in [low, high)."""

    low: Annotated[float, finite, "the lower end"] = -0.05
    high: Annotated[float, finite, "the upper end"] = 0.05

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        return self.low + (self.high - self.low) * random.generator().random(shape)


class Gaussian(Initializer):
    """Normal with `mean` and standard deviation `std`."""

    mean: Annotated[float, finite, "the mean"] = 0.0
    std: Annotated[float, non_negative, "the standard deviation"] = 1.0

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        return self.mean + self.std * random.generator().standard_normal(shape)


class Xavier(Initializer):
    """Uniform in ±sqrt(6 / (fan_in + fan_out)).

    For a convolution, fan_out counts the cells of the window too. Glorot and Bengio, "Understanding the difficulty of
    training deep feedforward neural networks", 2010.
    """

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        window = prod(shape[2:])
        fan_in, fan_out = prod(shape[1:]), shape[0] * window
        return _symmetric(random, shape, sqrt(6 / (fan_in + fan_out)))


class XavierFanIn(Initializer):
    """Uniform in ±sqrt(3 / fan_in): what Mocha.jl and Caffe call Xavier."""

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        return _symmetric(random, shape, sqrt(3 / prod(shape[1:])))


def _symmetric(random: Any, shape: tuple[int, ...], limit: float) -> Array:
    return limit * (2 * random.generator().random(shape) - 1)
