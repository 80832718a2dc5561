"""What layers have in common that give their bottoms mean 0 and variance 1, then scale and shift them."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import (
    Array,
    Identity,
    LayerState,
    Names,
    Neuron,
    Parameter,
    exactly,
    positive,
)

from .weights import Biased, ScaleFields


class Normalising(ScaleFields, Biased, has_param=True, has_neuron=True, can_do_bp=True):
    """A layer that normalises one bottom; with a scale and a bias unless they are switched off."""

    bottoms: Annotated[Names, exactly(1), "what is normalised"]
    tops: Annotated[Names, exactly(1), "the normalised blob"]
    epsilon: Annotated[float, positive, "added to the variance"] = 1e-5
    scale: Annotated[bool, "whether there is a scale"] = True
    neuron: Annotated[Neuron, "activation function of the top"] = Identity()


class Standard:
    """Subtracts the mean over `axes` of arrays of `shape`, and divides by the standard deviation; and the gradient.

    The variance is that of the numbers at hand, divided by their count. `mean` and `variance` are those of the last
    pass. With `epsilon=None` nothing is divided.
    """

    def __init__(self, backend: Any, shape: tuple[int, ...], axes: tuple[int, ...], epsilon: float | None) -> None:
        self.backend, self.shape, self.axes, self.epsilon = backend, shape, axes, epsilon
        few = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
        self.mean, self.variance, self.slope = (backend.empty(few) for _ in range(3))

    def measure(self, x: Array) -> None:
        """Compute mean and variance."""
        xp, square = self.backend.xp, self.backend.scratch(self.shape)
        xp.mean(x, axis=self.axes, keepdims=True, out=self.mean)
        if self.epsilon is not None:
            xp.subtract(x, self.mean, out=square)
            xp.multiply(square, square, out=square)
            xp.mean(square, axis=self.axes, keepdims=True, out=self.variance)

    def apply(self, x: Array, mean: Array, variance: Array, normal: Array) -> None:
        """Write (x - mean) / sqrt(variance + epsilon) into `normal`."""
        xp = self.backend.xp
        xp.subtract(x, mean, out=normal)
        if self.epsilon is not None:
            xp.add(variance, self.epsilon, out=self.slope)
            xp.sqrt(self.slope, out=self.slope)
            xp.divide(1.0, self.slope, out=self.slope)
            xp.multiply(normal, self.slope, out=normal)

    def backward(self, normal: Array, dy: Array, dx: Array) -> None:
        """Write slope · (dy - mean(dy) - normal · mean(dy · normal)) into dx, which may be dy."""
        xp, product, total = self.backend.xp, self.backend.scratch(self.shape), self.mean
        if self.epsilon is not None:
            xp.multiply(dy, normal, out=product)
            xp.mean(product, axis=self.axes, keepdims=True, out=total)
            xp.multiply(normal, total, out=product)
        xp.mean(dy, axis=self.axes, keepdims=True, out=total)
        xp.subtract(dy, total, out=dx)
        if self.epsilon is not None:
            xp.subtract(dx, product, out=dx)
            xp.multiply(dx, self.slope, out=dx)


class NormalisingState(LayerState, reads=""):
    """A `Normalising` layer on any backend.

    The statistics are those over `axes` of the bottom read in `shape`. Scale and bias, of `learned_shape`, are those of
    axis 1 of the bottom read in `wide`, three axes.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    wide: tuple[int, int, int]

    def declare(self, inputs: list[Any], learned_shape: tuple[int, ...]) -> None:
        """Declare scale, bias and the top."""
        self.learned = {
            name: Parameter.of(self.layer, name, learned_shape)
            for name in ("scale", "bias")
            if getattr(self.layer, name)
        }
        self.parameters = list(self.learned.values())
        self.blobs = [self.backend.blob(inputs[0].shape)]

    def ready(self) -> None:
        self.standard = Standard(self.backend, self.shape, self.axes, self.layer.epsilon)
        self.trains = self.phase == "train"  # then what is not scaled yet is kept for backward
        self.normal = self.backend.empty(self.shape) if self.trains else self.blobs[0].reshape(self.shape)

    def forward(self, inputs: list[Array]) -> None:
        x = inputs[0].reshape(self.shape)
        self.standard.measure(x)
        self.standard.apply(x, self.standard.mean, self.standard.variance, self.normal)
        self.scale_and_shift()

    def scale_and_shift(self) -> None:
        """Write scale · normal + bias into the top."""
        xp, layer = self.backend.xp, self.layer
        normal, y = self.normal.reshape(self.wide), self.blobs[0].reshape(self.wide)
        if layer.scale:
            xp.multiply(normal, self._learned("scale"), out=y)
        elif self.trains:
            xp.copyto(y, normal)
        if layer.bias:
            xp.add(y, self._learned("bias"), out=y)

    def _learned(self, name: str) -> Array:
        return self.learned[name].blob.reshape(1, -1, 1)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, dy = self.backend.xp, self.blobs_diff[0].reshape(self.wide)
        if self.layer.bias and (gradient := self.learned["bias"].gradient) is not None:
            xp.sum(dy, axis=(0, 2), out=gradient.reshape(-1))
        if self.layer.scale and (gradient := self.learned["scale"].gradient) is not None:
            product = self.backend.scratch(self.wide)
            xp.multiply(dy, self.normal.reshape(self.wide), out=product)
            xp.sum(product, axis=(0, 2), out=gradient.reshape(-1))
        if (dx := diffs[0]) is None:
            return
        if self.layer.scale:
            xp.multiply(dy, self._learned("scale"), out=dx.reshape(self.wide))
            dy = dx
        self.normal_backward(dy.reshape(self.shape), dx.reshape(self.shape))

    def normal_backward(self, dy: Array, dx: Array) -> None:
        """Write the gradient of the bottom into dx, which may be dy, the gradient of what is scaled and shifted."""
        self.standard.backward(self.normal, dy, dx)

    def shutdown(self) -> None:
        """Nothing is held."""
