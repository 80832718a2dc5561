"""Operations of the helper that run together, on threads that are woken once: see threads.c."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from helper_calls import assert_same_bits, run
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import Call, HelperCall
from nacre_onednn.helper import native
from nacre_onednn.helper.native import Operation, machine, operation
from nacre_onednn.helper.product import PanelProduct

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if not native.lanes():
    pytest.skip("no helper was compiled, or the processor has no AVX2", allow_module_level=True)

MANY, FEW = 1 << 17, 64
"""Numbers that threads share, and that one thread does alone."""


def together(operations: list[Operation], threads: int) -> list[int]:
    """Return how many operations run together from each on."""
    library, made = native.helper(), (Operation * len(operations))(*operations)
    library.nacre_prepare(ctypes.byref(machine(threads)), made, ctypes.c_int64(len(made)))
    return [one.together for one in made]


def test_operations_in_a_row_that_share_out_work_run_together() -> None:
    shared, alone = (operation("rectify", {"size": size}) for size in (MANY, FEW))
    other = operation("norm_gradient", {})  # which adds up what the threads have found
    assert together([alone, shared, alone, shared, alone, other, shared, other], 2) == [0, 3, 0, 0, 0, 0, 0, 0]
    assert together([shared, shared], 2) == [2, 0]
    assert together([shared, alone, alone], 2) == [0, 0, 0]
    assert together([alone] * 3, 2) == [0] * 3
    assert together([shared, shared], 1) == [0, 0]
    assert together([], 2) == []


def test_one_operation_that_shares_out_work_twice_wakes_its_threads_once() -> None:
    twice = operation("direct_weights", {"images": 4096, "filters": 64, "rows": 3, "channels": 1, "columns": 3})
    assert together([operation("rectify", {"size": FEW}), twice], 2) == [0, 1]


@pytest.mark.parametrize("rows", [4, 400])
def test_each_operation_reads_what_all_threads_wrote_before(rows: int) -> None:
    """Products, sums that threads share, and those that one does alone; each reads the results of others."""
    size, random = 96, np.random.default_rng(0)
    ours = PanelProduct(rows, size, size, keeps=False)
    calls: list[Call] = []
    for _ in range(40):
        for source, target in (("x", "y"), ("y", "x")):
            calls += ours.forward(source, "weight", "", target)
            ends = dict.fromkeys(("one", "other", "y"), (target, 4 * rows * size))
            calls.append(HelperCall(ends, "add", {"size": rows * size, "relu": False}))
    weight = np.linalg.qr(random.normal(size=(size, size)))[0].astype(np.float32) / 2  # the sum doubles what is halved
    x = random.normal(size=(rows, size)).astype(np.float32)
    found: list[dict[str, Any]] = []
    for threads in (1, 2, 3, 2, 3):
        given = {"x": x.copy(), "y": np.zeros_like(x)}
        run(calls, {**given, "weight": weight}, threads)
        found.append(given)
    assert_same_bits(found)
    expected = x.astype(np.float64)
    for _ in range(80):
        expected = 2 * expected @ weight.T.astype(np.float64)
    assert np.allclose(found[0]["x"], expected, atol=1e-3)
