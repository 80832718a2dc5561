"""The helper, where it was compiled: see helper.c and the C files beside it, and hatch_build.py which compiles them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from nacre import NacreError

from ..dnnl.library import OPENMP, find, library

VERSION = 9
PRIMITIVE, UPDATE, DECAY, LOSS, LOSS_GRADIENT, DROPOUT, DROPOUT_GRADIENT = range(7)
PACK, DIRECT_FILTERS, DIRECT, DIRECT_WEIGHTS, WINOGRAD_FILTERS, WINOGRAD, WINOGRAD_WEIGHTS = range(7, 14)
SMALL_BATCH, SMALL_BATCH_DATA, SMALL_BATCH_WEIGHTS = range(14, 17)
RECTIFY, GATE, ADD, SOFTMAX, SOFTMAX_GRADIENT, POOLING, POOLING_GRADIENT, LRN, LRN_GRADIENT = range(17, 26)
FUNCTION, FUNCTION_GRADIENT, BATCH_NORM, BATCH_NORM_GRADIENT = range(26, 30)
AVX2, AVX512 = 1, 2
"""Instructions that the helper may use."""


NARROW_PLACE = 15
"""Of the numbers of operations from RECTIFY on: whether blobs are of bf16."""


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


def operation(
    kind: int, pointers: Sequence[int | None], numbers: Sequence[int], values: Sequence[float] = (), workers: int = 0
) -> Operation:
    """Return an operation.

    Raises:
        NacreError: a number does not fit into the 64 bits that it has.
    """
    for number in numbers:
        if not -(1 << 63) <= number < 1 << 63:
            raise NacreError(f"a size of {number} is more than a processor can count")
    return Operation(kind, tuple(pointers), tuple(numbers), tuple(values), workers)


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
    """Return the helper's library, or None where there is none. Python's other threads run during its calls."""
    path = Path(__file__).with_name("_helper.so")
    try:
        found = ctypes.CDLL(str(path))
        for function in (found.nacre_helper_version, found.nacre_run, found.nacre_use):
            function.restype = ctypes.c_int64
    except (OSError, AttributeError):
        return None
    if found.nacre_helper_version() != VERSION:
        return None
    found.nacre_use(ctypes.c_int64(most_instructions()))
    return found


def most_instructions() -> int:
    """Return the helper's number of the instructions that oneDNN uses, which ONEDNN_MAX_CPU_ISA may keep to fewer."""
    here, _ = find()
    if here is None:
        return 0
    return AVX512 if here.wide else AVX2 * (here.instructions == "AVX2")


@cache
def has_avx512() -> bool:
    """Return whether there is a helper, and it may use what direct.c needs."""
    native = helper()
    return native is not None and native.nacre_use(ctypes.c_int64(most_instructions())) == AVX512


def machine(threads: int) -> Machine:
    """Tell the helper what to call."""
    here = library()
    team = [here.address(name) for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")]
    if here.runtime != OPENMP or not all(team):
        team, threads = [0, 0, 0], 1
    return Machine(here.address("dnnl_primitive_execute"), here.stream, *team, threads)
