"""Windows that slide over images: how many there are, and the pixels below each of their cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from nacre import ConfigError, spread

Place = tuple[slice, ...]


class Sliding:
    """How windows slide over images, by the fields `kernel`, `stride`, `pad` and `dilation` of a layer.

    There is one number of each for every axis behind the channels. A window reaches over `extent` pixels.
    """

    def __init__(self, layer: Any, axes: int) -> None:
        self.kernel, self.stride, self.pad, self.dilation = (
            spread(getattr(layer, name), axes, f"{layer.name}: {name}")
            for name in ("kernel", "stride", "pad", "dilation")
        )
        self.dilation = tuple(step if count > 1 else 1 for step, count in zip(self.dilation, self.kernel, strict=True))
        self.extent = tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def padded(self, image: Sequence[int]) -> tuple[int, ...]:
        """Give the lengths of an image with its border."""
        return tuple(length + 2 * pad for length, pad in zip(image, self.pad, strict=True))

    def count(self, layer: Any, image: Sequence[int]) -> tuple[int, ...]:
        """Count the windows along each axis of an image.

        Raises:
            ConfigError: a window is larger than the padded image.
        """
        padded = self.padded(image)
        sizes = zip(padded, self.extent, self.stride, strict=True)
        counts = tuple((long - extent) // stride + 1 for long, extent, stride in sizes)
        if min(counts) < 1:
            dilated = f" with dilation={self.dilation}" if max(self.dilation) > 1 else ""
            raise ConfigError(f"{layer.name}: kernel={self.kernel}{dilated} is larger than the padded image, {padded}")
        # a step that is never made may be of any length, which not every library could count
        self.stride = tuple(map(min, self.stride, padded))
        return counts

    def inside(self, image: Sequence[int]) -> Place:
        """Give where (images, channels, *image) lies in an array with the border."""
        return (slice(None), slice(None), *(slice(pad, pad + long) for pad, long in zip(self.pad, image, strict=True)))

    def cells(self, counts: Sequence[int]) -> list[Place]:
        """Give where each cell of all windows lies in the padded image, row by row."""
        return [
            (slice(None), slice(None), *map(_strided, cell, counts, self.stride, self.dilation))
            for cell in itertools.product(*map(range, self.kernel))
        ]


def _strided(offset: int, count: int, stride: int, dilation: int) -> slice:
    """Give the pixels below cell `offset` of each of `count` windows."""
    start = offset * dilation
    return slice(start, start + (count - 1) * stride + 1, stride)
