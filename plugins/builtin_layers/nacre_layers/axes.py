"""Axes of bottoms, as the fields of layers name them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

from nacre import ConfigError, DataError


def axis_of(layer: Any, shape: tuple[int, ...], first: int = 1) -> int:
    """Return a layer's `axis` counted from the front; it cannot be the batch's, unless `first` is 0.

    Raises:
        ConfigError: a bottom of this shape has no such axis.
    """
    axis = layer.axis + len(shape) if layer.axis < 0 else layer.axis
    if not first <= axis < len(shape):
        raise ConfigError(
            f"{layer.name}: axis={layer.axis}, but the bottom of shape {shape} has the axes {first} to {len(shape) - 1}"
        )
    return axis


def axis_or_batch(layer: Any, shape: tuple[int, ...]) -> int:
    """Return a layer's `axis` counted from the front; it is the batch's only where it says 0, not counted from behind.

    Raises:
        ConfigError: a bottom of this shape has no such axis.
    """
    return axis_of(layer, shape) if layer.axis else 0


def joined_batch(layer: Any, inputs: Sequence[Any]) -> int:
    """Return how many rows `check_whole` must find real where `axis` is the batch's, and 0 where it is another."""
    return 0 if layer.axis else max(one.shape[0] for one in inputs)


def split_shape(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Read a shape as (before the axis, its length, behind it)."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def parts_along(axis: int, ends: Sequence[int]) -> list[tuple[slice, ...]]:
    """Return the index of each part of a blob, from one end along an axis to the next."""
    before = (slice(None),) * axis
    return [(*before, slice(start, end)) for start, end in itertools.pairwise(ends)]


def check_whole(layer: Any, backend: Any, batch: int) -> None:
    """Refuse a batch of which some rows do not count: along the batch's own axis they would come to lie among others.

    Raises:
        DataError: names how many count.
    """
    if backend.rows < batch:
        raise DataError(
            f"{layer.name}: axis={layer.axis} is the batch's, and only {backend.rows} of its {batch} records are real",
            "take a batch_size that divides the number of records",
        )
