"""Checks of numbers that come in another type than the one they are stored in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import DataError

MOST = 2**63

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


def copy_numbers(given: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> int | None:
    """Copy numbers into an array of any type; return the flat index of the first one too large for it, or None.

    That is a finite number which becomes infinite; infinities that are given are none.
    """
    import numpy as np

    try:
        with np.errstate(over="raise"):
            np.copyto(out, given, casting="unsafe")
    except FloatingPointError:
        with np.errstate(over="ignore"):
            np.copyto(out, given, casting="unsafe")
        large = np.isfinite(given) & ~np.isfinite(out)
        return int(large.argmax()) if large.any() else None
    return None


def too_large(who: str, dtype: object) -> DataError:
    """Return the error for records or arrays with a number too large for their type; `who` begins the message."""
    return DataError(
        f"{who} has a number too large for {dtype}", "scale the numbers, such as (x - x.mean(0)) / x.std(0)"
    )


def count_in(memory: Mapping[str, Any], key: str) -> int:
    """Return a count that a state has put into a snapshot: a whole number, 0 or more; else raise a ValueError."""
    count = memory[key]
    if count != int(count) or not 0 <= count < MOST:
        raise ValueError(f"{key}={count!r}, but it must be a whole number, 0 or more")
    return int(count)


def number_text(number: Any) -> str:
    """Return a number as text: a whole one with all its digits, whatever its type."""
    return str(int(number)) if number.dtype.kind in "biu" else f"{float(number):g}"
