"""LayerNorm and RMSNorm: each record is read once from memory, and normalised while it is in the cache."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from nacre import Array, LayerState, Own, Parameter

from .compiling import PLAIN, SUMS, compiled


class LayerNormKernel(LayerState, reads="inputs", dtypes=("float32", "float64"), on_plain=True):
    """LayerNorm: what backward needs of a record besides its numbers are three sums."""

    centred = True

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = inputs[0].shape
        first = layer.axis % len(shape)
        self.records, self.size = prod(shape[:first]), prod(shape[first:])
        names = [name for name in ("scale", "bias") if getattr(layer, name, False)]
        self.learned = {name: Parameter.of(layer, name, shape[first:]) for name in names}
        self.parameters = list(self.learned.values())
        self.blobs = [backend.blob(shape)]

    def ready(self) -> None:
        """Make what stands for a scale or a bias that the layer has not, or whose gradient is not needed."""
        self.stats = self.backend.empty((self.records, 3))
        self.ones = self.backend.empty((self.size,))
        self.zeros, self.unused = self.backend.empty((self.size,)), self.backend.empty((2, self.size))
        self.ones[...] = 1

    def forward(self, inputs: list[Own]) -> None:
        """Normalise, scale and shift every record."""
        scale, bias = self._value("scale", self.ones), self._value("bias", self.zeros)
        x, y = self._rows(inputs[0]), self._rows(self.blobs[0])
        forward(x, scale, bias, y, self.stats, self.layer.epsilon, self.centred)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        """Write all gradients in one pass over the records."""
        dscale, dbias = (self._gradient(name, number) for number, name in enumerate(("scale", "bias")))
        dscale[...] = dbias[...] = 0
        x, dy, dx = self._rows(inputs[0]), self._rows(self.blobs_diff[0]), diffs[0]
        there = x[:0] if dx is None else self._rows(dx)
        backward(x, dy, self._value("scale", self.ones), self.stats, there, dscale, dbias, self.centred)

    def _rows(self, blob: Own) -> Array:
        return blob.memory.reshape(self.records, self.size)

    def _value(self, name: str, otherwise: Array) -> Array:
        return self.learned[name].blob.reshape(-1) if name in self.learned else otherwise

    def _gradient(self, name: str, place: int) -> Array:
        gradient = self.learned[name].gradient if name in self.learned else None
        return self.unused[place] if gradient is None else gradient.reshape(-1)


class RMSNormKernel(LayerNormKernel):
    """RMSNorm: the same, without means."""

    centred = False


@compiled(SUMS)
def mean_of(x: Array, row: int) -> Any:
    """Return the mean of a record, up to rounding."""
    total = x.dtype.type(0)
    for i in range(x.shape[1]):
        total += x[row, i]
    return total / x.dtype.type(x.shape[1])


@compiled(SUMS)
def moments(x: Array, row: int, mean: Any) -> Any:
    """Return the means of x - mean, and of its square."""
    first, second, count = x.dtype.type(0), x.dtype.type(0), x.dtype.type(x.shape[1])
    for i in range(x.shape[1]):
        off = x[row, i] - mean
        first += off
        second += off * off
    return first / count, second / count


@compiled(SUMS)
def means_of_gradients(x: Array, dy: Array, scale: Array, row: int, mean: Any) -> Any:
    """Return the means of dy · scale, and of its product with x - mean."""
    first, second, count = x.dtype.type(0), x.dtype.type(0), x.dtype.type(x.shape[1])
    for i in range(x.shape[1]):
        gradient = dy[row, i] * scale[i]
        first += gradient
        second += gradient * (x[row, i] - mean)
    return first / count, second / count


@compiled(PLAIN)
def forward(x: Array, scale: Array, bias: Array, y: Array, stats: Array, epsilon: float, centred: bool) -> None:
    """Write the normalised records, and for each of them its mean in two parts, and the slope.

    The second part of a mean is what rounding left of the first: it matters where the mean is large.
    """
    for row in range(x.shape[0]):
        mean = mean_of(x, row) if centred else x.dtype.type(0)
        rest, square = moments(x, row, mean)
        if not centred:
            rest = x.dtype.type(0)
        slope = x.dtype.type(1 / sqrt(square - rest * rest + epsilon))
        for i in range(x.shape[1]):
            y[row, i] = (x[row, i] - mean - rest) * slope * scale[i] + bias[i]
        stats[row, 0], stats[row, 1], stats[row, 2] = mean, rest, slope


@compiled(PLAIN)
def backward(
    x: Array, dy: Array, scale: Array, stats: Array, dx: Array, dscale: Array, dbias: Array, centred: bool
) -> None:
    """Add to the gradients of scale and bias, and write dx, unless it has no rows."""
    for row in range(x.shape[0]):
        mean, rest, slope = stats[row, 0], stats[row, 1], stats[row, 2]
        for i in range(x.shape[1]):
            dscale[i] += dy[row, i] * ((x[row, i] - mean - rest) * slope)
            dbias[i] += dy[row, i]
        if dx.shape[0] == 0:
            continue
        total, along = means_of_gradients(x, dy, scale, row, mean)
        along = (along - rest * total) * slope
        if not centred:
            total = x.dtype.type(0)
        for i in range(x.shape[1]):
            normal = (x[row, i] - mean - rest) * slope
            dx[row, i] = slope * (dy[row, i] * scale[i] - total - normal * along)
