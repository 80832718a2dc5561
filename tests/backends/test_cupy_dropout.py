"""The cupy backend's dropout, on the processor: its masks are those of `nacre.random`, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuda_bench import check
from cuda_on_host import missing
from nacre.random import Random
from nacre_cupy.kernels.chain import ChainKernel
from nacre_cupy.kernels.dropout import DropoutKernel
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.random_mask import RandomMaskLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]


class InChain(ChainKernel):
    """Dropout as the only link of a chain."""

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        return DropoutKernel.supports(layer, inputs)

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        links = DropoutKernel(layer, backend, inputs, diffs).links(0)
        assert links, "images are in no chain"
        super().__init__(layer, backend, inputs, diffs, links=links)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (3, 7), (5, 16, 33), (17, 1000)])
def test_dropout_in_a_chain(shape: tuple[int, ...], dtype: str) -> None:
    x = 1 + np.arange(np.prod(shape), dtype=np.float64).reshape(shape) % 100
    for step, ratio, rank in ((0, 0.5, 0), (3, 0.2, 2), (2**40 + 5, 0.0, 1)):
        layer = DropoutLayer(name="drop", bottoms="x", ratio=ratio)
        check(layer, InChain, [x], dtype, step=step, steps=0, close=1e-30, ranks=(rank, 3))
    largest = np.finfo("float64" if dtype == "float64" else "float32").max
    special = np.tile([largest, -largest, np.inf, np.nan], (3, 50))
    layer = DropoutLayer(name="drop", bottoms="x", auto_scale=False)
    check(layer, InChain, [special], dtype, steps=0, close=1e-30, each=True)


def test_images_are_in_no_chain() -> None:
    with pytest.raises(AssertionError, match="no chain"):
        check(DropoutLayer(name="drop", bottoms="x"), InChain, [np.ones((2, 3, 4, 5))], "float32")


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (3, 7), (5, 16, 3, 11), (17, 1000)])
def test_dropout(shape: tuple[int, ...], dtype: str) -> None:
    x = 1 + np.arange(np.prod(shape), dtype=np.float64).reshape(shape) % 100
    for step, ratio in ((0, 0.5), (3, 0.2), (2**40 + 5, 0.0)):
        layer = DropoutLayer(name="drop", bottoms="x", ratio=ratio)
        fast, own = check(layer, DropoutKernel, [x], dtype, step=step, steps=0, close=1e-30)
        assert ratio == 0 or (own.tops[0] == 0).sum() > 0 or x.size < 100
        assert ((fast.tops[0] == 0) == (own.tops[0] == 0)).all()


@pytest.mark.parametrize("dtype", KINDS)
def test_every_bottom_has_its_own_mask(dtype: str) -> None:
    layer = RandomMaskLayer(name="mask", bottoms=("a", "b"), ratio=0.4)
    arrays = [np.ones((4, 50)), np.ones((4, 50))]
    fast, _ = check(layer, DropoutKernel, arrays, dtype, steps=0, close=1e-30, wanted=(1,))
    assert (fast.tops[0] != fast.tops[1]).any()


@pytest.mark.parametrize("dtype", KINDS)
def test_what_is_dropped_stays_what_is_no_number(dtype: str) -> None:
    largest = np.finfo("float64" if dtype == "float64" else "float32").max
    x = np.tile([largest, -largest, np.inf, np.nan], (3, 50))
    layer = DropoutLayer(name="drop", bottoms="x", ratio=0.5, auto_scale=False)
    check(layer, DropoutKernel, [x], dtype, steps=0, close=1e-30, each=True)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 16), (5, 3, 11)])
def test_each_rank_has_the_mask_of_its_rows(shape: tuple[int, ...]) -> None:
    layer = DropoutLayer(name="drop", bottoms="x", ratio=0.5)
    for rank in range(3):
        check(layer, DropoutKernel, [np.ones(shape)], "float32", steps=0, close=1e-30, ranks=(rank, 3))


def test_a_number_that_is_the_ratio_stays() -> None:
    uniform = np.empty((4, 25), np.float32)
    Random(7, "drop", lambda: 3).uniform(uniform)
    layer = DropoutLayer(name="drop", bottoms="x", ratio=float(uniform[2, 3]))
    fast, _ = check(layer, DropoutKernel, [np.ones((4, 25))], "float32", steps=0, close=1e-30)
    assert fast.tops[0][2, 3] > 0
