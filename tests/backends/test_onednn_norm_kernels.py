"""The kernels of the onednn backend that normalise, activate and join, each against the layer's own state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from nacre import Identity, InputLayer, Layer, Net, Neuron, open_backend
from nacre.testing.close import assert_near
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example, Trial, layer_of
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.neurons import GELU, ReLU
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.normalisation.lrn import LRNLayer
from nacre_layers.normalisation.rms_norm import RMSNormLayer
from nacre_layers.pooling.functions import Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.split import SplitLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.kernels.base import OnednnKernel
from nacre_onednn.kernels.batch_norm import BatchNormKernel
from nacre_onednn.kernels.concat import ConcatKernel
from nacre_onednn.kernels.element_wise import ElementWiseKernel, SplitKernel
from nacre_onednn.kernels.lrn import LRNKernel
from nacre_onednn.kernels.neurons import NeuronKernel
from nacre_onednn.kernels.norm import LayerNormKernel, RMSNormKernel
from nacre_onednn.kernels.softmax import SoftmaxKernel

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)

CHANNELS = st.sampled_from([1, 3, 5, 8, 16, 20, 32])
IMAGES = st.tuples(st.integers(1, 4), CHANNELS, st.integers(1, 9), st.integers(1, 9))


class TestBatchNormKernel(KernelTests):
    layer = BatchNormLayer
    kernel = BatchNormKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        yield Example({"decay": 0.7}, [(3, 32, 5, 4)], label="blocks")
        yield Example({"neuron": ReLU()}, [(3, 32, 5, 4)], label="blocks, ReLU")
        yield Example({"neuron": ReLU(), "scale": False}, [(3, 20, 5, 4)], label="no scale, ReLU")
        yield Example({"neuron": "Tanh", "bias": False}, [(3, 2, 5, 4)], label="plain images, no bias, another neuron")
        yield Example({"scale": False, "bias": False, "epsilon": 0.1}, [(6, 7)], label="two axes, no parameters")
        yield Example({"use_running": True, "neuron": ReLU()}, [(3, 16, 5, 4)], label="running values, ReLU")
        yield Example({"axis": -1}, [(3, 4, 5)], label="last axis: declined")

    def strategy(self) -> Any:
        booleans = {name: st.booleans() for name in ("scale", "bias", "use_running")}
        numbers = {"epsilon": st.floats(1e-3, 1), "decay": st.floats(0, 0.99)}
        neuron = {"neuron": st.sampled_from(["Identity", "ReLU"])}
        images = st.tuples(st.integers(3, 5), CHANNELS, st.integers(2, 9), st.integers(2, 9))
        fields = st.fixed_dictionaries({**booleans, **numbers, **neuron})
        return st.builds(lambda one, shape: Example(one, [shape]), fields, images)


class RowsNormalised(KernelTests):
    """Rows of numbers of any length, around those of registers."""

    backend_name = "onednn"

    def examples(self) -> Any:
        yield Example({"axis": -1}, [(3, 7, 40)], label="steps")
        yield Example({}, [(5, 7)], label="two axes")
        yield Example({"axis": 2, "scale": False}, [(3, 2, 5, 4, 2)], label="several axes, no scale")
        yield Example({"axis": -1, "neuron": "Tanh", "epsilon": 0.1}, [(300, 2, 16)], label="many rows, a neuron")
        yield Example({"axis": -1}, [(2, 3, 4, 5)], label="images: declined")

    def strategy(self) -> Any:
        fields = st.fixed_dictionaries({"scale": st.booleans()})
        length = st.integers(3, 70)  # two numbers become 1 and -1, whatever they are: their gradients are roundings
        shapes = st.tuples(st.integers(1, 40), st.integers(1, 3), length)
        return st.builds(lambda one, shape: Example({**one, "axis": -1}, [shape]), fields, shapes)


class TestLayerNormKernel(RowsNormalised):
    layer = LayerNormLayer
    kernel = LayerNormKernel

    def examples(self) -> Any:
        yield from super().examples()
        yield Example({"bias": False}, [(5, 7)], label="no bias")
        yield Example({"scale": False, "bias": False}, [(5, 7)], label="no parameters")


class TestRMSNormKernel(RowsNormalised):
    layer = RMSNormLayer
    kernel = RMSNormKernel


@pytest.mark.parametrize("layer", [LayerNormLayer, RMSNormLayer])
def test_rows_far_from_zero_are_exact(layer: Any) -> None:
    """As the layer's own code in float64."""
    x = np.random.default_rng(0).normal(size=(6, 300)).astype(np.float32) + np.float32(1e4)
    found: list[Any] = []
    for options in ({"backend": "onednn"}, {"backend": "numpy", "dtype": "float64"}):
        layers: list[Layer] = [
            InputLayer(name="in", tops="x", shape=300, batch_size=6),
            layer(name="norm", bottoms="x", tops="y"),
        ]
        with Net("far", layers, phase="predict", **options) as net:
            net.write("x", x)
            net.forward()
            found.append(net.blob("y"))
    assert np.abs(found[0] - found[1]).max() < 1e-5


def test_rows_that_hardly_differ_are_exact() -> None:
    """Roundings of the mean are as large as differences of numbers, or their squares above the largest number."""
    x = np.stack([np.float32(3e7) + np.arange(303, dtype=np.float32) % 3 * 2, np.full(303, 1e30, np.float32)])
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=303, batch_size=2),
        LayerNormLayer(name="norm", bottoms="x", tops="y"),
    ]
    with Net("near", layers, phase="predict", backend="onednn") as net:
        net.write("x", x)
        net.forward()
        found = net.blob("y")
    exact = x[0].astype(np.float64) - x[0].mean(dtype=np.float64)
    assert np.abs(found[0] - exact / np.sqrt(np.mean(exact**2) + 1e-5)).max() < 1e-6
    assert not found[1].any()


@pytest.mark.skipif(not open_backend("onednn").computes, reason="the processor has no bf16")
@pytest.mark.parametrize("layer", [LayerNormLayer, RMSNormLayer])
def test_rows_in_bf16_are_near_float32(layer: Any) -> None:
    found: list[list[Any]] = []
    for compute in ("bf16", None):
        layers: list[Layer] = [
            InputLayer(name="in", tops="x", shape=(5, 24), batch_size=3),
            InputLayer(name="other", tops="z", shape=(5, 24), batch_size=3),
            layer(name="norm", bottoms="x", tops="n", axis=-1),
            InnerProductLayer(name="ip", bottoms="n", tops="y", output_dim=24, axis=-1),
            SquareLossLayer(name="loss", bottoms=["y", "z"]),
        ]
        with Net("n", layers, backend="onednn", compute=compute, input_gradients=["x"], keep="n", seed=2) as net:
            net.write("x", np.random.default_rng(0).normal(size=(3, 5, 24)))
            net.write("z", np.random.default_rng(1).normal(size=(3, 5, 24)))
            net.forward()
            net.backward()
            found.append([net.blob("n"), net.gradient("x"), *(one.gradient for one in net.parameters.values())])
        net.backend.parameters.clear()
    for narrow, wide in zip(*found, strict=True):
        assert np.linalg.norm(narrow - wide) < 0.03 * np.linalg.norm(wide)


class TestLRNKernel(KernelTests):
    layer = LRNLayer
    kernel = LRNKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        yield Example({}, [(2, 32, 5, 4)], label="across five")
        yield Example({"kernel": 3, "scale": 0.5, "shift": 2.0}, [(3, 32, 5, 4)], label="across three")
        yield Example({"kernel": 5, "scale": 1e-4}, [(2, 20, 5, 4)], label="channels that fill no block")
        yield Example({"kernel": 3, "mode": "within", "scale": 0.5}, [(2, 16, 6, 5)], label="within")
        yield Example({"kernel": 4}, [(2, 16, 6, 5)], label="even: declined")
        yield Example({}, [(2, 3, 6, 5)], label="plain images: declined")

    def strategy(self) -> Any:
        kernels = {"kernel": st.sampled_from([1, 3, 5, 7]), "mode": st.sampled_from(["across", "within"])}
        numbers = {"scale": st.floats(0, 2), "shift": st.floats(0.5, 2), "power": st.sampled_from([0.75, 0.5, 1.0])}
        fields = st.fixed_dictionaries({**kernels, **numbers})
        return st.builds(lambda one, shape: Example(one, [shape]), fields, IMAGES)


class TestElementWiseKernel(KernelTests):
    layer = ElementWiseLayer
    kernel = ElementWiseKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        yield Example({}, [(3, 32, 5, 4)] * 2, tops=1)
        yield Example({"neuron": ReLU()}, [(3, 32, 5, 4)] * 2, tops=1, label="ReLU")
        yield Example({"neuron": ReLU()}, [(3, 20, 5, 4)] * 4, tops=1, label="four bottoms, ReLU")
        yield Example({"neuron": "Tanh"}, [(3, 7)] * 3, tops=1, label="three bottoms, plain")
        for operation in ("Multiply", "Divide", "Maximum", "Subtract", "Mean"):
            yield Example({"operation": operation}, [(3, 32, 5, 4)] * 2, tops=1, label=operation)
            yield Example({"operation": operation, "neuron": ReLU()}, [(3, 7)] * 2, tops=1, label=f"{operation}, ReLU")
        for operation in ("Multiply", "Maximum", "Mean"):
            yield Example(
                {"operation": operation, "neuron": "Tanh"}, [(3, 7)] * 4, tops=1, label=f"{operation} of four"
            )
        coefficients = {"type": "Add", "coefficients": [0.5, -1, 2]}
        yield Example({"operation": coefficients, "neuron": ReLU()}, [(3, 20, 5, 4)] * 3, tops=1, label="coefficients")
        yield Example({"operation": "Maximum"}, [np.zeros((2, 9), np.float32)] * 3, tops=1, label="equal bottoms")
        yield Example({"operation": "Multiply"}, [(3, 7)] * 9, tops=1, label="too many: declined")

    def strategy(self) -> Any:
        kinds = st.sampled_from(["Add", "Multiply", "Maximum", "Mean", "Subtract", "Divide"])
        fields = st.fixed_dictionaries({"neuron": st.sampled_from(["Identity", "ReLU"]), "operation": kinds})

        def build(one: dict[str, Any], shape: tuple[int, ...], count: int) -> Example:
            return Example(one, [shape] * (2 if one["operation"] in ("Subtract", "Divide") else count), tops=1)

        return st.builds(build, fields, IMAGES, st.integers(2, 3))


class TestSplitKernel(KernelTests):
    layer = SplitLayer
    kernel = SplitKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        yield Example({}, [(3, 32, 5, 4)], tops=2)
        yield Example({}, [(3, 7)], tops=3, label="three tops, plain")
        yield Example({}, [(3, 20, 2, 2)], label="one top")


class TestConcatKernel(KernelTests):
    layer = ConcatLayer
    kernel = ConcatKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        yield Example({}, [(3, 16, 5, 4), (3, 32, 5, 4)], tops=1, label="blocks")
        yield Example({}, [(3, 20, 5, 4), (3, 28, 5, 4), (3, 3, 5, 4)], tops=1, label="parts that fill no block")
        yield Example({}, [(3, 20, 5, 4), (3, 28, 5, 4)], tops=1, label="parts that together fill blocks")
        yield Example({"axis": -1}, [(3, 16, 5, 4), (3, 16, 5, 2)], tops=1, label="another axis")
        yield Example({"axis": 0}, [(3, 7), (2, 7)], tops=1, label="batches")

    def strategy(self) -> Any:
        def example(shape: tuple[int, ...], axis: int, lengths: list[int]) -> Example:
            return Example({"axis": axis}, [(*shape[:axis], one, *shape[axis + 1 :]) for one in lengths], tops=1)

        lengths = st.lists(st.sampled_from([1, 3, 8, 16, 20, 32]), min_size=1, max_size=3)
        return st.builds(example, IMAGES, st.integers(1, 3), lengths)


class TestSoftmaxKernel(KernelTests):
    layer = SoftmaxLayer
    kernel = SoftmaxKernel
    backend_name = "onednn"

    def examples(self) -> Any:
        yield Example({}, [(5, 10)], label="scores")
        yield Example({"axis": -1}, [(3, 16)], label="the last axis")
        yield Example({"axis": 2}, [(3, 5, 16)], label="steps")
        yield Example({}, [(3, 5, 16)], label="the axis between")
        yield Example({}, [(3, 4, 5, 6)], label="pixels of four classes")
        yield Example({}, [(3, 32, 5, 6)], label="pixels")
        yield Example({}, [(2, 5, 3, 2, 3)], label="pixels of films")
        yield Example({"axis": -1}, [(3, 5, 2, 3)], label="images: declined")
        yield Example({}, [(3, 700)], label="many classes")
        yield Example({"axis": 0}, [(3, 5)], label="the batch: declined")

    def strategy(self) -> Any:
        rows = st.lists(st.integers(1, 9), min_size=1, max_size=3)
        scores = st.builds(lambda some, classes: (*some, classes), rows, st.integers(1, 99))
        images = st.lists(st.integers(1, 17), min_size=3, max_size=4).map(tuple)
        axes = st.sampled_from([1, -1])
        return st.builds(lambda shape, axis: Example({"axis": axis}, [shape]), st.one_of(scores, images), axes)


@pytest.mark.parametrize("compute", ["float32", "bf16"])
@pytest.mark.parametrize("classes", [1, 17, 256, 257, 700])
def test_softmax_of_many_and_of_extreme_scores(compute: Any, classes: int) -> None:
    backend = open_backend("onednn")
    if compute not in ("float32", *backend.computes):
        pytest.skip(f"this processor has no {compute}")
    layers = [
        InputLayer(name="in", tops="x", shape=classes, batch_size=5),
        SoftmaxLayer(name="softmax", bottoms="x", tops="y"),
    ]
    net = Net("net", layers, phase="predict", backend=backend, compute=compute)
    x = np.random.default_rng(classes).integers(-8, 9, (5, classes)).astype(np.float32)
    x[1] *= 1000
    x[2, 0], x[3, -1], x[4, 0] = -np.inf, np.nan, -3e38
    net.write("x", x)
    with np.errstate(invalid="ignore"):
        net.forward()
        exponentials = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        expected = exponentials / exponentials.sum(1, keepdims=True)
    found = net.blob("y")
    assert np.array_equal(np.isnan(found), np.isnan(expected)) and np.isnan(found[3]).all()
    there = ~np.isnan(expected)
    assert np.allclose(found[there], expected[there], rtol=2**-8 if compute == "bf16" else 1e-6, atol=1e-30)


NEURONS = [
    {"type": "ELU", "alpha": 0.7},
    {"type": "Exponential"},
    {"type": "GELU"},
    {"type": "GELU", "approximate": "tanh"},
    {"type": "Hardswish"},
    {"type": "LReLU", "slope": 0.2},
    {"type": "Mish"},
    {"type": "SELU"},
    {"type": "STanh"},
    {"type": "Sigmoid"},
    {"type": "SiLU", "beta": 1.5},
    {"type": "Softplus", "beta": 2.0},
    {"type": "Tanh"},
]


@pytest.mark.parametrize("shape", [(3, 16, 4, 5), (3, 20, 4, 5), (4, 7)])
@pytest.mark.parametrize("neuron", NEURONS, ids=str)
def test_neurons(neuron: dict[str, Any], shape: tuple[int, ...]) -> None:
    example = Example({"neuron": neuron}, [shape])
    runs: list[Trial] = []
    for backend, dtype in (("onednn", "float32"), ("numpy", "float64")):
        trial = Trial(lambda one: layer_of(ActivationLayer, one), example, backend=backend, dtype=dtype)
        trial.forward()
        runs.append(trial)
    fast, exact = runs
    assert [type(op.state) for op in fast.net.ops if op.neuron is not None] == [NeuronKernel]
    assert_near(fast.results()[0], exact.results()[0], "top")
    assert_near(fast.gradients()["input 0"], exact.gradients()["input 0"], "gradient")


# Whole nets

RELU = ReLU()


def residual() -> list[Layer]:
    """A small residual net: a plain block, one whose short cut is a convolution, and parts that are joined."""
    layers: list[Layer] = [InputLayer(tops="data", shape=(3, 12, 12), batch_size=4)]

    def convolve(name: str, bottom: str, stride: int = 1, neuron: Neuron = RELU, kernel: int = 3) -> str:
        sizes = {"n_filter": 16 * stride, "kernel": kernel, "stride": stride, "pad": kernel // 2, "bias": False}
        layers.append(ConvolutionLayer(name=name, bottoms=bottom, tops=name, **sizes))
        layers.append(BatchNormLayer(bottoms=name, tops=f"{name}_bn", neuron=neuron))
        return f"{name}_bn"

    first = convolve("conv", "data")
    layers.append(SplitLayer(bottoms=first, tops=["a", "b"]))
    parts = [convolve("conv_a2", convolve("conv_a1", "a"), neuron=Identity()), "b"]
    layers.append(ElementWiseLayer(name="sum", bottoms=parts, tops="sum", neuron=RELU))
    layers.append(SplitLayer(bottoms="sum", tops=["c", "d"]))
    parts = [convolve("conv_c", "c", 2, Identity()), convolve("conv_d", "d", 2, Identity(), kernel=1)]
    layers.append(ElementWiseLayer(name="sum2", bottoms=parts, tops="sum2", neuron=GELU()))
    layers.append(SplitLayer(bottoms="sum2", tops=["e", "f"]))
    layers.append(ConcatLayer(bottoms=["e", "f"], tops="joined"))
    layers.append(PoolingLayer(bottoms="joined", tops="mean", kernel=6, pooling=Mean()))
    return [*layers, *scores("mean")]


def normalised() -> list[Layer]:
    """A small AlexNet: LRN across channels and within them, groups and dropout."""
    relu: dict[str, Any] = {"kernel": 3, "pad": 1, "neuron": RELU}
    return [
        InputLayer(tops="data", shape=(3, 12, 12), batch_size=4),
        ConvolutionLayer(bottoms="data", tops="conv1", n_filter=32, **relu),
        LRNLayer(bottoms="conv1", tops="norm1", scale=1e-2),
        PoolingLayer(bottoms="norm1", tops="pool1", kernel=3, stride=2),
        ConvolutionLayer(bottoms="pool1", tops="conv2", n_filter=32, n_group=2, **relu),
        LRNLayer(bottoms="conv2", tops="norm2", scale=1e-2, kernel=3, mode="within"),
        PoolingLayer(bottoms="norm2", tops="pool2", kernel=3, stride=2),
        DropoutLayer(bottoms="pool2"),
        *scores("pool2"),
    ]


def scores(bottom: str) -> list[Layer]:
    return [
        InnerProductLayer(name="ip", bottoms=bottom, tops="ip", output_dim=10),
        InputLayer(tops="label", batch_size=4),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]


@pytest.mark.parametrize("make", [residual, normalised])
def test_whole_nets_agree_with_numpy(make: Callable[[], list[Layer]]) -> None:
    random = np.random.default_rng(0)
    data, label = random.normal(size=(4, 3, 12, 12)), random.integers(0, 10, 4)
    found: dict[str, dict[str, Any]] = {}
    for backend in ("onednn", "numpy"):
        net = Net("net", make(), backend=backend)
        if backend == "onednn":
            own = {op.name for op in net.ops if not op.kernel}
            assert own <= {"data", "label"}, f"{own} have no kernel"
        for _ in range(2):
            net.write("data", data)
            net.write("label", label)
            net.forward()
            net.backward()
        gradients = {name: one.gradient for name, one in net.parameters.items() if one.gradient is not None}
        buffers = {name: one.value for name, one in net.parameters.items() if one.gradient is None}
        found[backend] = {"loss": np.float32(net.loss()), **gradients, **buffers}
    for name, expected in found["numpy"].items():
        assert_near(found["onednn"][name], expected, name)


def test_no_reference_code_is_accepted() -> None:
    states = [op.state for make in (residual, normalised) for op in Net("net", make(), backend="onednn").ops]
    calls = [
        one for state in states if isinstance(state, OnednnKernel) for each in state.calls.values() for one in each
    ]
    assert len(calls) > 50
    assert [one.info for one in calls if "ref" in one.info] == []


def test_a_frozen_batch_norm_keeps_its_statistics() -> None:
    layers: list[Layer] = [
        InputLayer(tops="data", shape=(16, 4, 4), batch_size=4),
        BatchNormLayer(name="bn", bottoms="data", tops="y", neuron=ReLU()),
        InnerProductLayer(name="ip", bottoms="y", tops="ip", output_dim=3),
        InputLayer(tops="label", batch_size=4),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]
    net = Net("net", layers, backend="onednn", keep=("y",), input_gradients=("data",))
    net.freeze("bn")
    variance = np.linspace(0.5, 2, 16, dtype=np.float32)
    net.parameters["bn/variance"].value = variance
    data = np.random.default_rng(0).normal(size=(4, 16, 4, 4)).astype(np.float32)
    net.write("data", data)
    net.forward()
    net.backward()
    expected = np.maximum(data / np.sqrt(variance + np.float32(1e-5))[:, None, None], 0)
    assert_near(net.blob("y"), expected, "top")
    np.testing.assert_array_equal(net.parameters["bn/variance"].value, variance)
    assert net.parameters["bn/scale"].gradient is None
    assert np.isfinite(net.gradient("data")).all()
    net.unfreeze("bn")
    net.forward()
    assert not np.array_equal(net.parameters["bn/variance"].value, variance)


def test_gradients_of_a_blob_with_several_readers_are_added_up_where_they_lie() -> None:
    """Without Split layers; the first to write the gradient of `sum` is a sum, and a ReLU in place comes after it."""
    random = np.random.default_rng(0)
    data, label = random.normal(size=(4, 3, 12, 12)), random.integers(0, 10, 4)
    wide: dict[str, Any] = {"n_filter": 32, "kernel": 3, "pad": 1}

    def net(backend: str) -> Net:
        layers: list[Layer] = [
            InputLayer(tops="data", shape=(3, 12, 12), batch_size=4),
            ConvolutionLayer(bottoms="data", tops="a", **wide),
            ConvolutionLayer(name="b", bottoms="a", tops="b", **wide),
            ConvolutionLayer(name="c", bottoms="a", tops="c", **wide),
            ElementWiseLayer(bottoms=["a", "b", "c"], tops="sum", neuron=RELU),
            ActivationLayer(bottoms="sum", tops="d", neuron="ReLU"),
            ElementWiseLayer(bottoms=["sum", "d"], tops="twice"),
            *scores("twice"),
        ]
        net = Net("net", layers, backend=backend, insert_splits=True, keep=("a",))
        net.write("data", data)
        net.write("label", label)
        net.forward()
        net.backward()
        return net

    fast, exact = net("onednn"), net("numpy")
    kept = {blob for blob, _, _ in fast.schedule.copies}
    assert kept <= {"a", "twice"}, "only what is kept, and what goes into the plain scores, is copied"
    assert_near(fast.gradient("a"), exact.gradient("a"), "gradient of a")
    for name, handle in exact.parameters.items():
        assert_near(fast.parameters[name].gradient, handle.gradient, name)


@pytest.mark.skipif("bf16" not in open_backend("onednn").computes, reason="this processor has no bf16")
@pytest.mark.parametrize("make", [residual, normalised])
def test_whole_nets_in_bf16_are_near_numpy(make: Callable[[], list[Layer]]) -> None:
    random = np.random.default_rng(0)
    data, label = random.normal(size=(4, 3, 12, 12)), random.integers(0, 10, 4)
    nets = [Net("net", make(), backend="onednn", compute="bf16"), Net("net", make(), backend="numpy")]
    for net in nets:
        net.write("data", data)
        net.write("label", label)
        net.forward()
        net.backward()
    narrow, exact = nets
    assert narrow.loss() == pytest.approx(exact.loss(), rel=1e-2)
    for name, handle in exact.parameters.items():
        if handle.gradient is not None:
            assert_near(narrow.parameters[name].gradient, handle.gradient, name, 0.15)
