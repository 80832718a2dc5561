"""Functions of one number as layers: AbsVal, Clip, Exp, Log, Power and Threshold, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from nacre import Array, LayerState, Names, as_many_as, at_least, finite, positive

from ..cutting import OnNumbers


class FunctionLayer(OnNumbers):
    """y = f(x), element by element; one top for each bottom, of its shape.

    `reads` is what `differentiate` reads, of "inputs" and "blobs".
    """

    reads: ClassVar[str] = "inputs"

    bottoms: Annotated[Names, at_least(1), "the inputs of the function"]
    tops: Annotated[Names, as_many_as("bottoms"), "the results"]

    def compute(self, backend: Any, x: Array, y: Array) -> None:
        """Write f(x) into y."""
        raise NotImplementedError

    def differentiate(self, backend: Any, x: Array, y: Array, dy: Array, dx: Array) -> None:
        """Write dy f'(x) into dx."""
        raise NotImplementedError


class FunctionState(LayerState, of=FunctionLayer, elementwise=True, capturable=True):
    """A `FunctionLayer` on any backend."""

    def __init__(self, layer: FunctionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reads = layer.reads
        self.blobs = [backend.blob(one.shape) for one in inputs]

    def forward(self, inputs: list[Array]) -> None:
        for x, y in zip(inputs, self.blobs, strict=True):
            self.layer.compute(self.backend, x, y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for x, y, dy, dx in zip(inputs, self.blobs, self.blobs_diff, diffs, strict=True):
            if dx is not None:
                self.layer.differentiate(self.backend, x, y, dy, dx)


class AbsValLayer(FunctionLayer, can_do_bp=True):
    """y = |x|; the gradient at 0 is 0. After Caffe's `AbsVal`.

    Example:
        [[layer]]
        type = "AbsVal"
        bottoms = ["difference"]  # (8, 5)
        tops = ["distance"]  # (8, 5)
    """

    def compute(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.absolute(x, out=y)

    def differentiate(self, backend: Any, x: Array, y: Array, dy: Array, dx: Array) -> None:
        backend.xp.sign(x, out=dx)
        backend.xp.multiply(dx, dy, out=dx)


class ClipLayer(FunctionLayer, can_do_bp=True):
    """y = min(max(x, low), high); the gradient passes where low ≤ x ≤ high. After Caffe's `Clip`.

    Example:
        [[layer]]
        type = "Clip"
        bottoms = ["score"]  # (8, 10)
        tops = ["clipped"]  # (8, 10)
        low = -1.0
        high = 1.0
    """

    low: Annotated[float, "the smallest output; -inf for none"]
    high: Annotated[float, "the largest output; inf for none"]

    def complaints(self) -> Iterator[str]:
        """Check that low is below high."""
        yield from super().complaints()
        if not self.low < self.high:
            yield f"low={self.low}, but it must be below high={self.high}"

    def compute(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.clip(x, self.low, self.high, out=y)

    def differentiate(self, backend: Any, x: Array, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        passes, below = (backend.scratch(x.shape, "bool", slot=slot) for slot in (0, 1))
        xp.greater_equal(x, self.low, out=passes)
        xp.less_equal(x, self.high, out=below)
        xp.logical_and(passes, below, out=passes)
        xp.multiply(dy, passes, out=dx)


class ExpLayer(FunctionLayer, can_do_bp=True):
    """y = base ^ (scale · x + shift), where the base is e by default. After Caffe's `Exp`.

    Example:
        [[layer]]
        type = "Exp"
        bottoms = ["log_variance"]  # (8, 5)
        tops = ["sigma"]  # (8, 5)
        scale = 0.5
    """

    reads = "blobs"
    base: Annotated[float | None, positive, finite, "base of the power; e = 2.718... by default"] = None
    scale: Annotated[float, finite, "multiplies the bottom"] = 1.0
    shift: Annotated[float, finite, "added to the scaled bottom"] = 0.0

    def compute(self, backend: Any, x: Array, y: Array) -> None:
        xp, log = backend.xp, log_of(self.base)
        xp.multiply(x, self.scale * log, out=y)
        xp.add(y, self.shift * log, out=y)
        xp.exp(y, out=y)

    def differentiate(self, backend: Any, x: Array, y: Array, dy: Array, dx: Array) -> None:
        backend.xp.multiply(dy, y, out=dx)
        backend.xp.multiply(dx, self.scale * log_of(self.base), out=dx)


class LogLayer(FunctionLayer, can_do_bp=True):
    """y = log(scale · x + shift), by default to the base e. After Caffe's `Log`.

    Example:
        [[layer]]
        type = "Log"
        bottoms = ["prob"]  # (8, 10)
        tops = ["log_prob"]  # (8, 10)
    """

    base: Annotated[float | None, positive, finite, "base of the logarithm; e = 2.718... by default"] = None
    scale: Annotated[float, finite, "multiplies the bottom"] = 1.0
    shift: Annotated[float, finite, "added to the scaled bottom"] = 0.0

    def complaints(self) -> Iterator[str]:
        """Check that there is a logarithm to this base."""
        yield from super().complaints()
        if self.base == 1:
            yield "base=1.0, but there is no logarithm to the base 1"

    def compute(self, backend: Any, x: Array, y: Array) -> None:
        xp = backend.xp
        _scaled(backend, self, x, y)
        xp.log(y, out=y)
        xp.multiply(y, 1 / log_of(self.base), out=y)

    def differentiate(self, backend: Any, x: Array, y: Array, dy: Array, dx: Array) -> None:
        argument = backend.scratch(x.shape, str(dx.dtype))
        _scaled(backend, self, x, argument)
        backend.xp.multiply(dy, self.scale / log_of(self.base), out=dx)
        backend.xp.divide(dx, argument, out=dx)


class PowerLayer(FunctionLayer, can_do_bp=True):
    """y = (scale · x + shift) ^ power, where 0 ^ 0 is 1.

    The gradient is dy · scale · power · (scale · x + shift) ^ (power - 1). Where scale · x + shift is 0, it is 0 for
    every power above 1, and also for those between 0 and 1, where the slope is infinite. After Mocha.jl's `PowerLayer`
    and Caffe's, which divide y by scale · x + shift, and so have no gradient where y is 0 or infinite.

    Example:
        [[layer]]
        type = "Power"
        bottoms = ["difference"]  # (8, 3)
        tops = ["square"]  # (8, 3)
        power = 2.0
    """

    power: Annotated[float, finite, "the exponent"] = 1.0
    scale: Annotated[float, finite, "multiplies the bottom"] = 1.0
    shift: Annotated[float, finite, "added to the scaled bottom"] = 0.0

    def complaints(self) -> Iterator[str]:
        """Check that the outputs are finite numbers."""
        yield from super().complaints()
        if self.scale == 0 and self.shift == 0 and self.power < 0:
            yield f"power={self.power}, but with scale=0 and shift=0 all outputs would be infinite"

    def compute(self, backend: Any, x: Array, y: Array) -> None:
        _scaled(backend, self, x, y)
        _raise(backend, y, self.power)

    def differentiate(self, backend: Any, x: Array, y: Array, dy: Array, dx: Array) -> None:
        xp, factor = backend.xp, self.scale * self.power
        if factor == 0 or self.power == 1:
            xp.multiply(dy, factor, out=dx)
            return
        slope = backend.scratch(x.shape, str(dx.dtype), slot=1)
        _scaled(backend, self, x, slope)
        if 0 < self.power < 1:
            zero = backend.scratch(x.shape, "bool")
            xp.equal(slope, 0, out=zero)
            xp.copyto(slope, math.inf, where=zero)
        _raise(backend, slope, self.power - 1)
        xp.multiply(slope, factor, out=slope)
        xp.multiply(dy, slope, out=dx)


class ThresholdLayer(FunctionLayer):
    """y = 1 where x > threshold, else 0; there is no gradient. After Caffe's `Threshold`.

    Example:
        [[layer]]
        type = "Threshold"
        bottoms = ["prob"]  # (8, 1)
        tops = ["decision"]  # (8, 1)
        threshold = 0.5
    """

    threshold: Annotated[float, finite, "the largest x that gives 0"] = 0.0

    def compute(self, backend: Any, x: Array, y: Array) -> None:
        backend.xp.greater(x, self.threshold, out=y)


def log_of(base: float | None) -> float:
    """Return the logarithm of a base; None is e."""
    return 1.0 if base is None else math.log(base)


def _scaled(backend: Any, layer: Any, x: Array, y: Array) -> None:
    """Write scale · x + shift into y."""
    backend.xp.multiply(x, layer.scale, out=y)
    backend.xp.add(y, layer.shift, out=y)


def _raise(backend: Any, y: Array, power: float) -> None:
    """Raise y to a power, in place."""
    xp = backend.xp
    if power == 2:
        xp.multiply(y, y, out=y)
    elif power == 0.5:
        xp.sqrt(y, out=y)  # NaN below 0, which NumPy's power of -inf is in some versions only
    elif power % 1:
        xp.power(y, power, out=y)
    elif power != 1:
        base = backend.scratch(y.shape, str(y.dtype))
        xp.copyto(base, y)
        xp.abs(y, out=y)  # NumPy is forty times slower for numbers below 0
        xp.power(y, power, out=y)
        if power % 2:
            xp.copysign(y, base, out=y)
