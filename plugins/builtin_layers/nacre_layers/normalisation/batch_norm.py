"""BatchNorm: normalises every channel to mean 0 and variance 1, then scales and shifts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Array, Layer, Parameter, fraction, non_zero

from ..axes import axis_of, split_shape
from ..cutting import uncut
from ..initializers import Constant
from .base import Normalising, NormalisingState, Standard


class BatchNormLayer(Normalising):
    """y = scale · (x - mean) / sqrt(variance + epsilon) + bias, for each channel.

    The bottom has any number of axes; scale, bias, mean and variance are (channels,). In phase `train` mean and
    (biased) variance are those of the whole batch, and the running ones follow: running = decay · running + (1 - decay)
    · batch, with the unbiased variance. In all other phases the running ones are used; with `use_running`, and where
    the net has frozen the layer, also in phase `train`, and then they stay as they are. With `use_batch` they are never
    used: mean and variance are those of the batch, outside of `train` those of its rows that count. They are buffers,
    `mean` and `variance`, shared and saved like parameters. A channel of a single number becomes 0.

    Of several ranks, each uses mean and variance of its own rows, and the running ones are the means over the ranks.
    With `sync` they are those of all rows of the batch, as if one process had them; that takes five small exchanges.

    Ioffe and Szegedy, "Batch normalization", 2015; the conventions are PyTorch's (its momentum is 1 - decay). Caffe's
    `BatchNorm` is this with `scale=False, bias=False`, its moving_average_fraction `decay`, and its use_global_stats
    `use_running`, or where it is false `use_batch`.

    Example:
        [[layer]]
        type = "BatchNorm"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["norm1"]  # (8, 20, 12, 12)
        neuron = "ReLU"
    """

    axis: Annotated[int, non_zero, "axis of the channels"] = 1
    decay: Annotated[float, fraction, "share of the running values that is kept in each pass"] = 0.9
    use_running: Annotated[bool, "use the running mean and variance in phase train too, without changing them"] = False
    sync: Annotated[
        bool, "of several ranks: use the mean and variance of all rows of the batch, not of each rank's"
    ] = False
    use_batch: Annotated[bool, "use the batch's own mean and variance in the other phases too"] = False

    def partition(self, part: int, parts: int) -> Layer:
        if self.axis != 1:
            raise uncut(self, f"axis={self.axis} counts its channels")
        return self

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.use_running and self.use_batch:
            yield "use_running=True and use_batch=True, but only one of them is possible"
        if self.sync and self.use_batch:
            yield "sync=True and use_batch=True, but only one of them is possible"


def batch_norm_buffers(channels: int) -> list[Parameter]:
    """Declare the running mean and variance."""
    return [
        Parameter("mean", (channels,), init=Constant(), trainable=False),
        Parameter("variance", (channels,), init=Constant(value=1.0), trainable=False),
    ]


class BatchNormState(NormalisingState, of=BatchNormLayer, reads=""):
    """`BatchNormLayer` on any backend; arrays are read as (before the channels, channels, after them)."""

    def __init__(self, layer: BatchNormLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.shape = self.wide = split_shape(inputs[0].shape, axis_of(layer, inputs[0].shape))
        self.declare(inputs, (self.shape[1],))
        self.mean, self.variance = batch_norm_buffers(self.shape[1])
        self.parameters += [self.mean, self.variance]
        self.images = inputs[0].shape[0]
        self.count = (backend.together(self.shape[0]) if layer.sync else self.shape[0]) * self.shape[2]

    def standard_of(self, shape: tuple[int, int, int]) -> Standard:
        return Standard(self.backend, shape, self.layer.epsilon, sync=self.layer.sync)

    @property
    def follows(self) -> bool:
        """Whether the batch's mean and variance are used, and the running ones follow them."""
        return self.phase == "train" and not self.layer.use_running and not self.mean.frozen

    @property
    def capturable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """Whether a device may record it."""
        return not self.layer.use_batch  # which looks at the number of rows

    def forward(self, inputs: list[Array]) -> None:
        x = inputs[0].reshape(self.shape)
        if self.follows:
            self.standard.forward(x, self.normal)
            self._follow(self.mean.blob, self.standard.mean, 1.0)
            self._follow(self.variance.blob, self.standard.variance, self.count / max(self.count - 1, 1))
        elif self.layer.use_batch:
            self._normalise_real(x)
        else:
            mean, variance = (one.blob.reshape(1, -1, 1) for one in (self.mean, self.variance))
            self.standard.apply(x, mean, variance, self.normal)
        self.scale_and_shift()

    def _normalise_real(self, x: Array) -> None:
        """Normalise the rows that count by their own mean and variance, and write 0 into the others."""
        before, channels, behind = self.shape
        real = before * min(self.backend.rows, self.images) // self.images
        few = (real, channels, behind)
        standard = self.standard if real == before else Standard(self.backend, few, self.layer.epsilon)
        standard.forward(x[:real], self.normal[:real])
        self.normal[real:] = 0

    def _follow(self, running: Array, batch: Array, factor: float) -> None:
        xp, decay, part = self.backend.xp, self.layer.decay, self.backend.scratch(running.shape)
        xp.multiply(running, decay, out=running)
        xp.multiply(batch.reshape(-1), (1 - decay) * factor, out=part)
        xp.add(running, part, out=running)

    def normal_backward(self, dy: Array, dx: Array) -> None:
        if self.follows or self.layer.use_batch:
            super().normal_backward(dy, dx)
        else:
            self.backend.xp.multiply(dy, self.standard.slope, out=dx)
