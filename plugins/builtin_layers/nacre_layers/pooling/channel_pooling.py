"""ChannelPooling: pool over neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from nacre import Layer, Names, Pair, as_many_as, at_least, default, non_negative, non_zero, positive

from ..axes import axis_of
from ..windows import WindowAxis
from .base import Pools, checked
from .functions import Max, PoolingFunction


class Ends(Pair):
    """(front, tail); one number means the same at both ends."""

    wants = "a whole number, or two: (front, tail)"


class ChannelPoolingLayer(Layer, can_do_bp=True):
    """Pool along one axis, as maxout does along the channels; one top for each bottom.

    y[n, j] = max of x[n, j stride - front + k] over k from 0 to kernel - 1, along axis 1; or another `pooling` of them.

    Bottoms have any number of axes. There are ceil((length + front + tail - kernel) / stride) + 1 windows; a last one
    outside the blob is dropped. After Mocha.jl's `ChannelPoolingLayer`, whose mean is `Mean(divide_by="kernel")`.

    Example:
        [[layer]]
        type = "ChannelPooling"
        bottoms = ["conv1"]  # (8, 20, 12, 12)
        tops = ["maxout1"]  # (8, 10, 12, 12)
        kernel = 2
        stride = 2
    """

    shown = ("pooling", "kernel", "stride")

    bottoms: Annotated[Names, at_least(1), "the blobs to pool"]
    tops: Annotated[Names, as_many_as("bottoms"), "the pooled blobs"]
    kernel: Annotated[int, positive, "window, in channels"] = 1
    stride: Annotated[int, positive, "step between windows, in channels"] = 1
    pad: Annotated[Ends, non_negative, "padding before the channels and after them"] = default((0, 0))
    axis: Annotated[int, non_zero, "the axis to pool; -1 is the last"] = 1
    pooling: Annotated[PoolingFunction, "the summary of a window"] = Max()


class ChannelPoolingState(Pools, of=ChannelPoolingLayer, reads="inputs blobs"):
    """`ChannelPoolingLayer` on any backend."""

    @staticmethod
    def axes_of(layer: ChannelPoolingLayer, shape: Sequence[int]) -> list[dict[int, WindowAxis]]:
        index = axis_of(layer, tuple(shape))
        axis = WindowAxis(shape[index], layer.kernel, layer.stride, *layer.pad, rounding="ceil")
        return [{index: checked(layer, index, axis)}]
