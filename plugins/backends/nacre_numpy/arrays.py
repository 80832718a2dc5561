"""The arrays that a layer with weights reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from nacre import Array


@dataclass(frozen=True, eq=False)
class Arrays:
    """Values and gradients of a layer with weights; what is None is missing, or not wanted."""

    x: Array
    weight: Array
    bias: Array
    y: Array
    dy: Array = None
    dweight: Array = None
    dbias: Array = None
    dx: Array = None
