"""Nets of the cupy backend that compute in bf16, over the stand-ins: parameters, gradients and losses are float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cupy_standin
import nacre
from exact import widen
from mixed_nets import EXAMPLES, fill, mixed_net
from nacre import ConfigError, InputLayer, L, Layer, Net, Own, Solver
from nacre.config import load
from nacre_cupy.products import NARROW, TYPES
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.neurons import Tanh
from nacre_solvers import SGD

pytestmark = pytest.mark.usefixtures("cupy")


def distance(actual: Any, expected: Any) -> float:
    return float(np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-12))


def example(path: str, backend: Any, images: int = 4, **options: Any) -> Net:
    file = EXAMPLES / path
    smaller = [f"layer.{layer.name}.batch_size={images}" for layer in load(file).layers if layer.is_source]
    net = load(file, smaller).net("train", backend=backend, **options)
    fill(net)
    return net


def near(narrow: Net, wide: Net, turns: int = 1) -> None:
    """Check that loss and gradients are those of another net, but for the digits that bf16 has not."""
    for net in (narrow, wide):
        for _ in range(turns):
            net.forward()
            net.backward()
    assert narrow.loss() == pytest.approx(wide.loss(), rel=1e-2)
    for name, handle in wide.parameters.items():
        if handle.gradient is not None:
            # most in the first layer: where two numbers under a window are as good as equal, another wins
            assert distance(narrow.parameters[name].gradient, handle.gradient) < 0.15, name


@pytest.mark.parametrize("path", ["lenet/lenet.toml", pytest.param("cifar/quick.toml", marks=pytest.mark.long)])
def test_whole_nets_are_near_those_of_numpy(backend: Any, path: str) -> None:
    with example(path, backend, compute="bf16") as narrow, example(path, "numpy") as wide:
        near(narrow, wide, turns=3)  # called, captured, replayed
        kernels = {type(op.state).__name__: op for op in narrow.ops if op.kernel}
        for name, op in kernels.items():
            wanted = "float32" if name == "SoftmaxLossKernel" else "bf16"
            blobs = (one for one in (*op.input_arrays, *op.state.blobs, *op.diff_arrays) if isinstance(one, Own))
            assert {one.dtype for one in blobs} == {wanted}, name
        assert {"ConvolutionKernel", "PoolingKernel", "InnerProductKernel"} <= kernels.keys()
        assert {str(handle.value.dtype) for handle in narrow.parameters.values()} == {"float32"}
        assert {str(slot.gradient.dtype) for slot in narrow.slots if slot.gradient is not None} == {"float32"}


@pytest.mark.parametrize("keep", ["all", ()])
def test_a_net_of_many_kinds_of_layers_is_near(backend: Any, keep: Any) -> None:
    with (
        mixed_net(backend, Tanh(), compute="bf16", keep=keep) as narrow,
        mixed_net("numpy", Tanh(), keep=keep) as wide,
    ):
        near(narrow, wide)
        for name in ("conv1", "conv2", "ip1") if keep else ():
            assert distance(narrow.blob(name), wide.blob(name)) < 2e-2, name


def test_a_training_stays_near_and_its_replays_are_its_calls(backend: Any, cupy: Any) -> None:
    losses: dict[str, list[float]] = {}
    for name, options in {"narrow": {"compute": "bf16"}, "wide": {}}.items():
        here = backend if options else "numpy"
        with Solver(SGD(), lr_policy=0.003, momentum_policy=0.9).start(
            example("lenet/lenet.toml", here, **options)
        ) as t:
            losses[name] = []
            for _ in range(12):
                t.step()
                losses[name].append(t.loss)
    np.testing.assert_allclose(losses["narrow"], losses["wide"], rtol=2e-2, atol=2e-3)
    assert losses["wide"][-1] < losses["wide"][0] / 2, "they have learnt"


def test_weights_are_rounded_anew_when_anything_changes_them(backend: Any) -> None:
    layers = [
        InputLayer(name="in", tops="x", shape=3, batch_size=2),
        InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=2),
    ]
    with Net("ip", layers, backend=backend, compute="bf16") as net:
        for turn in range(4):
            weight = np.full((2, 3), turn + 1, np.float32)
            net.parameters["ip/weight"].value, net.parameters["ip/bias"].value = weight, [turn, -turn]
            net.write("x", [[1, 2, 3], [4, 5, 6]])
            net.forward()
            np.testing.assert_array_equal(net.blob("y"), np.array([[6.0] * 2, [15.0] * 2]) * (turn + 1) + [turn, -turn])


def test_images_of_a_product_are_read_and_written_in_c_order(backend: Any) -> None:
    """Bottoms and tops with the channels last, one number for each channel's row, and two bottoms with one weight."""
    layers: list[Layer] = [
        *(InputLayer(name=f"in_{one}", tops=one, shape=(3, 4, 5), batch_size=2) for one in "xz"),
        *(InputLayer(name=f"in_{one}", tops=one, shape=(3, 4, 6), batch_size=2) for one in ("t0", "t1")),
        InnerProductLayer(name="ip", bottoms=["x", "z"], tops=["a", "b"], output_dim=6, axis=-1),
        SquareLossLayer(name="loss", bottoms=["a", "t0"]),
        SquareLossLayer(name="other", bottoms=["b", "t1"]),
    ]
    found = []
    for here, compute in ((backend, "bf16"), ("numpy", None)):
        with Net("two", layers, backend=here, compute=compute, input_gradients=["x", "z"], seed=2) as net:
            random = np.random.default_rng(0)
            for name in ("x", "z", "t0", "t1"):
                net.write(name, random.integers(-4, 5, (2, 3, 4, 6 if name[0] == "t" else 5)))
            net.forward()
            net.backward()
            gradients = [handle.gradient for handle in net.parameters.values()]
            found.append([net.blob("a"), net.blob("b"), net.gradient("x"), net.gradient("z"), *gradients])
    for narrow, wide in zip(*found, strict=True):
        assert distance(narrow, wide) < 1e-2


def test_labels_that_bf16_has_not_are_exact(backend: Any) -> None:
    """There are 999 classes, and bf16 has no 997."""
    x, label = nacre.Input(4, name="x", batch_size=2), nacre.Input((), name="label", batch_size=2)
    layers = [L.SoftmaxLoss()(L.InnerProduct(output_dim=999, name="ip")(x), label)]
    losses = []
    for here, compute in ((backend, "bf16"), ("numpy", None)):
        with Net("labels", layers, backend=here, compute=compute, seed=1) as net:
            net.parameters["ip/weight"].value = np.zeros((999, 4))
            net.parameters["ip/bias"].value = np.where(np.arange(999) == 997, 8, 0)
            net.write("x", np.ones((2, 4)))
            net.write("label", [997, 3])
            losses.append(net.forward())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_products_of_bf16_are_added_up_in_float32(cupy: Any, backend: Any) -> None:
    a = np.full((2, 4096), 1.0, np.float32)
    given = cupy.array((a.view(np.uint32) >> 16).astype(np.uint16))
    for kind in ("float32", "uint16"):
        y = cupy.empty((2, 2), kind)
        assert backend.products.narrow(given, given.T, y)
        found = y.get() if kind == "float32" else widen(y.get())
        np.testing.assert_array_equal(found, 4096)  # sums of bf16 would end at 256
    assert NARROW not in TYPES.values(), "an array of uint16 holds whole numbers, unless somebody says otherwise"


@cupy_standin.only_standin
def test_an_old_gpu_says_what_is_needed(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.Device, "compute_capability", "75")
    old = cupy_standin.watched()()
    with pytest.raises(ConfigError, match=r"bf16 needs a GPU of compute capability 8\.0 or above"):
        Net("net", [InputLayer(name="in", tops="x", shape=3)], backend=old, compute="bf16")
