"""SPP: spatial pyramid pooling, the same number of features for images of any size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Annotated

from nacre import Array, ConfigError, Layer, Names, as_many_as, at_least, positive

from ..windows import WindowAxis
from .base import Pools
from .functions import Max, PoolingFunction


class SPPLayer(Layer, can_do_bp=True):
    """Spatial pyramid pooling: summaries of the image, its quarters, its sixteenths, ...; one top for each bottom.

    y[n, start_l + c · 4^l + w] = max of x[n, c] over window w of level l, for two axes; or another `pooling` of it.

    Bottoms are (images, channels, rows, columns), with any number of axes after the channels. Level l of the pyramid
    cuts each of them into 2^l windows of ceil(length / 2^l) pixels, the rest being padding. Tops are (images, numbers):
    the summaries of level 0, then those of level 1, and so on, each (channels, windows) in a row; their number is the
    same for images of any size. He, Zhang, Ren and Sun, "Spatial pyramid pooling in deep convolutional networks for
    visual recognition", 2014. After Caffe's `SPP`.

    Example:
        [[layer]]
        type = "SPP"
        bottoms = ["conv5"]  # (8, 20, 13, 13)
        tops = ["features"]  # (8, 420)
        pyramid_height = 3
    """

    shown = ("pooling",)

    bottoms: Annotated[Names, at_least(1), "the blobs to pool"]
    tops: Annotated[Names, as_many_as("bottoms"), "the summaries"]
    pyramid_height: Annotated[int, positive, "number of levels of the pyramid"]
    pooling: Annotated[PoolingFunction, "the summary of a window"] = Max()


class SPPState(Pools, of=SPPLayer, reads="inputs blobs"):
    """`SPPLayer` on any backend."""

    @staticmethod
    def axes_of(layer: SPPLayer, shape: Sequence[int]) -> list[dict[int, WindowAxis]]:
        if len(shape) < 3:
            raise ConfigError(f"{layer.name}: the bottom of shape {tuple(shape)} has no axes after the channels")
        return [
            {index: cut(layer, index, length, 2**level) for index, length in enumerate(shape[2:], 2)}
            for level in range(layer.pyramid_height)
        ]

    def top(self, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
        return (shapes[0][0], sum(prod(shape[1:]) for shape in shapes))

    def parts(self, top: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
        ends = list(itertools.accumulate(prod(shape[1:]) for shape in shapes))
        return [
            top[:, start:end].reshape(shape) for start, end, shape in zip([0, *ends[:-1]], ends, shapes, strict=True)
        ]


def cut(layer: SPPLayer, index: int, length: int, count: int) -> WindowAxis:
    """Cut an axis into `count` windows of equal size, the rest being padding, with more of it at the front.

    Raises:
        ConfigError: a window would have only padding.
    """
    kernel = -(-length // count)
    missing = kernel * count - length
    pad = (missing + 1) // 2
    if pad >= kernel:
        raise ConfigError(
            f"{layer.name}: pyramid_height={layer.pyramid_height} cuts axis {index} of length {length} into {count} "
            f"windows, of which one would have only padding: take a smaller pyramid, or images of other sizes"
        )
    return WindowAxis(length, kernel, kernel, pad, pad)
