"""Flatten: several axes as one."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, Names, as_many_as, at_least

from ..axes import Joins, axis_or_batch, check_whole, joined_batch
from ..cutting import uncut
from .passthrough import AliasState


class FlattenLayer(Layer, can_do_bp=True):
    """Read the axes from `axis` to `end_axis` as one; one top for each bottom, and nothing is copied.

    y[n, (c · H + h) · W + w] = x[n, c, h, w], for a bottom (N, C, H, W) and no field.

    A bottom (2, 3, 4, 5) becomes (2, 60), or with axis=2 (2, 3, 20). With axis 0 the batch becomes part of the flat
    axis: then all its rows must be real, or it raises DataError. After Caffe's `Flatten`.

    Example:
        [[layer]]
        type = "Flatten"
        bottoms = ["pool2"]  # (8, 50, 4, 4)
        tops = ["flat"]  # (8, 800)
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to flatten"]
    tops: Annotated[Names, as_many_as("bottoms"), "the flat blobs"]
    axis: Annotated[int, "first of the axes that become one"] = 1
    end_axis: Annotated[int, "last of them"] = -1

    def partition(self, part: int, parts: int) -> Layer:
        if self.axis != 1:
            raise uncut(self, f"axis={self.axis} leaves the features where they are" if self.axis else "axis=0")
        return self

    def not_by_records(self) -> str:
        return "" if self.axis else "axis=0 joins the records of a batch"


class FlattenState(Joins, AliasState, of=FlattenLayer, reads=""):
    """`FlattenLayer` on any backend."""

    def __init__(self, layer: FlattenLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs, [_flat(layer, one.shape) for one in inputs])
        self.batch = joined_batch(layer, inputs)

    def forward(self, inputs: list[Array]) -> None:
        if self.batch:
            check_whole(self.layer, self.backend, self.batch)


def _flat(layer: FlattenLayer, shape: tuple[int, ...]) -> tuple[int, ...]:
    first = axis_or_batch(layer, shape)
    last = layer.end_axis + len(shape) if layer.end_axis < 0 else layer.end_axis
    if not first <= last < len(shape):
        raise ConfigError(
            f"{layer.name}: end_axis={layer.end_axis}, but it must be from axis={first} to {len(shape) - 1} "
            f"for a bottom of shape {shape}"
        )
    return (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])
