"""Initializers: the first values of parameters. Axis 0 of a shape counts the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod, sqrt
from typing import Annotated, Any, Literal

from nacre import (
    Array,
    ConfigError,
    Initializer,
    Paths,
    SnapshotError,
    exactly,
    finite,
    nearest,
    non_negative,
    positive,
)


class Constant(Initializer):
    """Every value is `value`; a bare number in place of an initialiser means this."""

    value: Annotated[float, finite, "the value"] = 0.0

    @classmethod
    def from_number(cls, number: float) -> Constant:
        return cls(value=number)

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        import numpy as np

        return np.full(shape, self.value)


class Uniform(Initializer):
    """Uniform in [low, high)."""

    low: Annotated[float, finite, "the lower end"] = -0.05
    high: Annotated[float, finite, "the upper end"] = 0.05

    def complaints(self) -> Iterator[str]:
        if self.low > self.high:
            yield f"low={self.low}, but it must not be above high={self.high}"

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        return self.low + (self.high - self.low) * random.generator().random(shape)


class Gaussian(Initializer):
    """Normal with `mean` and standard deviation `std`.

    With `sparse` each input goes on average to only so many outputs; the other weights are 0. After Caffe's `gaussian`.
    """

    mean: Annotated[float, finite, "the mean"] = 0.0
    std: Annotated[float, non_negative, "the standard deviation"] = 1.0
    sparse: Annotated[int | None, positive, "outputs that an input goes to, on average; by default all"] = None

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        values = self.mean + self.std * random.generator().standard_normal(shape)
        if self.sparse is None:
            return values
        if self.sparse > shape[0]:
            raise ConfigError(f"Gaussian: sparse={self.sparse}, but the parameter of shape {shape} has fewer outputs")
        return values * (random.generator(1).random(shape) < self.sparse / shape[0])


Fan = Literal["in", "out", "average"]


def fan(shape: tuple[int, ...], which: Fan) -> float:
    """Return how many numbers go "in" to an output, or "out" of an input, or the "average" of both.

    Axis 0 counts the outputs, axis 1 the inputs, and the others are those of a window, whose cells count in both.
    """
    fan_in, fan_out = prod(shape[1:]), prod(shape[:1] + shape[2:])
    return {"in": fan_in, "out": fan_out, "average": (fan_in + fan_out) / 2}[which]


class Scaled(Initializer):
    """Normal, or uniform, with mean 0 and the variance that keeps the variance of blobs and gradients."""

    fan: Annotated[Fan, "the fan: numbers that go in, out, or their average"] = "in"
    normal: Annotated[bool, "normal, or uniform with the same variance"] = False

    def variance(self) -> float:
        """Return the variance for a fan of 1."""
        raise NotImplementedError

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        variance, count = self.variance(), fan(shape, self.fan)
        if self.normal:
            return sqrt(variance / count) * random.generator().standard_normal(shape)
        return _symmetric(random, shape, sqrt(3 * variance / count))


class Xavier(Scaled):
    """Uniform in ±sqrt(3 gain² / fan), or normal with the standard deviation gain / sqrt(fan).

    By default the fan is the average of fan-in and fan-out, so the ends are ±sqrt(6 / (fan_in + fan_out)). For a
    convolution both count the cells of the window too. Glorot and Bengio, "Understanding the difficulty of training
    deep feedforward neural networks", 2010. `fan="in"` is what Mocha.jl and Caffe call Xavier.
    """

    fan: Annotated[Fan, "the fan: numbers that go in, out, or their average"] = "average"
    gain: Annotated[float, positive, "multiplies every value; 5/3 before a tanh, for example"] = 1.0

    def variance(self) -> float:
        return self.gain * self.gain  # too large a float is inf, but `**` would raise an error


class XavierFanIn(Initializer):
    """Uniform in ±sqrt(3 / fan_in): what Mocha.jl and Caffe call Xavier, and `Xavier(fan="in")` too."""

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        return _symmetric(random, shape, sqrt(3 / fan(shape, "in")))


class He(Scaled):
    """Normal with the standard deviation sqrt(2 / ((1 + slope²) fan)), or uniform with the same.

    For layers before a ReLU, or with `slope` before a leaky one. He, Zhang, Ren and Sun, "Delving deep into
    rectifiers", 2015; Caffe's `msra` and PyTorch's `kaiming_normal_`, with `normal=False` its `kaiming_uniform_`.
    """

    normal: Annotated[bool, "normal, or uniform with the same variance"] = True
    slope: Annotated[float, finite, "slope of the leaky ReLU for numbers below 0"] = 0.0

    def variance(self) -> float:
        return 2 / (1 + self.slope * self.slope)


class GaussianSqrtFanIn(Gaussian):
    """`value` times a normal number, divided by sqrt(fan_in). After Apache SINGA's `kGaussianSqrtFanIn`."""

    value: Annotated[float, finite, "multiplies every value"] = 1.0

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        demand_axes(self, shape, 2)
        return self.value / sqrt(fan(shape, "in")) * super().values(random, shape)


class UniformSqrtFanIn(Uniform):
    """`value` times a uniform number, multiplied by sqrt(3 / fan_in). After Apache SINGA's `kUniformSqrtFanIn`."""

    low: Annotated[float, finite, "the lower end"] = -1.0
    high: Annotated[float, finite, "the upper end"] = 1.0
    value: Annotated[float, finite, "multiplies every value"] = 1.0

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        demand_axes(self, shape, 2)
        return self.value * sqrt(3 / fan(shape, "in")) * super().values(random, shape)


class UniformSqrtFanInOut(Uniform):
    """`value` times a uniform number, divided by sqrt(fan_in + outputs).

    After the code of Apache SINGA's `kUniformSqrtFanInOut`, whose documentation differs: the code has no sqrt(6). With
    `value` 6 ** 0.5 it is `Xavier`. The outputs are those of axis 0, without the window of a convolution.
    """

    low: Annotated[float, finite, "the lower end"] = -1.0
    high: Annotated[float, finite, "the upper end"] = 1.0
    value: Annotated[float, finite, "multiplies every value"] = 1.0

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        demand_axes(self, shape, 2)
        return self.value / sqrt(fan(shape, "in") + shape[0]) * super().values(random, shape)


class Orthogonal(Initializer):
    """Orthogonal rows of the length `gain`, or columns if there are more rows than columns.

    A row is a slice of axis 0, read as a vector. Drawn uniformly from all such matrices. Saxe, McClelland and Ganguli,
    "Exact solutions to the nonlinear dynamics of learning", 2014; PyTorch's `orthogonal_`.
    """

    gain: Annotated[float, finite, "the length of a row; sqrt(2) before a ReLU, for example"] = 1.0

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        import numpy as np

        demand_axes(self, shape, 2)
        rows, columns = shape[0], prod(shape[1:])
        long, short = max(rows, columns), min(rows, columns)
        columns_of, triangle = np.linalg.qr(random.generator().standard_normal((long, short)))
        matrix = columns_of * np.where(np.diagonal(triangle) < 0, -1, 1)  # else its signs would not be uniform
        return self.gain * (matrix.T if rows < columns else matrix).reshape(shape)


class Bilinear(Initializer):
    """Every filter is a pyramid, with which a deconvolution enlarges pictures smoothly.

    Along an axis of length K a cell x is 1 - |x / f - c| with f = ceil(K / 2) and c = (K - 1) / (2 f); a filter is the
    product over its axes. After Caffe's `bilinear`.
    """

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        import numpy as np

        demand_axes(self, shape, 3)
        values = np.ones(shape)
        for axis, length in enumerate(shape[2:], 2):
            half = -(-length // 2)
            along = 1 - np.abs(np.arange(length) / half - (length - 1) / (2 * half))
            values *= along.reshape(-1, *[1] * (len(shape) - axis - 1))
        return values


class PositiveUnitball(Initializer):
    """Uniform in [0, 1), then scaled so that each output's numbers add up to 1. After Caffe's `positive_unitball`."""

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        values = 1 - random.generator().random(shape)  # in (0, 1]: no sum is 0
        return values / values.sum(axis=tuple(range(1, len(shape))), keepdims=True)


class Pretrained(Initializer):
    """The value of a parameter in a snapshot.

    Raises:
        SnapshotError: the snapshot cannot be read, or has no such parameter.
        ConfigError: the parameter in the snapshot has another shape.
    """

    snapshot: Annotated[Paths, exactly(1), "file of a snapshot, or its folder for the newest one"]
    parameter: Annotated[str, "name of the parameter in the snapshot, such as ip1/weight"]

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        import numpy as np

        from nacre import load_snapshot

        saved, name = load_snapshot(self.snapshot[0]).parameters(), self.parameter
        if name not in saved:
            raise SnapshotError(
                f"{self.snapshot[0]} has no parameter '{name}'{nearest(name, saved)}",
                f"its parameters are {', '.join(sorted(saved)) or 'none'}",
            )
        if saved[name].shape != shape:
            raise ConfigError(
                f"Pretrained: parameter '{name}' of {self.snapshot[0]} has the shape {saved[name].shape}, "
                f"but {shape} is wanted"
            )
        return saved[name].astype(np.float64)


def demand_axes(initializer: Initializer, shape: tuple[int, ...], count: int) -> None:
    """Raise ConfigError for a shape of fewer than `count` axes."""
    if len(shape) < count:
        raise ConfigError(
            f"{type(initializer).__name__}: a parameter of shape {shape} has too few axes: {count} are needed"
        )


def _symmetric(random: Any, shape: tuple[int, ...], limit: float) -> Array:
    return limit * (2 * random.generator().random(shape) - 1)
