"""BatchNorm: every channel with mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import (
    Array,
    Constraint,
    Identity,
    Initializer,
    LayerState,
    Names,
    Neuron,
    Parameter,
    Regularizer,
    exactly,
    fraction,
    non_negative,
    non_zero,
    positive,
)

from .classes import class_axis, split_shape
from .initializers import Constant
from .weights import Biased


class BatchNormLayer(Biased, has_param=True, has_neuron=True, can_do_bp=True):
    """y = scale · (x - mean) / sqrt(variance + epsilon) + bias, for each channel.

    In phase `train` mean and (biased) variance are those of the batch, and the running ones follow: running = decay ·
    running + (1 - decay) · batch, with the unbiased variance. In all other phases the running ones are used. They are
    buffers, `mean` and `variance`, shared and saved like parameters. Ioffe and Szegedy, "Batch normalization", 2015;
    the conventions are PyTorch's (its momentum is 1 - decay).
    """

    bottoms: Annotated[Names, exactly(1), "what is normalised"]
    tops: Annotated[Names, exactly(1), "the normalised blob"]
    axis: Annotated[int, non_zero, "axis of the channels"] = 1
    epsilon: Annotated[float, positive, "added to the variance"] = 1e-5
    decay: Annotated[float, fraction, "how much of the running values stays"] = 0.9
    scale: Annotated[bool, "whether there is a scale"] = True
    scale_init: Annotated[Initializer, "first values of the scale"] = Constant(value=1.0)
    scale_regu: Annotated[Regularizer | None, "regulariser of the scale"] = None
    scale_cons: Annotated[Constraint | None, "constraint of the scale"] = None
    scale_lr: Annotated[float, non_negative, "multiplies the learning rate of the scale"] = 1.0
    neuron: Annotated[Neuron, "activation function of the top"] = Identity()

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> BatchNormState:
        return BatchNormState(self, backend, inputs, diffs)


class BatchNormState(LayerState, reads=""):
    """`BatchNormLayer` on any backend; arrays are read as (before the channels, channels, behind them)."""

    def __init__(self, layer: BatchNormLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = inputs[0].shape
        self.shape = split_shape(shape, class_axis(layer, shape))
        channels = self.shape[1]
        self.mean = Parameter("mean", (channels,), init=Constant(), trainable=False)
        self.variance = Parameter("variance", (channels,), init=Constant(value=1.0), trainable=False)
        self.learned = {
            name: Parameter.of(layer, name, (channels,)) for name in ("scale", "bias") if getattr(layer, name)
        }
        self.parameters = [*self.learned.values(), self.mean, self.variance]
        self.blobs = [backend.blob(shape)]
        self.count = self.shape[0] * self.shape[2]

    def ready(self) -> None:
        channels = (1, self.shape[1], 1)
        self.normal = self.backend.empty(self.shape)
        self.work = self.backend.empty(self.shape)
        self.batch_mean, self.slope, self.total = (self.backend.empty(channels) for _ in range(3))

    def forward(self, inputs: list[Array]) -> None:
        xp, layer = self.backend.xp, self.layer
        x, y = inputs[0].reshape(self.shape), self.blobs[0].reshape(self.shape)
        if self.phase == "train":
            xp.mean(x, axis=(0, 2), keepdims=True, out=self.batch_mean)
            xp.subtract(x, self.batch_mean, out=self.normal)
            xp.multiply(self.normal, self.normal, out=self.work)
            xp.mean(self.work, axis=(0, 2), keepdims=True, out=self.slope)
            self._follow(self.mean.blob, self.batch_mean, 1.0)
            self._follow(self.variance.blob, self.slope, self.count / max(self.count - 1, 1))
        else:
            xp.subtract(x, self.mean.blob.reshape(1, -1, 1), out=self.normal)
            xp.copyto(self.slope, self.variance.blob.reshape(1, -1, 1))
        xp.add(self.slope, layer.epsilon, out=self.slope)
        xp.sqrt(self.slope, out=self.slope)
        xp.divide(1.0, self.slope, out=self.slope)
        xp.multiply(self.normal, self.slope, out=self.normal)
        xp.copyto(y, self.normal)
        if layer.scale:
            xp.multiply(y, self.learned["scale"].blob.reshape(1, -1, 1), out=y)
        if layer.bias:
            xp.add(y, self.learned["bias"].blob.reshape(1, -1, 1), out=y)

    def _follow(self, running: Array, batch: Array, factor: float) -> None:
        xp, decay = self.backend.xp, self.layer.decay
        xp.multiply(running, decay, out=running)
        xp.multiply(batch, (1 - decay) * factor, out=self.total)
        xp.add(running, self.total.reshape(-1), out=running)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, layer = self.backend.xp, self.layer
        dy = self.blobs_diff[0].reshape(self.shape)
        if layer.bias and self.learned["bias"].gradient is not None:
            xp.sum(dy, axis=(0, 2), out=self.learned["bias"].gradient)
        xp.multiply(dy, self.normal, out=self.work)
        if layer.scale and self.learned["scale"].gradient is not None:
            xp.sum(self.work, axis=(0, 2), out=self.learned["scale"].gradient)
        if diffs[0] is None:
            return
        dx = diffs[0].reshape(self.shape)
        # dx = scale · slope · (dy - mean(dy) - normal · mean(dy · normal))
        xp.mean(self.work, axis=(0, 2), keepdims=True, out=self.total)
        xp.multiply(self.normal, self.total, out=self.work)
        xp.mean(dy, axis=(0, 2), keepdims=True, out=self.total)
        xp.subtract(dy, self.total, out=dx)
        xp.subtract(dx, self.work, out=dx)
        xp.multiply(dx, self.slope, out=dx)
        if layer.scale:
            xp.multiply(dx, self.learned["scale"].blob.reshape(1, -1, 1), out=dx)

    def shutdown(self) -> None:
        """Nothing is held."""
