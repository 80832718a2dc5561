"""The cupy backend's kernels of pooling, on the processor, against the layers' own states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_bench import check
from cuda_on_host import missing
from nacre import Own
from nacre_cupy.kernels.pooling import ChannelPoolingKernel, PoolingKernel
from nacre_layers.pooling.channel_pooling import ChannelPoolingLayer
from nacre_layers.pooling.functions import Max, Mean, Stochastic
from nacre_layers.pooling.pooling import PoolingLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]
CASES: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"kernel": 2, "stride": 2}, (3, 8, 24, 24)),  # several blocks, whole vectors
    ({"kernel": 3, "stride": 2}, (2, 5, 13, 11)),  # overlap, overhang, and nothing divides anything
    ({"kernel": 3, "stride": 1, "pad": 1}, (1, 16, 7, 6)),
    ({"kernel": (3, 2), "stride": (1, 3), "pad": (2, 0), "rounding": "floor"}, (2, 3, 9, 10)),
    ({"kernel": 2, "stride": 3}, (2, 4, 8, 8)),  # pixels that no window has
    ({"whole": True}, (2, 8, 17, 16)),  # windows of more than 256 cells
    ({"kernel": 1}, (1, 1, 1, 1)),
    ({"kernel": 3, "stride": 2, "axes": (2,)}, (2, 4, 9, 5)),
    ({"kernel": 3, "stride": 2, "axes": (3,)}, (2, 4, 5, 9)),
    ({"kernel": 2, "axes": (1,)}, (2, 9, 5, 3)),
    ({"kernel": 3, "stride": 2}, (3, 4, 9)),
    ({"kernel": 2, "stride": 2}, (2, 8, 6, 8, 4)),
    ({"kernel": (3, 2, 3), "stride": (2, 1, 3), "pad": (1, 0, 2)}, (2, 3, 5, 4, 7)),
    ({"kernel": (1, 2, 2), "stride": (1, 2, 2)}, (2, 16, 3, 5, 4)),
    ({"whole": True}, (2, 5, 7, 6, 7)),
    ({"kernel": 2, "axes": (3, 4)}, (2, 4, 3, 5, 4)),
    ({"kernel": 2, "axes": (2, 3)}, (2, 3, 4, 5, 3)),
]


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def pooling(fields: dict[str, Any], **more: Any) -> PoolingLayer:
    return PoolingLayer(name="pool", **{"bottoms": "x", "tops": "y", **fields, **more})


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels-last"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("fields", "shape"), CASES)
def test_max_and_masks(fields: dict[str, Any], shape: tuple[int, ...], dtype: str, last: bool) -> None:
    with_mask = len(shape) < 4 or "axes" not in fields
    layer = pooling(fields, tops=("y", "mask") if with_mask else "y")
    fast, _ = check(layer, PoolingKernel, [numbers(shape)], dtype, last=last)
    assert len(fast.tops) == 1 + with_mask


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels-last"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("fields", "shape"), CASES)
def test_mean(fields: dict[str, Any], shape: tuple[int, ...], dtype: str, last: bool) -> None:
    for divide_by in ("padded", "kernel", "image"):
        check(pooling(fields, pooling=Mean(divide_by=divide_by)), PoolingKernel, [numbers(shape)], dtype, last=last)


@pytest.mark.parametrize("dtype", KINDS)
def test_equal_maxima_and_numbers_that_are_not_ordinary(dtype: str) -> None:
    largest = np.finfo("float64" if dtype == "float64" else "float32").max
    x = np.random.default_rng(1).choice([-largest, -1.0, 0.0, 1.0, largest, np.inf, -np.inf, np.nan], (2, 8, 9, 9))
    for last in (False, True):
        layer = pooling({"kernel": 3, "stride": 2}, tops=("y", "mask"))
        check(layer, PoolingKernel, [x], dtype, last=last, wanted=(), each=True)
        check(pooling({"kernel": 2, "stride": 2}, pooling=Mean()), PoolingKernel, [x], dtype, last=last, each=True)
        check(layer, PoolingKernel, [np.zeros((2, 8, 9, 9))], dtype, last=last)


@pytest.mark.parametrize("dtype", KINDS)
def test_several_bottoms_and_no_rows(dtype: str) -> None:
    layer = pooling({"kernel": 3, "stride": 2}, bottoms=("a", "b"), tops=("c", "d", "e", "f"))
    arrays = [numbers((3, 8, 6, 7)), numbers((2, 5, 4, 4), 1)]
    for wanted in ((0, 1), (1,), ()):
        check(layer, PoolingKernel, arrays, dtype, wanted=wanted, last=True)
    blob = Own((3, 8, 6, 7), "float32")
    assert PoolingKernel.supports(pooling({"pooling": Stochastic()}), [blob])
    assert PoolingKernel.supports(pooling({"axes": (1, 2)}), [blob])
    assert PoolingKernel.supports(pooling({"axes": (2,)}, tops=("y", "mask")), [blob])


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels-last"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_channels(axis: int, dtype: str, last: bool) -> None:
    for fields in ({"kernel": 2, "stride": 2}, {"kernel": 3, "pad": (1, 0)}, {"kernel": 4, "stride": 3, "pad": (0, 3)}):
        for function in (Max(), *(Mean(divide_by=one) for one in ("padded", "kernel", "image"))):
            layer = ChannelPoolingLayer(name="pool", bottoms="x", tops="y", axis=axis, pooling=function, **fields)
            check(layer, ChannelPoolingKernel, [numbers((2, 11, 7, 8))], dtype, last=last)
