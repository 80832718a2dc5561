"""Convolutions with a stride over images of few channels, as ones of squares of pixels: see squares.cu.

Tensor cores multiply many channels at a time, so of the three of a picture they waste most; in squares as large as the
stride there are more, and the filter goes pixel by pixel.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from nacre import Array

from ..convolutions import Convolution
from .blobs import kind_of
from .launch import LANES, launch

FEW = 8
"""Channels, below which a pixel is less than a vector of tensor cores."""


class Squares:
    """A convolution `one`, which `squared` computes on squares of pixels."""

    def __init__(self, view: Any, one: Convolution, kind: str) -> None:
        lanes = LANES[kind]
        channels = -(-one.channels * prod(one.stride) // lanes) * lanes
        kernel = tuple(-(-size // step) for size, step in zip(one.kernel, one.stride, strict=True))
        size = tuple(count + cells - 1 for count, cells in zip(one.y[2:], kernel, strict=True))
        none = {"stride": (1, 1), "pad": (0, 0), "tail": (0, 0)}
        self.view, self.one = view, one
        self.squared = replace(one, channels=channels, size=size, kernel=kernel, **none)

    @staticmethod
    def fit(one: Convolution) -> bool:
        """Return whether a convolution is one for squares."""
        steps = all(1 < step < size for step, size in zip(one.stride, one.kernel, strict=True))
        return steps and one.channels < FEW and one.groups == 1 and one.dilation == (1, 1)

    def images(self, x: Array, to: Array) -> None:
        """Write images as `squared` reads them."""
        one, squared = self.one, self.squared
        kind = kind_of(to)
        shape = one.images, *one.size, one.channels, *one.stride, *one.pad, *squared.size, squared.channels
        launch(self.view, "squares", f"square_images<{kind}>", -(-prod(squared.x) // LANES[kind]), x, to, *shape)

    def filters(self, weight: Array, to: Array) -> None:
        """Write filters as `squared` reads them."""
        name = f"square_filters<{kind_of(to)}>"
        launch(self.view, "squares", name, prod(self.squared.w), weight, to, *self._of_filters)

    def gradient(self, of_squares: Array, gradient: Array) -> None:
        """Write the gradient of the layer's filters."""
        name = f"filters_of_squares<{kind_of(of_squares)}>"
        launch(self.view, "squares", name, prod(self.one.w), of_squares, gradient, *self._of_filters)

    @property
    def _of_filters(self) -> tuple[int, ...]:
        one, squared = self.one, self.squared
        return one.filters, *one.kernel, one.channels, *one.stride, *squared.kernel, squared.channels
