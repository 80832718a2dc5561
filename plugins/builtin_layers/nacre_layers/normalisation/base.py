"""The common code of layers that normalise a bottom to mean 0 and variance 1, then scale and shift it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from nacre import Array, Identity, LayerState, Names, Neuron, Parameter, exactly, positive

from ..fields import Biased, ScaleFields


class Normalising(ScaleFields, Biased, has_param=True, has_neuron=True, can_do_bp=True):
    """A layer that normalises one bottom, by default with a scale and a bias."""

    elsewhere: ClassVar[Mapping[str, str]] = {"eps": "epsilon", "momentum": "decay"}

    bottoms: Annotated[Names, exactly(1), "the blob to normalise"]
    tops: Annotated[Names, exactly(1), "the normalised blob"]
    epsilon: Annotated[float, positive, "added to the variance"] = 1e-5
    scale: Annotated[bool, "whether there is a scale"] = True
    neuron: Annotated[Neuron, "activation function of the top"] = Identity()


DOT = 64  # numbers per row from which on products of rows are faster than one product that is then added up


class Sums:
    """Sums over the first and the last of three axes, (before, kept, after), by BLAS: products with ones."""

    def __init__(self, backend: Any, shape: tuple[int, int, int]) -> None:
        self.backend, self.shape = backend, shape
        self.ones = [backend.empty((length,)) for length in (shape[0], shape[2])]
        for one in self.ones:
            one[...] = 1

    def add_up(self, x: Array, out: Array) -> None:
        """Write the sums of x, of any shape with as many numbers, into `out`."""
        before, kept, behind = self.shape
        rows = self._rows(x, out)
        if behind > 1:
            self.backend.xp.matmul(x.reshape(before * kept, behind), self.ones[1], out=rows)
        self._add_rows(rows, out)

    def dot(self, x: Array, y: Array, out: Array) -> None:
        """Write the sums of x · y into `out`."""
        before, kept, behind = self.shape
        xp, count = self.backend.xp, before * kept
        if behind < DOT:
            product = self.backend.scratch(x.shape)
            xp.multiply(x, y, out=product)
            self.add_up(product, out)
            return
        rows = self._rows(x, out)
        xp.matmul(x.reshape(count, 1, behind), y.reshape(count, behind, 1), out=rows.reshape(count, 1, 1))
        self._add_rows(rows, out)

    def _rows(self, x: Array, out: Array) -> Array:
        """Return the array for the sums of the last axis: `out` if they are the result."""
        before, kept, behind = self.shape
        if behind == 1:
            return x
        return out.reshape(kept) if before == 1 else self.backend.scratch((before * kept,), slot=1)

    def _add_rows(self, rows: Array, out: Array) -> None:
        before, kept, behind = self.shape
        if before > 1 or behind == 1:
            self.backend.xp.matmul(self.ones[0], rows.reshape(before, kept), out=out.reshape(kept))


class Standard:
    """Subtracts the mean over the first and the last of three axes, and divides by the standard deviation.

    The variance is that of these numbers, divided by their count. `mean` and `variance` are those of the last pass.
    With `epsilon=None` there is no division. Without `centred` no mean is subtracted, and `variance` is the mean of the
    squares. Arrays are read in `shape`. With `sync` the numbers are those of all ranks, each with such an array.
    """

    def __init__(
        self,
        backend: Any,
        shape: tuple[int, int, int],
        epsilon: float | None,
        *,
        centred: bool = True,
        sync: bool = False,
    ) -> None:
        self.backend, self.shape, self.epsilon, self.centred, self.sync = backend, shape, epsilon, centred, sync
        self.count = (backend.together(shape[0]) if sync else shape[0]) * shape[2]
        self.sums = Sums(backend, shape)
        self.mean, self.variance, self.slope = (backend.empty((1, shape[1], 1)) for _ in range(3))

    def forward(self, x: Array, normal: Array) -> None:
        """Measure mean and variance, and write (x - mean) / sqrt(variance + epsilon) into `normal`."""
        xp = self.backend.xp
        if self.centred:
            self._centre(x, normal)
        else:
            xp.copyto(normal, x)
        if self.epsilon is not None:
            self.sums.dot(normal, normal, self.variance)
            self._add_up(self.variance)
            xp.divide(self.variance, self.count, out=self.variance)
            self._divide(self.variance, normal)

    def _centre(self, x: Array, normal: Array) -> None:
        """Measure the mean, and write x - mean into `normal`."""
        xp, rest = self.backend.xp, self.slope
        self.sums.add_up(x, self.mean)
        self._add_up(self.mean)
        xp.divide(self.mean, self.count, out=self.mean)
        xp.subtract(x, self.mean, out=normal)
        self.sums.add_up(normal, rest)  # 0 except for rounding, which matters if the mean is large
        self._add_up(rest)
        xp.divide(rest, self.count, out=rest)
        xp.subtract(normal, rest, out=normal)
        xp.add(self.mean, rest, out=self.mean)

    def _add_up(self, sums: Array) -> None:
        if self.sync:
            self.backend.add_up(sums)

    def apply(self, x: Array, mean: Array, variance: Array, normal: Array) -> None:
        """Write (x - mean) / sqrt(variance + epsilon) into `normal`."""
        self.backend.xp.subtract(x, mean, out=normal)
        self._divide(variance, normal)

    def _divide(self, variance: Array, normal: Array) -> None:
        xp = self.backend.xp
        xp.add(variance, self.epsilon, out=self.slope)
        xp.sqrt(self.slope, out=self.slope)
        xp.divide(1.0, self.slope, out=self.slope)
        xp.multiply(normal, self.slope, out=normal)

    def backward(self, normal: Array, dy: Array, dx: Array) -> None:
        """Write slope · (dy - mean(dy) - normal · mean(dy · normal)) into dx, which may be dy."""
        xp, product, total = self.backend.xp, self.backend.scratch(self.shape), self.mean
        if self.epsilon is not None:
            self.sums.dot(dy, normal, total)
            self._add_up(total)
            xp.divide(total, self.count, out=total)
            xp.multiply(normal, total, out=product)
        if self.centred:
            self.sums.add_up(dy, total)
            self._add_up(total)
            xp.divide(total, self.count, out=total)
            xp.subtract(dy, total, out=dx)
        else:
            xp.copyto(dx, dy)
        if self.epsilon is not None:
            xp.subtract(dx, product, out=dx)
            xp.multiply(dx, self.slope, out=dx)


class NormalisingState(LayerState, reads=""):
    """A `Normalising` layer on any backend.

    The statistics are those over the first and the last axis of the bottom read in `shape`. Scale and bias, of
    `learned_shape`, are those of axis 1 of the bottom read in `wide`.
    """

    shape: tuple[int, int, int]
    wide: tuple[int, int, int]
    learns: tuple[str, ...] = ("scale", "bias")

    def standard_of(self, shape: tuple[int, int, int]) -> Standard:
        """Return what normalises arrays of a shape."""
        return Standard(self.backend, shape, self.layer.epsilon)

    def declare(self, inputs: list[Any], learned_shape: tuple[int, ...]) -> None:
        """Declare scale, bias and the top."""
        self.learned = {
            name: Parameter.of(self.layer, name, learned_shape) for name in self.learns if getattr(self.layer, name)
        }
        self.parameters = list(self.learned.values())
        self.blobs = [self.backend.blob(inputs[0].shape)]
        self.trains = self.phase == "train"  # then the normalised blob is kept for backward
        self.intermediates = [self.backend.blob(inputs[0].shape)] if self.trains else []

    def ready(self) -> None:
        self.standard = self.standard_of(self.shape)
        self.sums = Sums(self.backend, self.wide)
        self.normal = (self.intermediates or self.blobs)[0].reshape(self.shape)

    def forward(self, inputs: list[Array]) -> None:
        self.standard.forward(inputs[0].reshape(self.shape), self.normal)
        self.scale_and_shift()

    def scale_and_shift(self) -> None:
        """Write scale · normal + bias into the top."""
        xp = self.backend.xp
        normal, y = self.normal.reshape(self.wide), self.blobs[0].reshape(self.wide)
        if "scale" in self.learned:
            xp.multiply(normal, self._learned("scale"), out=y)
        elif self.trains:
            xp.copyto(y, normal)
        if "bias" in self.learned:
            xp.add(y, self._learned("bias"), out=y)

    def _learned(self, name: str) -> Array:
        return self.learned[name].blob.reshape(1, -1, 1)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, dy = self.backend.xp, self.blobs_diff[0].reshape(self.wide)
        if "bias" in self.learned and (gradient := self.learned["bias"].gradient) is not None:
            self.sums.add_up(dy, gradient)
        if "scale" in self.learned and (gradient := self.learned["scale"].gradient) is not None:
            self.sums.dot(dy, self.normal.reshape(self.wide), gradient)
        if (dx := diffs[0]) is None:
            return
        if "scale" in self.learned:
            xp.multiply(dy, self._learned("scale"), out=dx.reshape(self.wide))
            dy = dx
        self.normal_backward(dy.reshape(self.shape), dx.reshape(self.shape))

    def normal_backward(self, dy: Array, dx: Array) -> None:
        """Write the gradient of the bottom into dx, which may be dy, the gradient of the normalised blob."""
        self.standard.backward(self.normal, dy, dx)
