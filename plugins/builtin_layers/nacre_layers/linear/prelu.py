"""PReLU: a rectifier with a learned slope below 0."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import (
    Array,
    ConfigError,
    Constraint,
    Initializer,
    Layer,
    LayerState,
    Maybe,
    Names,
    Parameter,
    Regularizer,
    as_many_as,
    at_least,
    default,
    non_negative,
    non_zero,
)

from ..axes import axis_of, split_shape
from ..cutting import uncut
from ..fields import Learning
from ..initializers import Constant


class PReLULayer(Learning, has_param=True, can_do_bp=True):
    """y = x where x > 0, else slope · x, with a slope for each channel; one top for each bottom.

    The parameter is `slope`, (channels,), or (1,) with `shared`, which Caffe's () fits too; all bottoms share it. He et
    al., "Delving deep into rectifiers", 2015; after Caffe's `PReLU`.

    Example:
        [[layer]]
        type = "PReLU"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["prelu1"]  # (8, 20, 12, 12)
    """

    bottoms: Annotated[Names, at_least(1), "the inputs of the function"]
    tops: Annotated[Names, as_many_as("bottoms"), "the results"]
    axis: Annotated[int, non_zero, "axis of the channels"] = 1
    shared: Annotated[bool, "whether all channels share one slope"] = False
    slope_init: Annotated[Initializer, "first values of the slope"] = Constant(value=0.25)
    slope_regu: Annotated[Maybe[Regularizer], "regulariser of the slope"] = default(None)
    slope_cons: Annotated[Maybe[Constraint], "constraint of the slope"] = default(None)
    slope_lr: Annotated[float, non_negative, "multiplies the learning rate of the slope"] = 1.0

    def partition(self, part: int, parts: int) -> Layer:
        if self.axis != 1:
            raise uncut(self, f"axis={self.axis} counts its channels")
        return self


class PReLUState(LayerState, of=PReLULayer, reads="inputs", capturable=True):
    """`PReLULayer` on any backend; arrays are read as (before the channels, channels, after them)."""

    def __init__(self, layer: PReLULayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.shapes = [split_shape(one.shape, axis_of(layer, one.shape)) for one in inputs]
        self.axes = (0, 1, 2) if layer.shared else (0, 2)  # along which a slope's gradient is added up
        channels = 1 if layer.shared else self.shapes[0][1]
        for name, shape in zip(layer.bottoms, self.shapes, strict=True):
            if not layer.shared and shape[1] != channels:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' has {shape[1]} channels, but '{layer.bottoms[0]}' has {channels}",
                    "shared=True gives all channels one slope",
                )
        self.parameters = [Parameter.of(layer, "slope", (channels,))]
        self.blobs = [backend.blob(one.shape) for one in inputs]

    def forward(self, inputs: list[Array]) -> None:
        xp, slope = self.backend.xp, self.parameters[0].blob.reshape(1, -1, 1)
        for shape, bottom, top in zip(self.shapes, inputs, self.blobs, strict=True):
            x, y, part = bottom.reshape(shape), top.reshape(shape), self.backend.scratch(shape)
            xp.minimum(x, 0, out=part)
            xp.multiply(part, slope, out=part)
            xp.maximum(x, 0, out=y)
            xp.add(y, part, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp, (slope,) = self.backend.xp, self.parameters
        if slope.gradient is not None:
            slope.gradient[...] = 0
        for shape, bottom, top_diff, diff in zip(self.shapes, inputs, self.blobs_diff, diffs, strict=True):
            x, dy, part = bottom.reshape(shape), top_diff.reshape(shape), self.backend.scratch(shape)
            if slope.gradient is not None:
                xp.minimum(x, 0, out=part)
                xp.multiply(part, dy, out=part)
                share = self.backend.scratch(slope.shape, slot=1)
                xp.sum(part, axis=self.axes, keepdims=True, out=share.reshape(1, -1, 1))
                xp.add(slope.gradient, share, out=slope.gradient)
            if diff is not None:
                above, below = (self.backend.scratch(shape, "bool", slot=slot) for slot in (0, 1))
                xp.greater(x, 0, out=above)
                xp.logical_not(above, out=below)
                xp.multiply(below, slope.blob.reshape(1, -1, 1), out=part)
                xp.add(part, above, out=part)
                xp.multiply(dy, part, out=diff.reshape(shape))
