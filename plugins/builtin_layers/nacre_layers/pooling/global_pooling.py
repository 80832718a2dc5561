"""GlobalPooling: one number for each channel of an image."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from nacre import Identity, Layer, Names, Neuron, as_many_as, at_least

from .functions import Mean, PoolingFunction
from .pooling import PoolingState


class GlobalPoolingLayer(Layer, has_neuron=True, can_do_bp=True):
    """Pool every channel of every image to one number; one top for each bottom.

    y[n, c, 0, 0] = mean of x[n, c] over all rows and columns; or another `pooling` of it.

    Bottoms are (images, channels, rows, columns), with any number of axes after the channels, which stay with length 1;
    a `Flatten` after it makes (images, channels). The same as `Pooling` with `whole`, except for the default of
    `pooling`. As PyTorch's `AdaptiveAvgPool2d(1)` and Caffe's `global_pooling`.

    Example:
        [[layer]]
        type = "GlobalPooling"
        bottoms = ["conv5"]  # (8, 64, 7, 7)
        tops = ["features"]  # (8, 64, 1, 1)
    """

    # what `Pooling` has as fields, and its states and kernels read
    axes: ClassVar[tuple[int, ...]] = ()
    whole: ClassVar[bool] = True
    masks: ClassVar[tuple[str, ...]] = ()
    shown = ("pooling",)

    bottoms: Annotated[Names, at_least(1), "the blobs to pool"]
    tops: Annotated[Names, as_many_as("bottoms"), "the pooled blobs"]
    pooling: Annotated[PoolingFunction, "the summary of an image"] = Mean()
    neuron: Annotated[Neuron, "activation function of the tops"] = Identity()

    def partition(self, part: int, parts: int) -> Layer:
        return self

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> PoolingState:
        return PoolingState(self, backend, inputs, diffs)
