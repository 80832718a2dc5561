"""Resize: images of another size, by their nearest pixels or by means between neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor, isfinite, prod
from typing import Annotated, Any, Literal

from nacre import (
    Array,
    ConfigError,
    Layer,
    LayerState,
    Names,
    Shape,
    as_many_as,
    at_least,
    default,
    finite,
    positive,
    spread,
)

from ..taps import Taps, through


class ResizeLayer(Layer, can_do_bp=True):
    """Make images larger or smaller, to `size` pixels or by a `factor`; one top for each bottom.

    Bottoms are (images, channels, rows, columns), with any number of axes after the channels, which are resized. Along
    an axis the step s is length / new length, or 1 / factor. With `mode` "nearest", y[i] = x[floor(i s)]; with
    "bilinear", y[i] = (1 - λ) x[floor(p)] + λ x[floor(p) + 1], where p = (i + 0.5) s - 0.5 is the place of the middle
    of pixel i, but at least 0 and at most that of the last pixel, and λ = p - floor(p).

    These are the conventions of PyTorch's `interpolate` with align_corners=False, also in that a smaller image is no
    mean of the pixels between (for that use `Pooling` or `AdaptivePooling`). PyTorch computes i s in float32, and so
    may take the pixel before where it is a whole number. With a factor the new length is that times the length, rounded
    down. With "nearest" tops have the type of their bottoms.

    Example:
        [[layer]]
        type = "Resize"
        bottoms = ["score"]  # (8, 21, 16, 12)
        tops = ["large"]  # (8, 21, 32, 24)
        factor = 2.0
        mode = "bilinear"
    """

    shown = ("mode", "size", "factor")

    bottoms: Annotated[Names, at_least(1), "the images"]
    tops: Annotated[Names, as_many_as("bottoms"), "the images of the new size"]
    size: Annotated[Shape, positive, "the new (rows, columns), or one number for both"] = default(())
    factor: Annotated[float | None, positive, finite, "instead of size: how much larger an image becomes"] = None
    mode: Annotated[Literal["nearest", "bilinear"], "the nearest pixel, or the mean of neighbours"] = "nearest"

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if (self.factor is None) == (not self.size):
            yield f"size={self.size} and factor={self.factor}, but exactly one of them is needed"


class ResizeState(LayerState, of=ResizeLayer, reads="", capturable=True):
    """`ResizeLayer` on any backend; the last axis is resized first."""

    def __init__(self, layer: ResizeLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.lengths = [one.shape[2:] for one in inputs]
        for one in inputs:
            shape = (*one.shape[:2], *_sizes(layer, one.shape))
            self.blobs.append(backend.blob(shape, one.dtype if layer.mode == "nearest" else None))

    def ready(self) -> None:
        sizes = [y.shape[2:] for y in self.blobs]
        maps = [_maps(self.layer, *both) for both in zip(self.lengths, sizes, strict=True)]
        self.ways = [[(axis, taps.placed(self.backend)) for axis, taps in reversed(one.items())] for one in maps]
        self.back = [[(axis, taps.back.placed(self.backend)) for axis, taps in one.items()] for one in maps]

    def forward(self, inputs: list[Array]) -> None:
        for x, y, ways in zip(inputs, self.blobs, self.ways, strict=True):
            through(self.backend, x, ways, y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for dy, dx, ways in zip(self.blobs_diff, diffs, self.back, strict=True):
            if dx is not None:
                through(self.backend, dy, ways, dx)


def _sizes(layer: ResizeLayer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the new length of each axis after the channels."""
    lengths = shape[2:]
    if not lengths:
        raise ConfigError(f"{layer.name}: the bottom of shape {shape} must be (images, channels, rows, columns)")
    if layer.factor is None:
        return spread(layer.size, len(lengths), f"{layer.name}: size")
    products = [length * layer.factor for length in lengths]
    if not all(map(isfinite, products)):
        raise ConfigError(f"{layer.name}: factor={layer.factor} makes too many pixels of images of shape {lengths}")
    sizes = tuple(map(floor, products))
    if not prod(sizes):
        raise ConfigError(f"{layer.name}: factor={layer.factor} leaves no pixel of the images of shape {lengths}")
    return sizes


def _maps(layer: ResizeLayer, lengths: Sequence[int], sizes: Sequence[int]) -> dict[int, Taps]:
    """Return what maps each axis after the channels to its new length; they are as large as the images."""
    entries, maps = _nearest if layer.mode == "nearest" else _linear, dict[int, Taps]()
    for axis, (length, size) in enumerate(zip(lengths, sizes, strict=True), 2):
        step = Fraction(length, size) if layer.factor is None else 1 / Fraction(layer.factor)
        maps[axis] = Taps(size, length, entries(length, size, step))
    return maps


def _nearest(length: int, size: int, step: Fraction) -> Iterator[tuple[int, int, float]]:
    for i in range(size):
        yield i, min(floor(i * step), length - 1), 1.0


def _linear(length: int, size: int, step: Fraction) -> Iterator[tuple[int, int, float]]:
    for i in range(size):
        place = min(max((i + Fraction(1, 2)) * step - Fraction(1, 2), Fraction(0)), Fraction(length - 1))
        before = floor(place)
        yield i, before, float(1 - (place - before))
        yield i, min(before + 1, length - 1), float(place - before)
