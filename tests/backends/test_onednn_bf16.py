"""Nets of the onednn backend that compute in bf16: near float32, with parameters, gradients and losses in float32."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mixed_nets
from emulated_bf16 import narrowed, widened
from helper_calls import run
from mixed_nets import from_file, trained
from nacre import ConfigError, InputLayer, Layer, Net, Own, Solver, open_backend
from nacre.config import dumps, load
from nacre.testing import Example, KernelTests
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.linear.embedding import EmbeddingLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.neurons import (
    ELU,
    GELU,
    SELU,
    Exponential,
    Hardswish,
    LReLU,
    Mish,
    ReLU,
    Sigmoid,
    SiLU,
    Softplus,
    STanh,
    Tanh,
)
from nacre_layers.pooling.functions import Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import plain
from nacre_onednn.helper import native
from nacre_onednn.kernels.chain import backward_call, forward_call
from nacre_onednn.kernels.neurons import link_of
from nacre_onednn.kernels.products import GEMM, PACKED, PRODUCT
from nacre_solvers import SGD
from run_suite import failures, kit_tests
from small_layers import AddLayer, AddState

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
needs_bf16 = pytest.mark.skipif(
    "bf16" not in open_backend("onednn").computes, reason="this processor does not compute in bf16"
)


def mixed_net(compute: str | None = None, **options: Any) -> Net:
    """Make the mixed net with a neuron that has a kernel in bf16 too."""
    return mixed_nets.mixed_net("onednn", Tanh(), compute=compute, **options)


def distance(actual: Any, expected: Any) -> float:
    return float(np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-12))


@needs_bf16
@pytest.mark.parametrize("path", ["lenet/lenet.toml", "mlp/mlp.toml", "cifar/quick.toml"])
def test_whole_nets_are_near_float32(path: str) -> None:
    narrow, wide = from_file(path, compute="bf16"), from_file(path)
    for net in (narrow, wide):
        net.forward()
        net.backward()
    assert narrow.loss() == pytest.approx(wide.loss(), rel=1e-2)
    for name, handle in wide.parameters.items():
        # most in the first layer: where two numbers under a window are as good as equal, another wins
        assert distance(narrow.parameters[name].gradient, handle.gradient) < 0.15, name


@needs_bf16
@pytest.mark.parametrize("path", ["lenet/lenet.toml", "mlp/mlp.toml"])
def test_forty_steps_stay_near_float32(path: str) -> None:
    losses: list[list[float]] = []
    for compute in ("bf16", None):
        with Solver(SGD(), lr_policy=0.003, momentum_policy=0.9).start(from_file(path, compute=compute)) as training:
            losses.append([])
            for _ in range(40):
                training.step()
                losses[-1].append(training.loss)
    narrow, wide = losses
    np.testing.assert_allclose(narrow, wide, rtol=2e-2, atol=2e-3)
    assert wide[-1] < wide[0] / 10, "they have learnt"


@needs_bf16
def test_blobs_are_narrow_and_parameters_and_the_loss_are_not() -> None:
    net = mixed_net("bf16")
    blobs = {one.dtype for op in net.ops if op.kernel for one in (*op.input_arrays, *op.state.blobs, *op.diff_arrays)
             if isinstance(one, Own) and one.layout != "plain"}  # fmt: skip
    assert blobs == {"bf16"}
    (loss,) = (op for op in net.ops if op.name == "loss")
    assert [one.dtype for one in loss.input_arrays] == ["bf16", "float32"]
    assert {str(handle.value.dtype) for handle in net.parameters.values()} == {"float32"}
    assert {str(slot.gradient.dtype) for slot in net.slots if slot.gradient is not None} == {"float32"}


@needs_bf16
@pytest.mark.parametrize("keep", ["all", ("conv2", "ip1"), ()])
def test_kernels_beside_other_states_are_near_float32(keep: Any) -> None:
    narrow, wide = mixed_net("bf16", keep=keep), mixed_net(keep=keep)
    for net in (narrow, wide):
        net.forward()
        net.backward()
    for name in ("conv1", "conv2", "ip1", "ip2") if keep == "all" else keep:
        assert distance(narrow.blob(name), wide.blob(name)) < 2e-2, name
    for name, handle in wide.parameters.items():
        if handle.gradient is not None:
            assert distance(narrow.parameters[name].gradient, handle.gradient) < 0.25, name


@needs_bf16
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2}, {"weights": (1.0,) * 36 + (0.5,)}], ids=list)
@pytest.mark.parametrize("bias", [True, False])
def test_vectors_of_words_and_scores_of_classes_are_narrow(bias: bool, options: dict[str, Any]) -> None:
    nets: list[Net] = []
    random = np.random.default_rng(0)
    words, labels = random.integers(0, 50, (5, 9)), random.integers(0, 37, (5, 9))
    for compute in ("bf16", None):
        layers: list[Layer] = [
            InputLayer(name="in", tops="words", shape=9, batch_size=5, dtype="int32"),
            InputLayer(name="labels", tops="label", shape=9, batch_size=5, dtype="uint8"),
            EmbeddingLayer(name="e", bottoms="words", tops="vectors", input_dim=50, output_dim=24, bias=bias),
            InnerProductLayer(name="ip", bottoms="vectors", tops="scores", output_dim=37, axis=-1),
            SoftmaxLossLayer(name="loss", bottoms=["scores", "label"], axis=-1, **options),
        ]
        nets.append(net := Net("text", layers, backend="onednn", compute=compute, seed=1))
        net.write("words", words)
        net.write("label", labels)
        for handle in net.parameters.values():
            handle.value = np.random.default_rng(1).normal(size=handle.shape) / 4
        net.forward()
        net.backward()
    narrow, wide = nets
    assert [op.name for op in narrow.ops if op.kernel and not op.state.on_plain] == ["e", "ip", "loss"]
    assert narrow.loss() == pytest.approx(wide.loss(), rel=1e-2)
    for name, handle in wide.parameters.items():
        assert distance(narrow.parameters[name].gradient, handle.gradient) < 2e-2, name


LAYERS = st.sampled_from(
    [
        ConvolutionLayer(bottoms="data", tops="y", n_filter=16, kernel=3, pad=1),
        ConvolutionLayer(bottoms="data", tops="y", n_filter=5, kernel=2, stride=2, neuron=ReLU()),
        ConvolutionLayer(bottoms="data", tops="y", n_filter=32, kernel=1, bias=False),
        PoolingLayer(bottoms="data", tops="y", kernel=2, stride=2, pooling=Mean()),
        PoolingLayer(bottoms="data", tops="y", kernel=3, stride=2, pad=1),
        InnerProductLayer(bottoms="data", tops="y", output_dim=7, neuron=ReLU()),
        ActivationLayer(bottoms="data", tops="y", neuron="ReLU"),
        DropoutLayer(name="drop", bottoms="data"),
    ]
)
SHAPES = st.tuples(st.sampled_from([1, 3, 5, 16, 20, 32]), st.integers(3, 9), st.integers(3, 9))


@needs_bf16
@settings(max_examples=40)
@given(layer=LAYERS, shape=SHAPES, images=st.integers(1, 4))
def test_single_layers_are_near_float32(layer: Layer, shape: tuple[int, ...], images: int) -> None:
    name = "data" if layer.is_inplace else "y"
    found: list[dict[str, Any]] = []
    for compute in ("bf16", None):
        layers: list[Layer] = [
            InputLayer(name="in", tops="data", shape=shape, batch_size=images),
            InputLayer(name="labels", tops="label", batch_size=images),
            layer,
            InnerProductLayer(bottoms=name, tops="ip", output_dim=3),
            SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
        ]
        net = Net("one", layers, backend="onednn", compute=compute, keep=name, input_gradients=["data"], seed=1)
        net.write("data", np.random.default_rng(1).integers(-9, 9, (images, *shape)))  # that bf16 has exactly
        net.write("label", np.zeros(images))  # or the gradients of the scores would cancel out
        for number, handle in enumerate(net.parameters.values()):
            small = 1024 if len(handle.shape) == 2 else 8  # so that no probability is nearly 0 or 1
            handle.value = np.random.default_rng(number).integers(-2, 3, handle.shape) / small
        net.forward()
        net.backward()
        gradients = {one: handle.gradient for one, handle in net.parameters.items()}
        found.append({"blob": net.blob(name), "gradient": net.gradient("data"), **gradients})
        net.shutdown()
        net.backend.parameters.clear()
    narrow, wide = found
    for one, value in wide.items():
        # gradients are sums of rounded numbers of either sign, and that of a bias of the most
        assert distance(narrow[one], value) < {"blob": 0.02, "y/bias": 0.5}.get(one, 0.25), one


@needs_bf16
def test_training_resumes_bit_for_bit_and_tells_another_type() -> None:
    plan = mixed_net("bf16").plan
    expected = trained(mixed_net("bf16", plan=plan), 6)
    solver = Solver(SGD(), lr_policy=0.05, momentum_policy=0.9)
    with solver.start(mixed_net("bf16", plan=plan)) as training:
        for _ in range(3):
            training.step()
        snapshot = training.snapshot()
    for compute in ("bf16", None):
        net = mixed_net(compute, plan=snapshot.state["plan"])
        told: list[str] = []
        with solver.start(net, [lambda event, data, told=told: told.append(data.get("message", ""))]) as training:
            training.restore(snapshot)
            for _ in range(3):
                training.step()
            found = {name: handle.value.tobytes() for name, handle in net.parameters.items()}
        if compute:
            assert found == expected
            assert not any(told)
        else:
            assert "compute was bf16, is float32" in "".join(told)


@needs_bf16
def test_predictions_and_files_compute_in_the_same_type(tmp_path: Path) -> None:
    net = mixed_net("bf16")
    data = np.random.default_rng(1).normal(size=(9, 3, 9, 9)).astype(np.float32)
    found, expected = net.predict(data, "ip2"), mixed_net().predict(data, "ip2")
    assert 0 < distance(found, expected) < 2e-2
    (tmp_path / "net.toml").write_text(dumps(net))
    assert load(tmp_path / "net.toml").net().compute_dtype == "bf16"
    assert "float32 computed in bf16 on onednn" in str(net)


def test_what_cannot_be_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [InputLayer(name="in", tops="x", shape=3)]
    with pytest.raises(ConfigError, match="compute='bf16', but backend 'numpy' computes in float32"):
        Net("net", layers, backend="numpy", compute="bf16")
    with pytest.raises(ConfigError, match="compute='bf16', but backend 'onednn' computes in float64"):
        Net("net", layers, backend="onednn", dtype="float64", compute="bf16")
    monkeypatch.setattr(
        "nacre_onednn.backend.library", lambda: SimpleNamespace(narrow=False)
    )  # as on an older processor
    with pytest.raises(ConfigError, match="bf16 needs a processor with avx512_bf16 or AMX"):
        Net("net", layers, backend=OnednnBackend(), compute="bf16")


@needs_bf16
@pytest.mark.parametrize("features", [8, 33])
def test_inner_products_of_steps_are_near_float32(features: int) -> None:
    found: list[Any] = []
    for compute in ("bf16", None):
        steps: list[Layer] = [
            InputLayer(name="in", tops="data", shape=(5, features), batch_size=3),
            InputLayer(name="labels", tops="label", shape=(5, 4), batch_size=3),
            InnerProductLayer(name="ip1", bottoms="data", tops="ip1", output_dim=24, axis=-1, neuron=ReLU()),
            InnerProductLayer(name="ip2", bottoms="ip1", tops="ip2", output_dim=4, axis=2),
            SquareLossLayer(name="loss", bottoms=["ip2", "label"]),
        ]
        with Net("steps", steps, backend="onednn", compute=compute, input_gradients=["data"], seed=1) as net:
            assert all(op.kernel for op in net.ops[2:4])
            mixed_nets.fill(net)
            net.forward()
            net.backward()
            found.append([net.gradient("data"), *(handle.gradient for handle in net.parameters.values())])
        net.backend.parameters.clear()
    for narrow, wide in zip(*found, strict=True):
        assert distance(narrow, wide) < 0.03


@needs_bf16
@pytest.mark.parametrize("forward", [PRODUCT, GEMM, PACKED])
def test_weights_made_narrow_by_the_forward_pass_are_those_of_this_iteration(forward: str) -> None:
    found: list[Any] = []
    for data in (PRODUCT, PACKED):
        layers: list[Layer] = [
            InputLayer(name="in", tops="data", shape=40, batch_size=8),
            InputLayer(name="labels", tops="label", batch_size=8),
            InnerProductLayer(name="ip1", bottoms="data", tops="ip1", output_dim=24, neuron=ReLU()),
            InnerProductLayer(name="ip2", bottoms="ip1", tops="ip2", output_dim=3),
            SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"]),
        ]
        ways = {"forward": forward, "weights": PRODUCT, "data": data}
        plan = {"onednn": {"layout": "channels last", "ways": {"ip1": ways, "ip2": ways}}}
        net = Net("two", layers, backend="onednn", compute="bf16", plan=plan, seed=1, input_gradients=["data"])
        mixed_nets.fill(net)
        assert net.plan["onednn"]["ways"] == {"ip1": ways, "ip2": ways}
        with Solver(SGD(), lr_policy=0.5, momentum_policy=0.9).start(net) as training:
            for _ in range(4):
                training.step()
        found.append((net.gradient("data"), training.loss))
        net.shutdown()
        net.backend.parameters.clear()
    assert distance(found[0][0], found[1][0]) < 1e-2
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-3)


@pytest.mark.skipif(native.helper() is None, reason="no helper was compiled")
@pytest.mark.parametrize(
    "neuron",
    [
        ELU(),
        Exponential(),
        GELU(),
        GELU(approximate="tanh"),
        Hardswish(),
        LReLU(),
        Mish(),
        SELU(),
        STanh(),
        Sigmoid(),
        SiLU(beta=3),
        Softplus(),
        Tanh(),
    ],
    ids=str,
)
def test_neurons_have_the_bits_of_float32_rounded_for_every_number(neuron: Any) -> None:
    some_again = (1 << 16) + 13  # which fill no register
    numbers, links = np.resize(np.arange(1 << 16, dtype=np.uint16), some_again), [link_of(neuron)]
    known = links[0].reads
    found: list[list[Any]] = []
    for narrow in (True, False):
        desc = plain(numbers.size, dtype="bf16" if narrow else "float32")
        x, dy = (one if narrow else widened(one) for one in (numbers, np.roll(numbers, 12345)))
        y, dx = np.full_like(x, 7), np.full_like(x, 7)
        run([forward_call(links, desc)], {"x": x, "y": y}, 2)
        run([backward_call(links, desc, {known: known, "dx": "dx"})], {known: x, "dy": dy, "dx": dx}, 2)
        found.append([y, dx])
    for narrow, wide in zip(*found, strict=True):
        np.testing.assert_array_equal(narrow, rounded(wide))


def rounded(numbers: Any) -> Any:
    """Round to the nearest number in bf16, of two to the even one, as its bits; a NaN stays one."""
    bits = numbers.view(np.uint32)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(numbers), bits >> 16 | 0x40, nearest).astype(np.uint16)


class Seen(AddState, dtypes=("float32",)):
    """A kernel of another package, which knows no bf16; it notes what it gets."""

    found: ClassVar[list[str]] = []

    def forward(self, inputs: list[Any]) -> None:
        self.found.append(inputs[0].dtype)
        self.blobs[0].memory[...] = sum(one.memory for one in inputs)


class SeenInBoth(Seen, dtypes=("float32", "bf16")):
    def forward(self, inputs: list[Any]) -> None:
        self.found.append(inputs[0].dtype)


@needs_bf16
@pytest.mark.parametrize(("kernel", "dtype"), [(Seen, "float32"), (SeenInBoth, "bf16")])
def test_a_kernel_of_another_package_gets_bf16_if_it_says_so(kernel: Any, dtype: str, new_registry: Any) -> None:
    registry = new_registry()
    registry.register(AddLayer)
    registry.register_kernel(kernel, "Add", "onednn")
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=24, batch_size=4),
        InnerProductLayer(name="one", bottoms="x", tops="a", output_dim=16),
        AddLayer(name="sum", bottoms=["a", "a"], tops="b"),
        InnerProductLayer(name="two", bottoms="b", tops="y", output_dim=8),
    ]
    kernel.found.clear()
    results: list[Any] = []
    for compute in (None, "bf16"):
        with Net("n", layers, backend="onednn", compute=compute, phase="predict", seed=1) as net:
            net.write("x", np.random.default_rng(0).normal(size=(4, 24)))
            net.forward()
            results.append(net.blob("y"))
    assert kernel.found[-1] == dtype
    if kernel is Seen:
        assert distance(results[1], results[0]) < 2e-2


class SumKernel(AddState, dtypes=("float32", "bf16")):
    """A right kernel, of both types."""

    def forward(self, inputs: list[Any]) -> None:
        self.put(self.blobs[0], sum(self.get(one) for one in inputs))

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for dx in diffs:
            if dx is not None:
                self.put(dx, self.get(self.blobs_diff[0]))

    def get(self, blob: Any) -> Any:
        return widened(blob.memory) if blob.dtype == "bf16" else blob.memory

    def put(self, blob: Any, numbers: Any) -> None:
        blob.memory[...] = narrowed(numbers) if blob.dtype == "bf16" else numbers


class BitsAsNumbers(SumKernel):
    """Adds up the bits of bf16."""

    def get(self, blob: Any) -> Any:
        return blob.memory.astype(np.float32)


class FewDigits(SumKernel):
    """Has three digits less than bf16."""

    def put(self, blob: Any, numbers: Any) -> None:
        blob.memory[...] = narrowed(numbers) & 0xFFF8 if blob.dtype == "bf16" else numbers


class WrongGradient(SumKernel):
    """Halves the gradient in bf16."""

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        super().backward(inputs, diffs)
        for dx in diffs:
            if dx is not None and dx.dtype == "bf16":
                self.put(dx, self.get(dx) / 2)


def suite_of(tested: Any) -> type[KernelTests]:
    class Kernel(KernelTests):
        layer = AddLayer
        kernel = tested
        backend_name = "onednn"

        def examples(self) -> Any:
            yield Example(inputs=[(4, 24), (4, 24)])

    return Kernel


@needs_bf16
@pytest.mark.parametrize(
    ("tested", "error"),
    [(SumKernel, ""), (BitsAsNumbers, "top 'top0'"), (FewDigits, "top 'top0'"), (WrongGradient, "gradient of input 0")],
)
def test_the_kit_compares_kernels_in_bf16_if_they_know_it(tested: Any, error: str) -> None:
    suite = suite_of(tested)
    found = failures(suite, backend="onednn", dtypes=("float32",), without=kit_tests(suite) - {"test_narrow"})
    assert list(found) == (["test_narrow"] if error else [])
    if error:
        assert f"{tested.__name__}, in bf16: {error}: off by" in str(found["test_narrow"])


@pytest.mark.parametrize(
    ("dtypes", "checked"), [(("float32",), False), (("float32", "bf16"), True), ((), False)], ids=str
)
def test_the_kit_asks_for_it_of_such_kernels_only(dtypes: Any, checked: bool) -> None:
    class Known(AddState, dtypes=dtypes):
        pass

    assert ("narrow" in suite_of(Known).required()) == checked
