"""Flatten: several axes as one."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import ConfigError, Layer, Names, as_many_as, at_least, non_zero

from .aliases import AliasState
from .axes import axis_of


class FlattenLayer(Layer, can_do_bp=True):
    """Read the axes from `axis` to `end_axis` as one; one top for each bottom, and nothing is copied.

    y[n, (c · H + h) · W + w] = x[n, c, h, w], for a bottom (N, C, H, W) and no field.

    A bottom (2, 3, 4, 5) becomes (2, 60), or with axis=2 (2, 3, 20). After Caffe's `Flatten`.

    Example:
        [[layer]]
        type = "Flatten"
        bottoms = ["pool2"]  # (8, 50, 4, 4)
        tops = ["flat"]  # (8, 800)
    """

    bottoms: Annotated[Names, at_least(1), "what is flattened"]
    tops: Annotated[Names, as_many_as("bottoms"), "the flat blobs"]
    axis: Annotated[int, non_zero, "first of the axes that become one"] = 1
    end_axis: Annotated[int, non_zero, "last of them"] = -1

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> AliasState:
        return AliasState(self, backend, inputs, diffs, [_flat(self, one.shape) for one in inputs])


def _flat(layer: FlattenLayer, shape: tuple[int, ...]) -> tuple[int, ...]:
    first = axis_of(layer, shape)
    last = layer.end_axis + len(shape) if layer.end_axis < 0 else layer.end_axis
    if not first <= last < len(shape):
        raise ConfigError(
            f"{layer.name}: end_axis={layer.end_axis}, but it must be from axis={first} to {len(shape) - 1} "
            f"for a bottom of shape {shape}"
        )
    return (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])
