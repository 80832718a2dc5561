"""The conversion of pictures on their way into the net: y = (x - mean) * scale, for each channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre import Converted


class PerChannel(Converted["float | Sequence[float]", "tuple[float, ...]"]):
    """A number for all channels, or one for each."""

    wants = "a number, or a list with one for each channel"

    @staticmethod
    def convert(value: Any) -> tuple[float, ...]:
        numbers = np.asarray(value, np.float64)
        if numbers.ndim > 1 or not numbers.size or not np.isfinite(numbers).all():
            raise ValueError
        return tuple(numbers.reshape(-1).tolist())


def converted(x: np.ndarray, y: np.ndarray, mean: Sequence[float], scale: Sequence[float]) -> None:
    """Write records (records, channels, rows, columns) into `y`; `x` may be `y`."""
    shape = (-1, 1, 1)
    less, times = (np.array(numbers, y.dtype).reshape(shape) for numbers in (mean, scale))
    for given, made in zip(x, y, strict=True):  # one by one: a record stays in the processor's cache
        if x is not y:
            np.copyto(made, given)
        if less.any():
            np.subtract(made, less, out=made)
        if (times != 1).any():
            np.multiply(made, times, out=made)
