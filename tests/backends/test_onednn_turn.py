"""The helper's copies of matrices whose rows become columns, turn.c, and which transposes are such copies."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helper_calls import run
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import CHANNELS_LAST, PLAIN, HelperCall, describe, plain, reorder
from nacre_onednn.helper.native import helper
from nacre_onednn.kernels.transpose import Turned

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if helper() is None:
    pytest.skip("no helper was compiled", allow_module_level=True)


@given(
    matrices=st.integers(1, 3),
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    narrow=st.booleans(),
    threads=st.integers(1, 3),
)
@example(matrices=2, rows=64, columns=128, narrow=False, threads=2)
@example(matrices=1, rows=33, columns=1024, narrow=True, threads=2)
@example(matrices=2, rows=3, columns=2500, narrow=False, threads=2)
@example(matrices=2, rows=2500, columns=4, narrow=True, threads=3)
def test_rows_become_columns(matrices: int, rows: int, columns: int, narrow: bool, threads: int) -> None:
    dtype = np.uint16 if narrow else np.uint32
    bits = np.random.default_rng(rows + columns).integers(0, np.iinfo(dtype).max, (matrices, rows, columns), dtype)
    turned = np.zeros((matrices, columns, rows), dtype)
    buffers = {"x": ("x", bits.nbytes), "y": ("y", bits.nbytes)}
    numbers = {"matrices": matrices, "rows": rows, "columns": columns, "narrow": narrow}
    run([HelperCall(buffers, "turn", numbers)], {"x": bits, "y": turned}, threads)
    assert np.array_equal(turned, bits.transpose(0, 2, 1))


SHAPES = [(2, 3, 5), (2, 3, 5, 4), (2, 20, 3, 7), (2, 17, 2, 3, 4), (3, 1, 4, 4), (2, 5, 1, 1)]


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_images_get_their_channels_last_and_back(shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(0).integers(0x80, 0x7F80, shape, np.uint16)  # oneDNN's own copies may change denormals
    if dtype == "float32":
        x = x.astype(np.uint32) << 16
    last, back = np.zeros((shape[0], *shape[2:], shape[1]), x.dtype), np.zeros_like(x)
    before, after = (describe(shape, layout, dtype) for layout in (PLAIN, CHANNELS_LAST))
    calls = [*reorder("x", before, "y", after), *reorder("y", after, "z", before)]
    run(calls, {"x": x, "y": last, "z": back}, 2)
    assert np.array_equal(last, np.moveaxis(x, 1, -1))
    assert np.array_equal(back, x)


@given(shape=st.lists(st.integers(1, 3), min_size=1, max_size=5), random=st.randoms(use_true_random=False))
@example(shape=[2, 3, 4], random=None)
def test_a_transpose_turns_matrices(shape: list[int], random) -> None:
    order = list(range(len(shape)))
    order[1:] = order[:0:-1]
    if random is not None:
        random.shuffle(order)
    x = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    y, copy = x.transpose(order).ravel(), np.zeros(x.size, np.float32)
    after = Turned(plain(*(shape[axis] for axis in order)), order)
    (call,) = reorder("x", plain(*shape), "y", after)
    run([call], {"x": x, "y": copy}, 1)
    assert np.array_equal(copy, y)
    parts = [part for part in range(1, x.size + 1) if x.size % part == 0]
    splits = [(a, b, x.size // a // b) for a in parts for b in parts if x.size % (a * b) == 0]
    turned = [split for split in splits if np.array_equal(x.reshape(split).transpose(0, 2, 1).ravel(), y)]
    if isinstance(call, HelperCall):
        assert tuple(call.numbers[name] for name in ("matrices", "rows", "columns")) in turned
    else:
        assert not turned or np.array_equal(y, x.ravel())  # nothing is turned
