"""Axes of bottoms, from the field `axis` of a layer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

from nacre import ConfigError, DataError


def axis_of(layer: Any, shape: tuple[int, ...], first: int = 1) -> int:
    """Return a layer's `axis` counted from the front; it cannot be the batch axis, unless `first` is 0.

    Raises:
        ConfigError: a bottom of this shape does not have this axis.
    """
    axis = layer.axis + len(shape) if layer.axis < 0 else layer.axis
    if not first <= axis < len(shape):
        raise ConfigError(
            f"{layer.name}: axis={layer.axis}, but the bottom of shape {shape} has the axes {first} to {len(shape) - 1}"
        )
    return axis


def axis_or_batch(layer: Any, shape: tuple[int, ...]) -> int:
    """Return a layer's `axis` counted from the front; only 0, no negative number, can mean the batch axis.

    Raises:
        ConfigError: a bottom of this shape does not have this axis.
    """
    return axis_of(layer, shape) if layer.axis else 0


def joined_batch(layer: Any, inputs: Sequence[Any]) -> int:
    """Return how many rows `check_whole` needs if `axis` is the batch axis, else 0."""
    return 0 if layer.axis else max(one.shape[0] for one in inputs)


def split_shape(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return a shape as (size before the axis, its length, size after it)."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def parts_along(axis: int, ends: Sequence[int]) -> list[tuple[slice, ...]]:
    """Return the index of each part of a blob, cut at `ends` along an axis."""
    before = (slice(None),) * axis
    return [(*before, slice(start, end)) for start, end in itertools.pairwise(ends)]


class Joins:
    """A state that may join the rows of a batch: then `batch` is their number, else 0, and it looks at no number."""

    batch = 0

    @property
    def capturable(self) -> bool:
        """Whether a device may record it."""
        return not self.batch


def check_whole(layer: Any, backend: Any, batch: int) -> None:
    """Raise DataError if some rows of a batch are not real: along the batch axis they would mix with the others.

    Raises:
        DataError: names how many are real.
    """
    if backend.rows < batch:
        raise DataError(
            f"{layer.name}: axis={layer.axis} is the batch axis, but only {backend.rows} of {batch} records are real",
            "use a batch_size that divides the number of records",
        )
