"""The helper's gradients of weights in bf16, pairs.c, against NumPy's, and layers that take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulated_bf16 import narrowed, widened
from helper_calls import assert_same_bits, run
from nacre import InputLayer, Net
from nacre.testing.close import assert_near
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.library import library
from nacre_onednn.helper import native, product
from nacre_onednn.helper.product import weights_in_pairs
from nacre_onednn.kernels.products import PAIRS, PRODUCT, in_pairs

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if not native.has_avx512() or not library().narrow:
    pytest.skip("no helper was compiled, or the processor has no avx512_bf16", allow_module_level=True)

DEEP, MANY = 2 * native.CONSTANTS["PAIRS_DEEP"], native.CONSTANTS["PAIRS_MANY"]


def matrices(rows: int, features: int, outputs: int) -> dict[str, Any]:
    random = np.random.default_rng(rows + features + outputs)
    shapes = {"x": (rows, features), "dy": (rows, outputs)}
    return {name: narrowed(random.normal(1, size=shape).astype(np.float32)) for name, shape in shapes.items()}


def results(given: dict[str, Any], threads: int, *, bias: bool = True) -> dict[str, Any]:
    (rows, features), outputs = given["x"].shape, given["dy"].shape[1]
    found = {"dweight": np.full((outputs, features), 7, np.float32)}
    found |= {"dbias": np.full(outputs, 7, np.float32)} if bias else {}
    sizes = {"rows": rows, "features": features, "outputs": outputs}
    run(weights_in_pairs("x", "dy", "dweight", "dbias" if bias else "", **sizes), {**given, **found}, threads)
    return found


@settings(max_examples=200)
@given(
    rows=st.integers(1, 600),
    features=st.integers(1, 70),
    outputs=st.integers(1, 70),
    threads=st.integers(1, 3),
    bias=st.booleans(),
)
@example(rows=1, features=1, outputs=1, threads=1, bias=True)
@example(rows=DEEP, features=32, outputs=16, threads=1, bias=True)
@example(rows=3 * DEEP + 1, features=33, outputs=17, threads=2, bias=True)
@example(rows=9, features=2 * MANY + 1, outputs=MANY + 3, threads=1, bias=True)
@example(rows=DEEP + 7, features=MANY + 40, outputs=2 * MANY + 9, threads=3, bias=False)
@example(rows=5, features=1040, outputs=1030, threads=2, bias=True)  # written past the caches; the next are not
@example(rows=DEEP + 1, features=1040, outputs=1030, threads=2, bias=True)
@example(rows=5, features=1041, outputs=1030, threads=2, bias=True)
def test_gradients_agree_with_numpy(rows: int, features: int, outputs: int, threads: int, *, bias: bool) -> None:
    given = matrices(rows, features, outputs)
    x, dy = (widened(given[name]).astype(np.float64) for name in ("x", "dy"))
    found = results(given, threads, bias=bias)
    assert_near(found["dweight"], dy.T @ x, "dweight", 1e-6)
    if bias:
        assert_near(found["dbias"], dy.sum(0), "dbias", 1e-6)


@pytest.mark.parametrize(("features", "outputs"), [(45, 300), (300, 45), (40, 16), (3, 3)])
def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch, features: int, outputs: int) -> None:
    """They share rows of the gradient, or columns; the last has more threads than there is memory for."""
    monkeypatch.setattr(product, "number_of_threads", lambda: 3)
    given = matrices(DEEP + 31, features, outputs)
    assert_same_bits([results(given, threads) for threads in (1, 2, 3, 5)])


def test_numbers_that_are_not_finite_stay_in_their_rows_and_columns() -> None:
    given = matrices(31, 45, 20)
    given["x"][30, 44], given["dy"][3, 2] = 0x7FC0, 0x7F80
    found = results(given, 1)
    bad = np.zeros((20, 45), bool)
    bad[2, :], bad[:, 44] = True, True
    assert np.array_equal(~np.isfinite(found["dweight"]), bad)
    assert np.array_equal(~np.isfinite(found["dbias"]), np.arange(20) == 2)


@pytest.mark.skipif(not in_pairs("bf16"), reason="AMX is faster")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("neuron", ["Identity", "ReLU"])
def test_inner_products_take_them(neuron: Any, bias: bool) -> None:
    layers = [
        InputLayer(name="in", tops=("x",), shape=9, batch_size=7),
        InputLayer(name="targets", tops=("target",), shape=21, batch_size=7),
        InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=21, bias=bias, neuron=neuron),
        SquareLossLayer(name="loss", bottoms=("y", "target")),
    ]
    found: list[dict[str, Any]] = []
    for way in (PRODUCT, PAIRS):
        ways = {"ip": {"forward": PRODUCT, "weights": way}}
        plan = {"onednn": {"layout": "channels last", "ways": ways}}
        net = Net("net", layers, backend="onednn", compute="bf16", plan=plan, seed=1)
        net.write("x", np.random.default_rng(0).normal(size=(7, 9)))
        net.write("target", np.ones((7, 21)))
        net.forward()
        net.backward()
        assert net.plan["onednn"]["ways"]["ip"]["weights"] == way
        found.append({name: one.gradient for name, one in net.parameters.items()})
    for name, one in found[0].items():
        assert np.any(one)
        assert_near(found[1][name], one, name, 1e-6)
