"""The helper's products of matrices, product.c, against numpy's, and inner products that take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helper_calls import assert_same_bits, run
from nacre import InputLayer, Net
from nacre.testing.close import assert_near
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.helper import native, product
from nacre_onednn.helper.product import DEPTH, TOGETHER, PanelProduct
from nacre_onednn.kernels.products import PANELS, SPLIT

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if not native.lanes():
    pytest.skip("no helper was compiled, or the processor has no AVX2", allow_module_level=True)

MANY = TOGETHER * 12 + 5
"""Rows of more tiles than are worked on at a time."""


def results(
    given: dict[str, Any], threads: int, *, split: bool, bias: bool = True, relu: bool = False, adds: bool = False
) -> dict[str, Any]:
    """Return y, to which dy is added if it `adds`, and the gradients."""
    x, weight, dy = given["x"], given["weight"], given["dy"]
    ours = PanelProduct(len(x), x.shape[1], len(weight), keeps=False, split=split)
    found = {"y": np.full_like(dy, 7), "dweight": np.full_like(weight, 7), "dx": np.full_like(x, 7)}
    found |= {"dbias": np.full_like(given["bias"], 7)} if bias else {}
    calls = [
        *ours.forward("x", "weight", "bias" if bias else "", "y", "dy" if adds else "", relu=relu),
        *ours.weights("x", "dy", "dweight", "dbias" if bias else ""),
        *ours.data("dy", "weight", "dx"),
    ]
    run(calls, {**given, **found}, threads)
    return found


KINDS = [
    pytest.param(False, id="whole"),
    pytest.param(True, id="split", marks=pytest.mark.skipif(not native.has_amx(), reason="the processor has no AMX")),
]


def matrices(rows: int, features: int, outputs: int) -> dict[str, Any]:
    random = np.random.default_rng(rows + features + outputs)
    shapes = {"x": (rows, features), "weight": (outputs, features), "dy": (rows, outputs), "bias": (outputs,)}
    return {name: random.normal(1, size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("split", KINDS)
@settings(max_examples=200)
@given(
    rows=st.integers(1, 40),
    features=st.integers(1, 70),
    outputs=st.integers(1, 70),
    bias=st.booleans(),
    relu=st.booleans(),
    adds=st.booleans(),
)
@example(rows=MANY, features=3, outputs=33, bias=True, relu=True, adds=True)
@example(rows=5, features=DEPTH + 1, outputs=DEPTH + 17, bias=True, relu=True, adds=False)
@example(rows=70, features=2 * DEPTH + 3, outputs=64, bias=True, relu=True, adds=True)
@example(rows=2 * DEPTH + 3, features=17, outputs=2, bias=False, relu=False, adds=True)
@example(rows=4 * DEPTH + 3, features=33, outputs=20, bias=True, relu=False, adds=False)
@example(rows=6 * DEPTH, features=20, outputs=65, bias=False, relu=True, adds=False)
@example(rows=30, features=MANY, outputs=MANY + 9, bias=True, relu=False, adds=True)
@example(rows=3 * MANY, features=128, outputs=100, bias=True, relu=False, adds=False)
@example(rows=2 * MANY, features=256, outputs=96, bias=True, relu=True, adds=True)
@example(rows=4 * DEPTH, features=96, outputs=64, bias=True, relu=False, adds=False)
def test_products_agree_with_numpy(
    rows: int, features: int, outputs: int, *, split: bool, bias: bool, relu: bool, adds: bool
) -> None:
    given = matrices(rows, features, outputs)
    x, weight, dy = (given[name].astype(np.float64) for name in ("x", "weight", "dy"))
    found = results(given, 1, split=split, bias=bias, relu=relu, adds=adds)
    y = x @ weight.T + (given["bias"] if bias else 0) + (dy if adds else 0)
    assert_near(found["y"], np.maximum(y, 0) if relu else y, "y", 1e-6)
    assert_near(found["dweight"], dy.T @ x, "dweight", 1e-6)
    assert_near(found["dx"], dy @ weight, "dx", 1e-6)
    if bias:
        assert_near(found["dbias"], dy.sum(0), "dbias", 1e-6)


@pytest.mark.parametrize("split", KINDS)
@pytest.mark.parametrize(
    ("rows", "outputs"), [(MANY, 37), (9, 160), (20, 100), (1, 33), (8 * DEPTH, 70), (4 * DEPTH + 9, 30)]
)
def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch, rows: int, outputs: int, *, split: bool) -> None:
    """They share rows, also lower tiles of them, or columns, of which some may be a panel alone."""
    monkeypatch.setattr(product, "number_of_threads", lambda: 3)
    given = matrices(rows, 45, outputs)
    # the last has more threads than there is memory for: some stay away
    for adds in (False, True):
        assert_same_bits([results(given, threads, split=split, adds=adds) for threads in (1, 2, 3, 5)])


@pytest.mark.skipif(not native.has_amx(), reason="the processor has no AMX")
@pytest.mark.parametrize("features", [1, 30, 512, 3000])
@pytest.mark.parametrize("scale", [1, 1e-15, 1e15])
def test_split_products_are_as_exact_as_others(features: int, scale: float) -> None:
    given = matrices(64, features, 80)
    given |= {name: np.float32(scale) * given[name] for name in ("x", "dy", "bias")}
    wide = {name: one.astype(np.float64) for name, one in given.items()}
    x, weight, dy = wide["x"], wide["weight"], wide["dy"]
    exact = {"y": x @ weight.T + wide["bias"], "dweight": dy.T @ x, "dx": dy @ weight}
    whole, split = (results(given, 1, split=split) for split in (False, True))
    for name, one in exact.items():
        errors = [np.linalg.norm(found[name] - one) for found in (whole, split)]
        assert errors[1] <= max(errors[0], 6e-8 * np.linalg.norm(one)), name


@pytest.mark.skipif(not native.has_amx(), reason="the processor has no AMX")
def test_split_products_keep_what_is_not_finite_and_hardly_lose_what_is_small() -> None:
    given = matrices(40, 70, 50)
    (all_ones,) = np.array([0x7FFFFFFF], np.uint32).view(np.float32)
    given["x"][3, 5], given["x"][7, 0], given["weight"][2, 69] = all_ones, np.inf, np.nan
    found = results(given, 1, split=True, relu=True)["y"]
    bad = np.zeros(found.shape, bool)
    bad[(3, 7), :], bad[:, 2] = True, True
    assert np.array_equal(~np.isfinite(found), bad)
    given = matrices(40, 70, 50)
    given["x"] *= np.float32(1e-36)
    y = given["x"].astype(np.float64) @ given["weight"].T.astype(np.float64)
    assert_near(1e36 * results(given, 1, split=True, bias=False)["y"].astype(np.float64), 1e36 * y, "y", 2**-8)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("features", [20, DEPTH + 3])
def test_numbers_that_are_not_finite_stay_in_their_rows(features: int, *, relu: bool) -> None:
    given = matrices(13, features, 19)
    given["x"][3, 5], given["x"][7, 0] = np.nan, np.inf
    found = results(given, 1, split=False, relu=relu)["y"]
    infinite = given["weight"][:, 0] > 0 if relu else np.full(19, fill_value=True)
    assert np.isnan(found[3]).all() and (np.isfinite(found[7]) != infinite).all()
    assert np.isfinite(np.delete(found, (3, 7), axis=0)).all()


@pytest.mark.parametrize("split", KINDS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("phase", ["train", "predict"])
def test_inner_products_take_them(phase: Any, bias: bool, split: bool) -> None:
    layers = [
        InputLayer(name="in", tops=("x",), shape=9, batch_size=7),
        InputLayer(name="targets", tops=("target",), shape=21, batch_size=7),
        InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=21, bias=bias, neuron="ReLU"),
        SquareLossLayer(name="loss", bottoms=("y", "target"), exclude=["predict"]),
    ]
    stages = ("forward", "weights", "data") if phase == "train" else ("forward",)
    ways = {"ip": dict.fromkeys(stages, SPLIT if split else PANELS)}
    found: list[dict[str, Any]] = []
    for backend in ("numpy", "onednn"):
        plan = {"onednn": {"layout": "channels last", "ways": ways}} if backend == "onednn" else None
        net = Net("net", layers, backend=backend, phase=phase, plan=plan, seed=1, keep="all", input_gradients=("x",))
        net.write("x", np.random.default_rng(0).normal(size=(7, 9)))
        if phase == "train":
            net.write("target", np.ones((7, 21)))
        net.forward()
        results = {"y": net.blob("y")}
        if phase == "train":
            net.backward()
            results |= {name: one.gradient for name, one in net.parameters.items()} | {"x": net.gradient("x")}
        else:  # the panels are kept, until the weights change
            net.parameters["ip/weight"].value = net.parameters["ip/weight"].value * 2
            net.forward()
            results["again"] = net.blob("y")
        found.append(results)
        assert plan is None or net.plan["onednn"]["ways"] == ways
    for name, one in found[0].items():
        assert_near(found[1][name], one, name, 1e-6)
