"""Checks of whole numbers that come in another type than the one they are stored in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def misfit(given: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> int | None:
    """Return the flat index of the first number that a type of whole numbers or booleans cannot hold, or None.

    NumPy would convert it without an error: 2^63 to a negative number, 1e30 and NaN to anything.
    """
    import numpy as np

    if dtype.kind not in "biu" or np.can_cast(given.dtype, dtype):
        return None
    lowest, highest = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if given.dtype.kind == "f":
        numbers = given.astype(np.float64)  # holds the power of two above `highest` exactly, but not `highest`
        right = (numbers >= lowest) & (numbers < float(highest + 1)) & (np.floor(numbers) == numbers)
    else:
        right = (given >= lowest) & (given <= highest)
    return None if right.all() else int(np.argmin(right))


def number_text(number: Any) -> str:
    """Return a number as text: a whole one with all its digits, whatever its type."""
    return str(int(number)) if number.dtype.kind in "biu" else f"{float(number):g}"
