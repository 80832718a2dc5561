"""The helper, where it was compiled: see helper.c, lanes.c and winograd.c, and hatch_build.py which compiles them."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from .library import OPENMP, library

VERSION = 7
PRIMITIVE, UPDATE, DECAY, LOSS, LOSS_GRADIENT, DROPOUT, DROPOUT_GRADIENT = range(7)
PACK, TURN, CONVOLVE, CONVOLVE_WEIGHTS, FILTERS, WINOGRAD, WINOGRAD_WEIGHTS = range(7, 14)
SKINNY, SKINNY_DATA, SKINNY_WEIGHTS = range(14, 17)
LABELS = {"float32": 0, "float64": 1, "int32": 2, "int64": 3, "uint8": 4}
MISSING = "needs the native helper, which was not compiled when nacre was built"


class Operation(ctypes.Structure):
    """What is done next; the kinds say what the fields mean."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("pointers", ctypes.c_void_p * 8),
        ("numbers", ctypes.c_int64 * 16),
        ("values", ctypes.c_double * 4),
        ("workers", ctypes.c_int64),
    )


class Machine(ctypes.Structure):
    """The functions of oneDNN and of its OpenMP that the helper calls."""

    _fields_ = (
        ("execute", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("parallel", ctypes.c_void_p),
        ("thread", ctypes.c_void_p),
        ("team", ctypes.c_void_p),
        ("threads", ctypes.c_int64),
    )


@cache
def helper() -> Any:
    """Give the helper's library, or None where there is none. Python's other threads run during its calls."""
    path = Path(__file__).with_name("_helper.so")
    try:
        found = ctypes.CDLL(str(path))
        for function in (found.nacre_helper_version, found.nacre_run, found.nacre_has_lanes):
            function.restype = ctypes.c_int64
        return found if found.nacre_helper_version() == VERSION else None
    except (OSError, AttributeError):
        return None


@cache
def has_lanes() -> bool:
    """Say whether there is a helper, and the processor has what lanes.c needs."""
    native = helper()
    return native is not None and bool(native.nacre_has_lanes())


def machine(threads: int) -> Machine:
    """Tell the helper what to call."""
    here = library()
    team = [here.address(name) for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")]
    if here.runtime != OPENMP or not all(team):
        team, threads = [0, 0, 0], 1
    return Machine(here.address("dnnl_primitive_execute"), here.stream, *team, threads)
