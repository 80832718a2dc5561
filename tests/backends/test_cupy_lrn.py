"""The cupy backend's kernels of LRN, on the processor, against the layer's own state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_bench import check
from cuda_on_host import missing
from nacre import Own
from nacre_cupy.kernels.lrn import LRNKernel
from nacre_layers.normalisation.lrn import LRNLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]
CASES: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"kernel": 5, "scale": 0.5}, (2, 16, 11, 12)),
    ({"kernel": 4, "scale": 2.0, "power": 0.6, "shift": 2.0}, (3, 7, 5, 3)),
    ({"kernel": 4, "scale": 2.0}, (2, 32, 9, 5)),  # channels that are last in memory are read in vectors
    ({"kernel": 16, "scale": 0.5}, (2, 32, 3, 2)),  # and some windows reach further
    ({"kernel": 9}, (1, 3, 2, 4)),  # a window longer than the axis
    ({"kernel": 3, "mode": "within"}, (2, 8, 9, 10)),
    ({"kernel": 4, "mode": "within", "scale": 0.1}, (2, 3, 7, 5)),
    ({"kernel": 1}, (1, 1, 1, 1)),
    ({"kernel": 3, "axis": -1}, (4, 6, 35)),
    ({"kernel": 3, "mode": "within"}, (2, 3, 9)),
    ({"kernel": 3, "power": 0.0}, (2, 5)),
]


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels-last"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("fields", "shape"), CASES)
def test_lrn(fields: dict[str, Any], shape: tuple[int, ...], dtype: str, last: bool) -> None:
    layer = LRNLayer(name="lrn", bottoms="x", tops="y", **fields)
    x = np.random.default_rng(0).normal(size=shape)
    check(layer, LRNKernel, [x], dtype, last=last)
    check(layer, LRNKernel, [x], dtype, last=last, wanted=())


@pytest.mark.parametrize("dtype", KINDS)
def test_numbers_that_are_not_ordinary(dtype: str) -> None:
    largest = np.finfo("float64" if dtype == "float64" else "float32").max
    x = np.random.default_rng(1).choice([-largest, 1.0, 1e-30, 0.0, 2.0, 3.0, 4.0, np.inf, np.nan], (2, 8, 9, 9))
    for mode in ("across", "within"):
        layer = LRNLayer(name="lrn", bottoms="x", tops="y", kernel=3, mode=mode)
        for last in (False, True):
            check(layer, LRNKernel, [x], dtype, last=last, wanted=(), each=True)


def test_declines() -> None:
    layer = LRNLayer(name="lrn", bottoms="x", tops="y", mode="within")
    assert LRNKernel.supports(layer, [Own((2, 3, 4, 5, 6), "float32")])
    assert LRNKernel.supports(layer, [Own((2, 3, 4, 5), "int64")])
    assert LRNKernel.supports(layer, [Own((2, 3, 4, 5), "float32")]) is None
