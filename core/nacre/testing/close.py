"""Comparing arrays, with errors that show where they differ and by how much."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
"""How much a result may differ from its reference, relative to the number and to the largest in the array."""

GRADIENT_TOLERANCES = {"float64": 1e-6, "float32": 1e-4}
"""The same for gradients: those of float64 against central differences, those of float32 against those of float64."""

KERNEL_TOLERANCES = {"float64": 1e-10, "float32": 1e-5}
"""How much a kernel may differ from the layer's own state: norm of the difference, relative to the norm."""

NARROW_TOLERANCE = 2e-2
"""The same in a narrower type, such as bf16, from the state in float32."""


ZERO = 200
"""How many roundings of a number as large as the largest gradient a gradient may be that should be zero."""


def both_zero(actual: np.ndarray, expected: np.ndarray, gradients: Iterable[np.ndarray]) -> bool:
    """Return whether two gradients are mathematically zero: nothing but roundings beside the other `gradients`.

    Such is that of a bias before a normalisation: its parts are as large as other gradients, and their sum is zero.
    """
    largest = max((float(np.abs(one).max(initial=0, where=np.isfinite(one))) for one in gradients), default=0.0)
    level = ZERO * float(np.finfo(actual.dtype).eps) * max(1.0, largest)
    return bool((np.abs(actual) <= level).all() and (np.abs(expected) <= level).all())


def assert_close(actual: Any, expected: Any, what: str = "array", tolerance: float | None = None) -> None:
    """Check every number of an array; NaN equals NaN, and infinities equal those of their sign.

    A difference of `tolerance` times (the number + the largest finite number of the array) is allowed; by default
    `tolerance` is that of the actual array's type in `TOLERANCES`.

    Raises:
        AssertionError: names the shape, or the index of the worst number, both numbers, and what is allowed.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: the shape is {actual.shape} instead of {expected.shape}"
    if not actual.size:
        return
    if tolerance is None:
        tolerance = TOLERANCES.get(str(actual.dtype), 0.0)
    one, other = actual.astype(np.float64), expected.astype(np.float64)
    size = np.abs(np.where(np.isfinite(other), other, 0))
    allowed = tolerance * (size + size.max())
    with np.errstate(invalid="ignore"):
        off = np.abs(one - other)
    equal = (one == other) | (np.isnan(one) & np.isnan(other))
    off = np.where(equal, 0, np.where(np.isfinite(off), off, np.inf))
    wrong = off > allowed
    if not wrong.any():
        return
    worst = np.unravel_index(int(np.argmax(np.where(wrong, off, -1))), off.shape)
    where = tuple(int(index) for index in worst)
    raise AssertionError(
        f"{what}: {int(wrong.sum())} of {off.size} numbers differ, most at {where}: "
        f"{one[worst]:.9g} instead of {other[worst]:.9g}, off by {off[worst]:.3g}, allowed {allowed[worst]:.3g}"
    )


def assert_near(actual: Any, expected: Any, what: str = "array", tolerance: float | None = None) -> None:
    """Check an array as a whole: the norm of the difference is at most `tolerance` times the norm of `expected`.

    By default `tolerance` is that of the actual array's type in `KERNEL_TOLERANCES`.

    Raises:
        AssertionError: names the shape, or the relative error, and the index of the worst number.
    """
    assert_near_above(0.0, actual, expected, what, tolerance)


def assert_near_above(least: float, actual: Any, expected: Any, what: str, tolerance: float | None = None) -> None:
    """Check an array as `assert_near`, with a norm below `least` counted as that: what is smaller is roundings."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: the shape is {actual.shape} instead of {expected.shape}"
    if tolerance is None:
        tolerance = KERNEL_TOLERANCES.get(str(actual.dtype), 0.0)
    one, other = actual.astype(np.float64), expected.astype(np.float64)
    unlike = np.isfinite(one) != np.isfinite(other)
    finite = np.isfinite(one) & np.isfinite(other)
    off = np.where(finite, one - np.where(finite, other, 0), 0)
    norm = float(np.sqrt(np.sum(np.where(finite, other, 0) ** 2)))
    error = np.inf if unlike.any() else float(np.sqrt(np.sum(off**2))) / (max(norm, least) or 1.0)
    if error <= tolerance:
        return
    worst = np.unravel_index(int(np.argmax(np.where(unlike, np.inf, np.abs(off)))), off.shape)
    where = tuple(int(index) for index in worst)
    raise AssertionError(
        f"{what}: off by {error:.3g} of its norm, allowed {tolerance:.3g}; "
        f"most at {where}: {one[worst]:.9g} instead of {other[worst]:.9g}"
    )
