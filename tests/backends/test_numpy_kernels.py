"""The kernels of the numpy backend, each against the layer's own state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from nacre import InputLayer, Layer, LayerState, Names, Net, Own, Solver
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU
from nacre_layers.pooling.functions import Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_numpy.kernels import ConvolutionKernel, InnerProductKernel, PoolingKernel, ReLUKernel
from nacre_solvers import SGD

IMAGES = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(3, 9), st.integers(3, 9))
LINES = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(3, 9))
STEPS = st.integers(1, 3)


def dilated(fields: dict[str, Any], shape: tuple[int, ...], step: int) -> dict[str, Any]:
    """Spread the cells of the filters of a convolution, if they still fit into the image."""
    return {**fields, "dilation": step if (fields["kernel"] - 1) * step < min(shape[2:]) else 1}


class TestConvolutionKernel(KernelTests):
    layer = ConvolutionLayer
    kernel = ConvolutionKernel

    def examples(self):
        yield Example({"n_filter": 4, "kernel": 3, "pad": 1}, [(3, 2, 6, 5)])
        yield Example({"n_filter": 4, "kernel": 3, "pad": 1, "neuron": ReLU()}, [(3, 2, 6, 5)], label="applies ReLU")
        yield Example({"n_filter": 6, "kernel": (3, 2), "stride": (2, 1), "n_group": 2}, [(2, 4, 7, 6)], label="groups")
        yield Example({"n_filter": 3, "kernel": 1, "bias": False}, [(2, 4, 3, 3)], label="one pixel")
        yield Example({"n_filter": 3, "kernel": 5, "neuron": "Tanh"}, [(2, 1, 8, 8)], label="one channel")
        yield Example({"n_filter": 4, "kernel": 3, "dilation": (2, 3), "pad": 2}, [(2, 2, 9, 8)], label="dilation")
        yield Example({"n_filter": 3, "kernel": 2, "stride": 2, "neuron": ReLU()}, [(3, 2, 8)], label="one axis, ReLU")
        yield Example({"n_filter": 3, "kernel": 3, "pad": 1}, [(3, 1, 8)], label="one channel of one axis")
        yield Example({"n_filter": 4, "kernel": 3, "dilation": 2, "n_group": 2}, [(3, 2, 8)], label="lines in groups")
        yield Example({"n_filter": 3, "kernel": 2}, [(2, 2, 3, 3, 3)], label="three axes: declined")

    def strategy(self):
        sizes = {"n_filter": st.sampled_from([1, 2, 5]), "kernel": st.integers(1, 3), "pad": st.integers(0, 1)}
        fields = st.fixed_dictionaries({**sizes, "stride": st.integers(1, 2), "bias": st.booleans()})
        shapes = st.one_of(IMAGES, LINES)
        return st.builds(lambda one, shape, step: Example(dilated(one, shape, step), [shape]), fields, shapes, STEPS)


class TestPoolingKernel(KernelTests):
    layer = PoolingLayer
    kernel = PoolingKernel

    def examples(self):
        yield Example({"kernel": 2, "stride": 2}, [(3, 2, 6, 6)])
        yield Example({"kernel": 3, "stride": 2, "pad": 1}, [(2, 3, 7, 6)], label="overlap and overhang")
        yield Example({"kernel": 3, "stride": 2, "pooling": Mean(), "neuron": ReLU()}, [(2, 3, 8, 7)], label="mean")
        yield Example({"whole": True, "pooling": Mean()}, [(2, 3, 7, 5)], label="whole")
        yield Example({"kernel": 3, "stride": 2, "pad": 1, "neuron": ReLU()}, [(3, 4, 8)], label="one axis")
        yield Example({"whole": True, "pooling": Mean()}, [(3, 4, 8)], label="the whole of one axis")
        yield Example({"kernel": 2, "pooling": Mean(divide_by="kernel")}, [(2, 3, 4, 4)], label="declined")

    def strategy(self):
        sizes = {"kernel": st.integers(2, 3), "stride": st.integers(1, 3), "pad": st.integers(0, 1)}
        kinds = {"pooling": st.sampled_from(["Max", "Mean"]), "rounding": st.sampled_from(["ceil", "floor"])}
        fields = st.fixed_dictionaries({**sizes, **kinds})
        return st.builds(lambda one, shape: Example(one, [shape]), fields, IMAGES)


class TestInnerProductKernel(KernelTests):
    layer = InnerProductLayer
    kernel = InnerProductKernel

    def examples(self):
        yield Example({"output_dim": 3}, [(4, 5)])
        yield Example({"output_dim": 4, "neuron": ReLU()}, [(3, 2, 3, 2)], label="images, applies ReLU")
        yield Example({"output_dim": 300, "bias": False}, [(16, 200)], label="shared out over threads")
        yield Example({"output_dim": 4}, [(3, 2), (3, 2)], label="two bottoms: declined")
        yield Example({"output_dim": 4, "axis": -1}, [(3, 5, 2)], label="an axis more: declined")
        yield Example({"output_dim": 4, "transpose": True}, [(3, 2)], label="transposed: declined")

    def strategy(self):
        fields = st.fixed_dictionaries({"output_dim": st.integers(1, 6), "bias": st.booleans()})
        return st.builds(lambda one, shape: Example(one, [shape]), fields, IMAGES)


def channels_first(channels: int, name: str, bottom: str) -> Layer:
    return ConvolutionLayer(name=name, bottoms=bottom, tops=name, n_filter=channels, kernel=3, pad=1)


class NegateLayer(Layer, can_do_bp=True):
    """A stranger's layer without a kernel, in terms of NumPy's functions: y = -x."""

    bottoms: Names
    tops: Names


class NegateState(LayerState, of=NegateLayer, reads=""):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: list[Any]) -> None:
        assert inputs[0].flags.c_contiguous, "a plain state sees plain arrays"
        self.backend.xp.negative(inputs[0], out=self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        self.backend.xp.negative(self.blobs_diff[0], out=diffs[0])


def chain() -> list[Layer]:
    return [
        InputLayer(name="in", tops="data", shape=(2, 5, 6), batch_size=4),
        channels_first(3, "conv1", "data"),
        NegateLayer(name="negate", bottoms="conv1", tops="negated"),
        channels_first(2, "conv2", "negated"),
        ActivationLayer(name="relu", bottoms="conv2", tops="relu", neuron="ReLU"),
        InnerProductLayer(name="ip", bottoms="relu", tops="ip", output_dim=3),
        InputLayer(name="labels", tops="label", batch_size=4),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]


def gradients(net: Net) -> dict[str, Any]:
    net.write("data", np.random.default_rng(0).normal(size=(4, 2, 5, 6)))
    net.write("label", [0, 1, 2, 0])
    net.forward()
    net.backward()
    return {name: handle.gradient for name, handle in net.parameters.items()}


def test_a_plain_layer_between_two_kernels_sees_plain_arrays() -> None:
    from nacre.testing.trial import without_kernels

    net = Net("kernels", chain(), backend="numpy", dtype="float64")
    found = gradients(net)
    assert [op.name for op in net.ops if op.kernel] == ["conv1", "conv2", "relu/ReLU", "ip"]
    copies = [(name, one[0], other[0]) for name, one, other in net.schedule.copies]
    assert ("conv1", "own", "host") in copies
    assert ("negated", "host", "own") in copies
    with without_kernels(ConvolutionLayer, ReLU, InnerProductLayer):
        plain = Net("plain", chain(), backend="numpy", dtype="float64")
    for name, gradient in gradients(plain).items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-11, atol=1e-14, err_msg=name)


def test_the_relu_kernel_runs_on_the_blobs_of_its_neighbours() -> None:
    net = Net("kernels", chain(), backend="numpy")
    relu = next(op for op in net.ops if op.name == "relu/ReLU")
    assert isinstance(relu.state, ReLUKernel)
    assert isinstance(relu.input_arrays[0], Own)
    assert relu.input_arrays[0].layout == "channels last"


def test_another_epsilon_is_not_served() -> None:
    relu = ActivationLayer(bottoms="x", tops="y", neuron={"type": "ReLU", "epsilon": 0.5})
    layers = [InputLayer(name="in", tops="x", shape=3), relu]
    op = Net("net", layers, backend="numpy").ops[-1]
    assert not op.kernel
    assert [reason for _, reason in op.choice.declined] == ["serves epsilon=0, not 0.5"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_update_kernel_gives_the_bits_of_the_plain_update(dtype: str) -> None:
    from nacre.testing.trial import without_kernels

    def train() -> dict[str, Any]:
        net = Net("net", chain(), backend="numpy", dtype=dtype)
        gradients(net)
        training = Solver(SGD(), lr_policy=0.1, momentum_policy=0.9, regu_coef=0.01).start(net)
        for _ in range(5):
            training.step()
        return {name: handle.value for name, handle in net.parameters.items()}

    found = train()
    with without_kernels(SGD):
        expected = train()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
