"""The kernels of small_batch.c: inner products of few images against NumPy, whatever the sizes, types and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulated_bf16 import widened
from helper_calls import assert_same_bits, run
from nacre import InputLayer, Layer, Net
from nacre.testing.close import assert_near, assert_near_above
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.library import library
from nacre_onednn.dnnl.primitives import CHANNELS_LAST
from nacre_onednn.helper import native
from nacre_onednn.helper.small_batch import MOST_IMAGES, SmallBatchProduct
from nacre_onednn.kernels.inner_product import FEW
from nacre_onednn.record import aligned

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if not native.has_avx512():
    pytest.skip("no helper was compiled, or the processor has no AVX-512", allow_module_level=True)

TYPES = ["float32", *(["bf16"] if library().narrow else [])]
WAYS = dict.fromkeys(["forward", "weights", "data"], FEW)


def narrowed(values: Any) -> Any:
    """Return the bits of bf16, of numbers that it has or rounds down to."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


@settings(max_examples=60)
@given(
    images=st.integers(1, MOST_IMAGES),
    outputs=st.integers(1, 70),
    features=st.one_of(st.integers(1, 70), st.integers(500, 1100)),
    dtype=st.sampled_from(TYPES),
    threads=st.integers(1, 3),
    bias=st.booleans(),
    relu=st.booleans(),
)
def test_products_agree_with_numpy(
    images: int, outputs: int, features: int, dtype: str, threads: int, *, bias: bool, relu: bool
) -> None:
    random = np.random.default_rng(features)
    product = SmallBatchProduct(images, outputs, features, dtype, relu=relu)
    given: dict[str, Any] = {}
    wide: dict[str, Any] = {}
    for name, shape in {"x": (images, features), "w": (outputs, features), "dy": (images, outputs)}.items():
        values = random.normal(size=shape).astype(np.float32)
        given[name] = narrowed(values) if dtype == "bf16" else values
        wide[name] = widened(given[name]) if dtype == "bf16" else values
    given["b"] = random.normal(size=outputs).astype(np.float32)
    size = 2 if dtype == "bf16" else 4
    found: dict[str, Any] = {}
    for name, shape in {"y": (images, outputs), "dx": (images, features)}.items():
        found[name] = aligned(images * shape[1] * size + 64)
        found[name][...] = 77
    for call in (*product.forward("x", "w", "b" if bias else "", "y"), *product.data("dy", "w", "dx")):
        run([call], {**given, **found}, threads)
    y = wide["x"] @ wide["w"].T + (given["b"] if bias else 0)
    expected = {"y": np.maximum(y, 0) if relu else y, "dx": wide["dy"] @ wide["w"]}
    for name, one in expected.items():
        assert (found[name][one.size * size :] == 77).all(), f"{name} was written over its end"
        bits = found[name][: one.size * size].view(np.uint16 if size == 2 else np.float32)
        actual = (widened(bits) if size == 2 else bits).reshape(one.shape)
        assert_near_above(1.0, actual, one, name, 5e-3 if size == 2 else 1e-5)  # what cancels may leave less than 1


@settings(max_examples=40)
@given(
    images=st.integers(1, MOST_IMAGES),
    features=st.integers(1, 70),
    outputs=st.integers(1, 20),
    bias=st.booleans(),
    neuron=st.sampled_from(["Identity", "ReLU"]),
    compute=st.sampled_from(TYPES),
)
def test_layers_agree_with_numpy(images: int, features: int, outputs: int, compute: str, **fields: Any) -> None:
    found: list[dict[str, Any]] = []
    random = np.random.default_rng(0).integers(1, 9, (images, features))  # that bf16 has, and without signs
    plan = {"onednn": {"layout": CHANNELS_LAST, "ways": {"ip": WAYS}}}
    narrow = {"compute": "bf16"} if compute == "bf16" else {}
    for options in ({"backend": "onednn", "plan": plan, **narrow}, {"backend": "numpy"}):
        layers: list[Layer] = [
            InputLayer(name="in", tops="x", shape=features, batch_size=images),
            InputLayer(name="targets", tops="target", shape=outputs, batch_size=images),
            InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=outputs, **fields),
            SquareLossLayer(name="loss", bottoms=["y", "target"]),
        ]
        net = Net("net", layers, input_gradients=("x",), keep="all", seed=1, **options)
        weight = net.parameters["ip/weight"]
        weight.value = (np.arange(outputs * features) % 3 + 1).reshape(weight.shape) / 4
        net.write("x", random)
        net.write("target", np.full((images, outputs), -5000))
        net.forward()
        net.backward()
        gradients = {name: one.gradient for name, one in net.parameters.items()}
        found.append({"y": net.blob("y"), "dx": net.gradient("x"), **gradients})
        if "plan" in options:
            assert net.plan["onednn"]["ways"] == {"ip": WAYS}
        net.shutdown()
        net.backend.parameters.clear()
    for name, one in found[1].items():
        assert_near(found[0][name], one, name, 1e-2 if narrow else 1e-5)


def test_gradients_that_no_cache_holds() -> None:
    random = np.random.default_rng(0)
    images, outputs, features = 5, 1100, 1024
    x, dy = (random.normal(size=(images, count)).astype(np.float32) for count in (features, outputs))
    dw, db = aligned(4 * outputs * features).view(np.float32), np.zeros(outputs, np.float32)
    product = SmallBatchProduct(images, outputs, features, "float32", relu=False)
    (call,) = product.weights("x", "dy", "dw", "db")
    run([call], {"x": x, "dy": dy, "dw": dw, "db": db}, 2)
    assert_near(dw.reshape(outputs, features), dy.T @ x, "dw", 1e-6)
    assert_near(db, dy.sum(0), "db", 1e-6)


@pytest.mark.parametrize("dtype", TYPES)
def test_threads_change_no_bit(dtype: str) -> None:
    random = np.random.default_rng(0)
    images, outputs, features = 11, 77, 1500
    product = SmallBatchProduct(images, outputs, features, dtype, relu=True)
    cast: Callable[[Any], Any] = narrowed if dtype == "bf16" else lambda values: values
    given = {
        name: cast(random.normal(size=size).astype(np.float32))
        for name, size in {"x": images * features, "w": outputs * features, "dy": images * outputs}.items()
    }
    results: list[dict[str, Any]] = []
    for threads in (1, 2, 3, 5):
        found = {"y": np.zeros_like(given["dy"]), "dx": np.zeros_like(given["x"])}
        for call in (*product.forward("x", "w", "", "y"), *product.data("dy", "w", "dx")):
            run([call], {**given, **found}, threads)
        results.append(found)
    assert_same_bits(results)


def test_many_images_are_left_to_onednn() -> None:
    assert SmallBatchProduct(MOST_IMAGES, 5, 5, "float32", relu=False).usual
    assert not SmallBatchProduct(MOST_IMAGES + 1, 5, 5, "float32", relu=False).usual
