"""The gradient of the onednn backend's max pooling where windows do not overlap, cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helper_calls import run
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import HelperCall
from nacre_onednn.helper.native import helper

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if helper() is None:
    pytest.skip("no helper was compiled", allow_module_level=True)


@st.composite
def axes(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """Draw an axis: its length, the kernel, stride and padding, and the number of windows. The last may hang over."""
    kernel = draw(st.integers(1, 4) | st.just(20))
    stride = kernel + draw(st.integers(0, 2))
    pad = draw(st.integers(0, kernel - 1))
    count = draw(st.integers(1, 4))
    last = (count - 1) * stride - pad  # where the last window begins
    length = max(1, last + draw(st.integers(1, kernel + 2)))
    return length, kernel, stride, pad, count


@given(axes(), axes(), st.integers(1, 2), st.integers(1, 41), st.booleans(), st.integers(0, 999))
def test_each_cell_gets_what_its_window_gives(
    down: Any, across: Any, planes: int, side: int, narrow: bool, seed: int
) -> None:
    (rows, kernel_down, step_down, above, out_rows), (columns, kernel_right, step_right, beside, out_columns) = (
        down,
        across,
    )
    in_bytes = kernel_down * kernel_right <= 256
    random = np.random.default_rng(seed)
    shape = planes, out_rows, out_columns, side
    winners = random.integers(0, kernel_down * kernel_right, shape).astype(np.uint8 if in_bytes else np.int32)
    dy = random.integers(-9, 10, shape).astype(np.float32)  # bf16 has these numbers, too
    expected = np.zeros((planes, rows, columns, side), np.float32)
    for plane, i, j, one in np.ndindex(shape):
        row, column = divmod(int(winners[plane, i, j, one]), kernel_right)
        y, x = i * step_down - above + row, j * step_right - beside + column
        if 0 <= y < rows and 0 <= x < columns:
            expected[plane, y, x, one] = dy[plane, i, j, one]
    given_dy = (dy.view(np.uint32) >> 16).astype(np.uint16) if narrow else dy
    dx = np.full(expected.shape, 7, given_dy.dtype)
    numbers = {
        "planes": planes, "rows": rows, "columns": columns, "side": side,
        "out_rows": out_rows, "out_columns": out_columns,
        "down": kernel_down, "right": kernel_right, "step_down": step_down, "step_right": step_right,
        "above": above, "beside": beside, "relu": False, "bytes": in_bytes, "narrow": narrow,
    }  # fmt: skip
    sizes = {"dy": given_dy.nbytes, "dx": dx.nbytes, "winners": winners.nbytes, "scratch": 4 * side * columns * 2}
    buffers = {name: (name, size) for name, size in sizes.items()}
    run([HelperCall(buffers, "pooling_gradient", numbers, 2)], {"dy": given_dy, "dx": dx, "winners": winners}, 2)
    found = (dx.astype(np.uint32) << 16).view(np.float32) if narrow else dx
    np.testing.assert_array_equal(found, expected)
