"""The helper's passes in bf16, which need no processor that has it, beside float32; and on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulated_bf16 import widened
from helper_calls import assert_same_bits, run
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import HelperCall
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


def pooled(side: int, winners: bool) -> dict[str, Any]:
    """Describe a max pooling of windows of 3 x 2 with steps of 2 x 1 and a border of 1 x 0."""
    image = {"planes": 3 * 24 // side, "rows": 9, "columns": 11, "side": side, "out_rows": 5, "out_columns": 10}
    windows = {"down": 3, "right": 2, "step_down": 2, "step_right": 1, "above": 1, "beside": 0}
    return {"numbers": {**image, **windows, "relu": 0, "bytes": winners}, "top": 3 * 24 * 5 * 10}


IMAGES = dict(zip(("images", "channels", "rows", "columns"), SIZES, strict=True))
SCORES = {"images": SIZE // 11, "classes": 11}


def lrn(side: int, down: int, up: int, within: int, power: float = 0.75) -> dict[str, Any]:
    windows = {"down": down, "up": up, "within": within, "scale": 0.3, "shift": 1.5, "power": power}
    return {**IMAGES, "side": side, **windows}


WINDOWS = lrn(24, 2, 2, 0), lrn(8, 2, 1, 0), lrn(24, 1, 1, 1), lrn(8, 1, 2, 1)
OPERATIONS: list[tuple[str, str, dict[str, Any], dict[str, str]]] = [
    ("ReLU", "rectify", {"size": SIZE}, {"x": "x", "y": "out"}),
    ("its gradient", "gate", {"size": SIZE}, {"y": "x", "dy": "dy", "dx": "out"}),
    ("it twice", "gate", {"size": SIZE}, {"y": "x", "dy": "dy", "dx": "scratch", "also": "out"}),
    ("a copy to two places", "gate", {"size": SIZE}, {"dy": "x", "dx": "scratch", "also": "out"}),
    ("a sum", "add", {"size": SIZE, "relu": 0}, {"one": "x", "other": "dy", "y": "out"}),
    ("a sum with ReLU", "add", {"size": SIZE, "relu": 1}, {"one": "x", "other": "dy", "y": "out"}),
    ("softmax", "softmax", SCORES, {"x": "x", "y": "out"}),
    ("its gradient", "softmax_gradient", SCORES, {"y": "x", "dy": "dy", "dx": "out"}),
    *(("LRN", "lrn", numbers, {"x": "x", "y": "out", "scratch": "scratch"}) for numbers in WINDOWS),
    ("LRN", "lrn", lrn(24, 2, 2, 0, 0.6), {"x": "x", "y": "out", "scratch": "scratch"}),
    *(
        ("its gradient", "lrn_gradient", numbers, {"x": "x", "dy": "dy", "dx": "out", "scratch": "scratch"})
        for numbers in WINDOWS
    ),
]


def result(kind: str, numbers: dict[str, Any], operands: dict[str, str], narrow: bool, threads: int, torn: bool) -> Any:
    """Run an operation; return what it writes."""
    generator = np.random.default_rng(8)
    buffers: dict[str, Any] = {}
    for name in ("x", "dy"):
        one = widened(narrowed(generator.normal(size=SIZE)))
        if torn:
            one[generator.choice(SIZE, 9, replace=False)] = np.nan
        buffers[name] = narrowed(one) if narrow else one
    buffers["out"] = np.zeros(SIZE, np.uint16 if narrow else np.float32)
    sizes = {name: one.nbytes for name, one in buffers.items()} | {"scratch": 4 * (2 * SIZE + 1000) * WORKERS}
    given = {operand: (name, sizes[name]) for operand, name in operands.items()}
    call = HelperCall(given, kind, {**numbers, "narrow": narrow}, WORKERS if "scratch" in operands else 0)
    run([call], {name: one for name, one in buffers.items() if name in operands.values()}, threads)
    return widened(buffers["out"]) if narrow else buffers["out"]


@pytest.mark.parametrize("torn", [False, True], ids=["numbers", "with NaN"])
@pytest.mark.parametrize(("name", "kind", "numbers", "operands"), OPERATIONS)
def test_bf16_is_float32_but_for_rounding(
    name: str, kind: str, numbers: dict[str, Any], operands: dict[str, str], torn: bool
) -> None:
    wide, narrow = (result(kind, numbers, operands, one, 1, torn) for one in (False, True))
    assert np.isnan(wide).any() == torn
    np.testing.assert_array_equal(narrow, widened(narrowed(wide)), err_msg=name)
    assert_same_bits([{"out": result(kind, numbers, operands, True, n, torn)} for n in (1, WORKERS)])


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
            "scratch": np.zeros(11 * side * WORKERS, np.float32),
        }
        sizes = {name: (name, one.nbytes) for name, one in buffers.items()}
        winners = {"winners": sizes["Winners"]}
        numbers = {**shape["numbers"], "narrow": narrow}
        forward = HelperCall({"x": sizes["x"], "y": sizes["y"], **winners}, "pooling", numbers)
        ends = {name: sizes[name] for name in ("dy", "dx", "scratch")}
        run([forward, HelperCall({**ends, **winners}, "pooling_gradient", numbers, WORKERS)], buffers, threads)
        y, dx = (widened(buffers[name]) if narrow else buffers[name] for name in ("y", "dx"))
        found.append((y, narrowed(dx), buffers["Winners"].astype(np.int32)))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)
    assert np.isnan(found[0][0]).any() == torn


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("planes", "pixels", "side"), [(3, 1, 16), (2, 33, 40), (1, 100, 1280), (5, 3000, 20)])
def test_the_mean_of_all_pixels(planes: int, pixels: int, side: int, *, narrow: bool) -> None:
    x = widened(narrowed(np.random.default_rng(0).normal(1, size=(planes, pixels, side))))
    x[0, 0, 1], x[-1, -1, 2] = np.nan, np.inf
    expected = x.astype(np.float64).mean(1)
    found: list[dict[str, Any]] = []
    for threads in (1, 2, 3, 5):
        buffers = {
            "x": narrowed(x) if narrow else x,
            "y": np.full((planes, side), 7, np.uint16 if narrow else np.float32),
        }
        numbers = {"planes": planes, "pixels": pixels, "side": side, "narrow": narrow}
        run(
            [HelperCall({name: (name, one.nbytes) for name, one in buffers.items()}, "mean", numbers)], buffers, threads
        )
        found.append({"y": buffers["y"]})
    assert_same_bits(found)
    y = widened(found[0]["y"]) if narrow else found[0]["y"]
    np.testing.assert_allclose(y, expected, rtol=2**-8 if narrow else 2e-7, atol=1e-6)
