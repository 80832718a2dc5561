"""The helper's passes in bf16, which need no processor that has it, beside float32; and on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helper_calls import assert_same_bits, run
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import HelperCall, of_type
from nacre_onednn.helper import native

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if native.helper() is None:
    pytest.skip("no helper was compiled", allow_module_level=True)

SIZES = (3, 24, 9, 11)
SIZE = int(np.prod(SIZES))
WORKERS = 3


def narrowed(numbers: Any) -> Any:
    """Return numbers in bf16, rounded to the nearest, of two to the even one."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(numbers), 0x7FC0, rounded).astype(np.uint16)


def widened(numbers: Any) -> Any:
    return (numbers.astype(np.uint32) << 16).view(np.float32)


def pooled(side: int, winners: bool) -> dict[str, Any]:
    """Describe a max pooling of windows of 3 x 2 with steps of 2 x 1 and a border of 1 x 0."""
    out = (5, 10)
    numbers = (3 * 24 // side, 9, 11, side, *out, 3, 2, 2, 1, 1, 0, 1, int(winners))
    return {"numbers": numbers, "top": 3 * 24 * out[0] * out[1]}


LRN = (*SIZES, 24, 2, 2, 0), (*SIZES, 8, 2, 1, 0), (*SIZES, 24, 1, 1, 1), (*SIZES, 8, 1, 2, 1)
OPERATIONS: list[tuple[str, int, tuple[int, ...], tuple[str, ...], str, tuple[float, ...]]] = [
    ("ReLU", native.RECTIFY, (SIZE,), ("x", "out"), "out", ()),
    ("its gradient", native.GATE, (SIZE,), ("x", "dy", "out"), "out", ()),
    ("a sum", native.ADD, (SIZE, 0), ("x", "dy", "out"), "out", ()),
    ("a sum with ReLU", native.ADD, (SIZE, 1), ("x", "dy", "out"), "out", ()),
    ("softmax", native.SOFTMAX, (SIZE // 11, 11), ("x", "out"), "out", ()),
    ("its gradient", native.SOFTMAX_GRADIENT, (SIZE // 11, 11), ("x", "dy", "out"), "out", ()),
    *(("LRN", native.LRN, numbers, ("x", "out"), "lrn", (0.3, 1.5, 0.75)) for numbers in LRN),
    *(("LRN", native.LRN, numbers, ("x", "out"), "lrn", (0.3, 1.5, 0.6)) for numbers in LRN[:1]),
    *(("its gradient", native.LRN_GRADIENT, numbers, ("x", "dy", "out"), "lrn", (0.3, 1.5, 0.75)) for numbers in LRN),
]


def result(
    kind: int, numbers: tuple[int, ...], names: tuple[str, ...], scratch: str, values: tuple[float, ...],
    narrow: bool, threads: int, torn: bool,
) -> Any:  # fmt: skip
    """Run an operation; give what it writes."""
    generator = np.random.default_rng(8)
    buffers: dict[str, Any] = {}
    for name in ("x", "dy"):
        one = widened(narrowed(generator.normal(size=SIZE)))
        if torn:
            one[generator.choice(SIZE, 9, replace=False)] = np.nan
        buffers[name] = narrowed(one) if narrow else one
    buffers["out"] = np.zeros(SIZE, np.uint16 if narrow else np.float32)
    sizes = {name: buffers[name].nbytes for name in names}
    more = {} if scratch == "out" else {scratch: 4 * (2 * SIZE + 1000) * WORKERS}
    call = HelperCall({**sizes, **more}, kind, of_type(narrow, *numbers), WORKERS if more else 0, values)
    run([call], {name: buffers[name] for name in names}, threads)
    return widened(buffers["out"]) if narrow else buffers["out"]


@pytest.mark.parametrize("torn", [False, True], ids=["numbers", "with NaN"])
@pytest.mark.parametrize(("name", "kind", "numbers", "names", "scratch", "values"), OPERATIONS)
def test_bf16_is_float32_but_for_rounding(
    name: str, kind: int, numbers: tuple[int, ...], names: tuple[str, ...], scratch: str, values: tuple[float, ...],
    torn: bool,
) -> None:  # fmt: skip
    wide, narrow = (result(kind, numbers, names, scratch, values, one, 1, torn) for one in (False, True))
    assert np.isnan(wide).any() == torn
    np.testing.assert_array_equal(narrow, widened(narrowed(wide)), err_msg=name)
    assert_same_bits([{"out": result(kind, numbers, names, scratch, values, True, n, torn)} for n in (1, WORKERS)])


@pytest.mark.parametrize("torn", [False, True], ids=["numbers", "with NaN"])
@pytest.mark.parametrize("side", [1, 4, 8, 12, 24])
def test_max_pooling_in_bf16(side: int, torn: bool) -> None:
    generator = np.random.default_rng(9)
    found = []
    for narrow, bytes_, threads in ((False, True, 1), (True, True, 1), (True, False, WORKERS)):
        shape = pooled(side, bytes_)
        generator = np.random.default_rng(9)
        x, dy = (widened(narrowed(generator.normal(size=size))) for size in (SIZE, shape["top"]))
        if torn:
            x[generator.choice(SIZE, 5, replace=False)] = np.nan
            dy[generator.choice(shape["top"], 5, replace=False)] = np.nan
        kind = np.uint16 if narrow else np.float32
        buffers = {
            "x": narrowed(x) if narrow else x,
            "y": np.zeros(shape["top"], kind),
            "Winners": np.zeros(shape["top"], np.uint8 if bytes_ else np.int32),
            "dy": narrowed(dy) if narrow else dy,
            "dx": np.zeros(SIZE, kind),
            "row": np.zeros(11 * side * WORKERS, np.float32),
        }
        sizes = {name: one.nbytes for name, one in buffers.items()}
        numbers = of_type(narrow, *shape["numbers"])
        forward = HelperCall({name: sizes[name] for name in ("x", "y", "Winners")}, native.POOLING, numbers)
        ends = {name: sizes[name] for name in ("dy", "dx", "Winners", "row")}
        run([forward, HelperCall(ends, native.POOLING_GRADIENT, numbers, WORKERS)], buffers, threads)
        y, dx = (widened(buffers[name]) if narrow else buffers[name] for name in ("y", "dx"))
        found.append((y, narrowed(dx), buffers["Winners"].astype(np.int32)))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)
    assert np.isnan(found[0][0]).any() == torn
