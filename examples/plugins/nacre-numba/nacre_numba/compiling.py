"""How functions are compiled: when they are first called, for the types that they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

PLAIN: set[str] = set()
"""Nothing is computed in another order than it is written."""

SUMS = {"reassoc", "contract", "nsz"}
"""Sums may be added in any order, so that they use wide registers; what is NaN or infinite stays so."""


def compiled(fastmath: set[str]) -> Callable[[Callable[..., Any]], Any]:
    """Return what compiles a function; the next process finds it in a cache, if there is a folder for one."""

    def compile_it(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, nogil=True, fastmath=fastmath, error_model="numpy")(function)
        except RuntimeError:  # neither the folder of this package nor one of the user's can be written
            return numba.njit(nogil=True, fastmath=fastmath, error_model="numpy")(function)

    return compile_it
