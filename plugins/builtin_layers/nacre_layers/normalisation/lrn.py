"""LRN: every number divided by a power of the mean square around it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from nacre import (
    Array,
    ConfigError,
    Layer,
    LayerState,
    Names,
    as_many_as,
    at_least,
    finite,
    non_negative,
    non_zero,
    positive,
)

from ..axes import axis_of


class LRNLayer(Layer, can_do_bp=True):
    """y = x / (shift + scale · mean(x²))^power, the mean over a window around each number; one top for each bottom.

    A window is `kernel` neighbouring channels at the same position (mode "across"), or within one channel `kernel`
    positions along each axis after the batch and the channels (mode "within": kernel² pixels of an image). Positions
    outside the bottom count as 0, and the mean always divides by the whole window. The window of an even kernel reaches
    one further up than down. Krizhevsky et al., "ImageNet classification with deep convolutional neural networks",
    2012; after Mocha.jl's `LRNLayer`, where an even kernel in mode "within" failed.

    Caffe's and SINGA's local_size is `kernel`, alpha is `scale`, beta is `power`, k (SINGA: knorm) is `shift`; all
    divide alpha by the size of the window. So does PyTorch's `local_response_norm`, whose windows of an even size
    reach one further down than up.

    Example:
        [[layer]]
        type = "LRN"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["norm1"]  # (8, 20, 12, 12)
        kernel = 5
        scale = 0.0001
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to normalise"]
    tops: Annotated[Names, as_many_as("bottoms"), "the normalised blobs"]
    kernel: Annotated[int, positive, "length of a window along each of its axes"] = 5
    scale: Annotated[float, non_negative, "multiplies the mean square"] = 1.0
    shift: Annotated[float, positive, "added to the scaled mean square"] = 1.0
    power: Annotated[float, finite, "exponent of the divisor"] = 0.75
    mode: Annotated[Literal["across", "within"], "windows across channels, or within each channel"] = "across"
    axis: Annotated[int, non_zero, "axis of the channels"] = 1


def window_axes(layer: LRNLayer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of a bottom along which its windows extend.

    Raises:
        ConfigError: the bottom does not have these axes.
    """
    channels = axis_of(layer, shape)
    if layer.mode == "across":
        return (channels,)
    if len(shape) < 3:
        raise ConfigError(
            f"{layer.name}: mode='within', but the bottom of shape {shape} has only a batch and channels",
            "windows within a channel need images; use mode='across'",
        )
    return tuple(axis for axis in range(1, len(shape)) if axis != channels)


class LRNState(LayerState, of=LRNLayer, reads="inputs", capturable=True):
    """`LRNLayer` on any backend; its intermediates are the divisors before the power."""

    def __init__(self, layer: LRNLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.axes = [window_axes(layer, one.shape) for one in inputs]
        self.blobs = [backend.blob(one.shape) for one in inputs]
        self.intermediates = [backend.blob(one.shape) for one in inputs]
        self.down = (layer.kernel - 1) // 2
        self.up = layer.kernel - 1 - self.down

    def forward(self, inputs: list[Array]) -> None:
        xp, layer = self.backend.xp, self.layer
        for x, y, norm, axes in zip(inputs, self.blobs, self.intermediates, self.axes, strict=True):
            square = self.backend.scratch(x.shape)
            xp.multiply(x, x, out=square)
            xp.multiply(square, layer.scale / layer.kernel ** len(axes), out=square)
            self._add_windows(square, norm, axes, self.down, self.up)
            xp.add(norm, layer.shift, out=norm)
            self._raise(norm, y)
            xp.divide(x, y, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, layer = self.backend.xp, self.layer
        for x, dy, dx, norm, axes in zip(inputs, self.blobs_diff, diffs, self.intermediates, self.axes, strict=True):
            if dx is None:
                continue
            part, total = self.backend.scratch(x.shape), self.backend.scratch(x.shape, slot=1)
            # dx = dy / norm^power - 2 power scale / window · x · Σ (dy x / norm^(power + 1)), over the windows with x
            self._raise(norm, dx)
            xp.divide(dy, dx, out=dx)
            xp.multiply(dx, x, out=part)
            xp.divide(part, norm, out=part)
            self._add_windows(part, total, axes, self.up, self.down)
            xp.multiply(total, x, out=total)
            xp.multiply(total, 2 * layer.power * layer.scale / layer.kernel ** len(axes), out=total)
            xp.subtract(dx, total, out=dx)

    def _add_windows(self, x: Array, total: Array, axes: tuple[int, ...], down: int, up: int) -> None:
        """Write the sums of the windows of x into `total`; x is overwritten. A window reaches from -down to up."""
        xp = self.backend.xp
        for index, axis in enumerate(axes):
            if index:
                xp.copyto(x, total)  # the sums along the axis before
            else:
                xp.copyto(total, x)
            length, before = x.shape[axis], (slice(None),) * axis
            for step in range(1, min(max(down, up), length - 1) + 1):
                lower, upper = (*before, slice(length - step)), (*before, slice(step, None))
                if step <= up:
                    xp.add(total[lower], x[upper], out=total[lower])
                if step <= down:
                    xp.add(total[upper], x[lower], out=total[upper])

    def _raise(self, norm: Array, out: Array) -> None:
        """Write norm^power into `out`; two roots are several times faster than the usual power."""
        xp = self.backend.xp
        if self.layer.power != 0.75:
            xp.power(norm, self.layer.power, out=out)
            return
        root = self.backend.scratch(norm.shape)
        xp.sqrt(norm, out=root)
        xp.sqrt(root, out=out)
        xp.multiply(root, out, out=out)
