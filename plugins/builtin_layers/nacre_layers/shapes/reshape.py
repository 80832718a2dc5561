"""Reshape: the same numbers under another shape."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Annotated, Any

from nacre import ConfigError, Layer, Names, Shape, as_many_as, at_least, every, non_zero

from .passthrough import AliasState


class ReshapeLayer(Layer, can_do_bp=True):
    """Read every image under another shape; one top for each bottom, and nothing is copied.

    y[n, i] = x[n, i], where i counts the numbers of an image in C order.

    `shape` is that of one image, without the batch: 0 stands for the bottom's length of this axis, one -1 for the rest.
    With `axis` and `n_axes` it replaces only these axes: shape [2, -1] makes (5, 6, 7) of (5, 42), and with axis=2 it
    makes (5, 3, 2, 4) of (5, 3, 8). With n_axes=0 axes of length 1 are inserted before `axis`, and a negative axis is
    counted from after the last. Raises ConfigError if the numbers of an image do not fit. After Mocha.jl's
    `ReshapeLayer` and Caffe's `Reshape`.

    Example:
        [[layer]]
        type = "Reshape"
        bottoms = ["ip1"]  # (8, 980)
        tops = ["maps"]  # (8, 20, 7, 7)
        shape = [20, 7, 7]
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to reshape"]
    tops: Annotated[Names, as_many_as("bottoms"), "the reshaped blobs"]
    shape: Annotated[Shape, every(lambda n: n >= -1, "above 0, or 0 to copy, or -1"), "shape of one image"]
    axis: Annotated[int, non_zero, "first of the axes that `shape` replaces"] = 1
    n_axes: Annotated[int, every(lambda n: n >= -1, "0 or more, or -1"), "number of these axes; -1 is all of them"] = -1

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.shape.count(-1) > 1:
            yield f"shape={self.shape}, but only one number can be -1"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> AliasState:
        return AliasState(self, backend, inputs, diffs, [_filled(self, one.shape) for one in inputs])


def _filled(layer: ReshapeLayer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a top."""
    first = layer.axis + len(shape) + 1 if layer.axis < 0 else layer.axis
    behind = len(shape) if layer.n_axes == -1 else first + layer.n_axes
    if not 0 < first <= behind <= len(shape):
        raise ConfigError(
            f"{layer.name}: axis={layer.axis} and n_axes={layer.n_axes}, but the bottom of shape {shape} has the axes "
            f"1 to {len(shape) - 1}"
        )
    copied = [index for index, length in enumerate(layer.shape) if length == 0]
    if copied and first + copied[-1] >= len(shape):
        raise ConfigError(
            f"{layer.name}: shape={layer.shape} copies the length of axis {first + copied[-1]}, which the bottom of "
            f"shape {shape} has not"
        )
    new = [length or shape[first + index] for index, length in enumerate(layer.shape)]
    rest = prod(shape[first:behind]) // prod(length for length in new if length > 0)
    new = [rest if length == -1 else length for length in new]
    if prod(new) != prod(shape[first:behind]):
        what = "an image has" if first == 1 and behind == len(shape) else "the axes that it replaces have"
        raise ConfigError(
            f"{layer.name}: shape={layer.shape}, but {what} {prod(shape[first:behind])} numbers: {shape[first:behind]}"
        )
    return (*shape[:first], *new, *shape[behind:])
