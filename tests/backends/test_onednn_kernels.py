"""The kernels of the onednn backend, each against the layer's own state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from losses import NORMALIZE, WEIGHT, scores_and_labels
from nacre import InputLayer, Layer, Net, open_backend
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU
from nacre_layers.pooling.functions import Max, Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.kernels.base import OnednnKernel
from nacre_onednn.kernels.convolution import ConvolutionKernel
from nacre_onednn.kernels.inner_product import InnerProductKernel
from nacre_onednn.kernels.loss import SoftmaxLossKernel
from nacre_onednn.kernels.pooling import PoolingKernel
from nacre_onednn.kernels.relu import ReLUKernel

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)

CHANNELS = st.sampled_from([1, 3, 5, 8, 16, 20, 32])
IMAGES = st.tuples(st.integers(1, 4), CHANNELS, st.integers(3, 9), st.integers(3, 9))
LINES = st.tuples(st.integers(1, 20), CHANNELS, st.integers(3, 20))
FILMS = st.tuples(st.integers(1, 3), CHANNELS, st.integers(3, 5), st.integers(3, 6), st.integers(3, 6))
ANY_IMAGES = st.one_of(IMAGES, LINES, FILMS)
STEPS = st.integers(1, 3)


def dilated(fields: dict[str, Any], shape: tuple[int, ...], step: int) -> dict[str, Any]:
    """Spread the cells of the filters of a convolution, if they still fit into the image."""
    return {**fields, "dilation": step if (fields["kernel"] - 1) * step < min(shape[2:]) else 1}


class TestConvolutionKernel(KernelTests):
    layer = ConvolutionLayer
    kernel = ConvolutionKernel
    backend_name = "onednn"

    def examples(self):
        yield Example({"n_filter": 4, "kernel": 3, "pad": 1}, [(3, 2, 6, 5)])
        yield Example({"n_filter": 20, "kernel": 5, "neuron": ReLU()}, [(3, 1, 12, 12)], label="one channel, ReLU")
        yield Example({"n_filter": 16, "kernel": 3, "pad": 1, "neuron": ReLU()}, [(3, 32, 6, 5)], label="blocks")
        yield Example(
            {"n_filter": 8, "kernel": (3, 2), "stride": (2, 1), "n_group": 2}, [(2, 12, 7, 6)], label="groups"
        )
        yield Example({"n_filter": 16, "kernel": 3, "n_group": 16, "pad": 1}, [(2, 16, 7, 6)], label="depthwise")
        yield Example({"n_filter": 8, "kernel": 1, "bias": False}, [(2, 16, 3, 3)], label="one pixel, no bias")
        yield Example({"n_filter": 8, "kernel": 3, "stride": 3}, [(2, 8, 10, 11)], label="pixels that no window sees")
        yield Example({"n_filter": 8, "kernel": 3, "dilation": (2, 3), "pad": 2}, [(2, 8, 9, 8)], label="dilation")
        yield Example({"n_filter": 8, "kernel": 5, "neuron": "Tanh"}, [(2, 8, 5, 5)], label="a neuron of its own")
        yield Example({"n_filter": 3, "kernel": 2}, [(2, 2, 8)], label="plain images of one axis")
        yield Example({"n_filter": 32, "kernel": 3, "pad": 1, "neuron": ReLU()}, [(17, 16, 9)], label="one axis, ReLU")
        yield Example({"n_filter": 20, "kernel": 5, "stride": 2, "n_group": 2}, [(3, 10, 12)], label="lines in groups")
        yield Example({"n_filter": 16, "kernel": 2, "dilation": 3, "n_group": 16}, [(3, 16, 12)], label="deep lines")
        yield Example({"n_filter": 20, "kernel": 3, "pad": 1, "neuron": ReLU()}, [(2, 3, 4, 5, 6)], label="three axes")
        yield Example({"n_filter": 32, "kernel": (1, 2, 3), "stride": (1, 2, 1)}, [(2, 16, 4, 5, 6)], label="films")
        yield Example({"n_filter": 16, "kernel": 2, "n_group": 2, "bias": False}, [(2, 16, 3, 3, 4)], label="in groups")
        yield Example({"n_filter": 3, "kernel": 2}, [(2, 2, 4, 4)] * 2, label="two bottoms: declined")

    def strategy(self):
        sizes = {"n_filter": st.sampled_from([1, 5, 8, 16, 50]), "kernel": st.integers(1, 3), "pad": st.integers(0, 2)}
        neurons = st.sampled_from(["Identity", "ReLU"])
        fields = st.fixed_dictionaries({**sizes, "stride": st.integers(1, 3), "bias": st.booleans(), "neuron": neurons})
        shapes = ANY_IMAGES
        return st.builds(lambda one, shape, step: Example(dilated(one, shape, step), [shape]), fields, shapes, STEPS)


class TestPoolingKernel(KernelTests):
    layer = PoolingLayer
    kernel = PoolingKernel
    backend_name = "onednn"

    def examples(self):
        yield Example({"kernel": 2, "stride": 2}, [(3, 2, 6, 6)])
        yield Example({"kernel": 3, "stride": 2, "pad": 1}, [(2, 32, 7, 6)], label="overlap and overhang")
        yield Example({"kernel": 3, "stride": 2, "rounding": "floor"}, [(2, 20, 8, 8)], label="floor")
        yield Example({"kernel": 2, "stride": 2}, [np.zeros((2, 8, 4, 4), np.float32)], label="equal maxima")
        yield Example({"kernel": 3, "stride": 2, "pooling": Mean(), "neuron": ReLU()}, [(2, 16, 8, 7)], label="mean")
        yield Example({"kernel": 3, "pad": 1, "pooling": Mean()}, [(2, 16, 6, 6)], label="mean with padding")
        yield Example({"kernel": 3, "stride": 2, "pad": 1, "pooling": Mean(divide_by="kernel")}, [(2, 8, 6, 6)])
        yield Example({"kernel": 3, "stride": 2, "pad": 1, "pooling": Mean(divide_by="image")}, [(2, 8, 6, 6)])
        yield Example({"kernel": 3, "stride": 2, "pad": 1, "pooling": Mean()}, [(2, 8, 6, 6)], label="declined")
        yield Example({"kernel": 7}, [(2, 16, 7, 7)], label="over all")
        yield Example({"whole": True, "pooling": "Mean"}, [(2, 16, 7, 5)], label="whole")
        yield Example(
            {"kernel": 4, "stride": 4, "rounding": "floor", "neuron": ReLU()}, [(3, 20, 18)], label="one axis"
        )
        yield Example({"whole": True, "pooling": "Mean"}, [(3, 16, 9)], label="the whole of one axis")
        yield Example({"kernel": 3, "stride": 2, "pad": 1, "neuron": ReLU()}, [(2, 16, 5, 6, 7)], label="three axes")
        yield Example({"kernel": 2, "stride": 1}, [np.zeros((2, 8, 3, 4, 4), np.float32)], label="equal maxima")
        yield Example({"kernel": (1, 2, 2), "stride": (1, 2, 2), "pooling": Mean()}, [(2, 16, 3, 4, 6)], label="films")
        yield Example({"kernel": 17, "stride": 4}, [(1, 8, 18, 18)], label="cells that no byte counts")
        yield Example({"kernel": 2, "axes": [3]}, [(2, 8, 4, 4)], label="an axis of two: declined")

    def strategy(self):
        sizes = {"kernel": st.integers(2, 3), "stride": st.integers(1, 3), "pad": st.integers(0, 1)}
        means = [Mean(divide_by=one) for one in ("padded", "kernel", "image")]
        kinds = {"pooling": st.sampled_from([Max(), *means]), "rounding": st.sampled_from(["ceil", "floor"])}
        fields = st.fixed_dictionaries({**sizes, **kinds})
        return st.builds(lambda one, shape: Example(one, [shape]), fields, ANY_IMAGES)


class TestInnerProductKernel(KernelTests):
    layer = InnerProductLayer
    kernel = InnerProductKernel
    backend_name = "onednn"

    def examples(self):
        yield Example({"output_dim": 3}, [(4, 5)])
        yield Example({"output_dim": 4, "neuron": ReLU()}, [(3, 8, 3, 2)], label="images, applies ReLU")
        yield Example({"output_dim": 4, "neuron": "Tanh"}, [(3, 2, 3, 2)], label="plain images")
        yield Example({"output_dim": 300, "bias": False}, [(16, 200)], label="no bias")
        yield Example({"output_dim": 4}, [(3, 2), (3, 2)], label="two bottoms: declined")
        yield Example({"output_dim": 4, "axis": -1}, [(3, 5, 2)], label="steps")
        yield Example({"output_dim": 20, "axis": 2, "neuron": ReLU()}, [(3, 17, 2, 3, 2)], label="steps, applies ReLU")
        yield Example({"output_dim": 4, "axis": 1}, [(5,)], label="no features")
        yield Example({"output_dim": 4, "axis": -1}, [(3, 5, 2, 3)], label="images' last axis: declined")
        yield Example({"output_dim": 4, "axis": -1}, [(3, 5, 2, 3, 2)], label="a blob of five axes")
        yield Example({"output_dim": 4, "axis": 3}, [(3, 5, 2, 3, 2)], label="a top of four axes: declined")
        yield Example({"output_dim": 4, "axis": 0}, [(3, 5)], label="a batch in one row: declined")
        yield Example({"output_dim": 4, "transpose": True}, [(3, 2)], label="transposed: declined")

    def strategy(self):
        def example(shape: tuple[int, ...], before: int, **fields: Any) -> Example:
            return Example({**fields, "axis": before % (len(shape) - 1) + 1}, [shape])

        shapes = st.one_of(IMAGES, st.lists(st.integers(1, 12), min_size=2, max_size=5).map(tuple))
        neurons = st.sampled_from(["Identity", "ReLU"])
        sizes = {"output_dim": st.integers(1, 40), "bias": st.booleans(), "neuron": neurons}
        return st.builds(example, shapes, st.integers(0, 3), **sizes)


class TestSoftmaxLossKernel(KernelTests):
    layer = SoftmaxLossLayer
    kernel = SoftmaxLossKernel
    backend_name = "onednn"

    def examples(self):
        labels, many = np.array([0, 2, 1, 2]), np.arange(37, dtype="uint8")
        yield Example({"weights": [1, 0, 2.5]}, [(4, 3), labels], label="a class without a weight")
        yield Example({"label_smoothing": 0.2}, [(37, 103), many], label="smoothing")
        mixed = {"label_smoothing": 0.3, "weights": [1, 0, 2.5], "ignore_label": 1}
        yield Example(mixed, [(4, 3), labels, np.array([0.5, 0, 1, 2], "float32")], label="with all weights")
        by_place = np.arange(12.0).reshape(3, 4).tolist()
        places = np.arange(8, dtype="int32").reshape(2, 1, 4) % 3
        yield Example({"weights": by_place, "normalize_weights": "global"}, [(2, 3, 4), places], label="by place")
        counted = np.array([[1], [0.25], [3]], "float32")
        yield Example({"axis": -1}, [(3, 2, 4), np.zeros((3, 2)), counted], wanted=[0, 1, 2], label="gradients of all")

    def strategy(self):
        smoothing = st.sampled_from([0.0, 0.05, 0.9])
        return scores_and_labels(weighted=True, weight=WEIGHT, normalize=NORMALIZE, label_smoothing=smoothing)


@pytest.mark.parametrize("shape", [(3, 16, 4, 5), (3, 20, 4, 5), (3, 2, 4, 5), (4, 7), (2, 3, 4)])
def test_relu(shape: tuple[int, ...]) -> None:
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=shape[1:], batch_size=shape[0]),
        ActivationLayer(name="relu", bottoms="x", tops="y", neuron="ReLU"),
    ]
    net = Net("relu", layers, backend="onednn", keep=("x",))
    assert isinstance(net.ops[-1].state, ReLUKernel)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    net.write("x", x)
    net.forward()
    np.testing.assert_array_equal(net.blob("y"), np.maximum(x, 0))
    np.testing.assert_array_equal(net.blob("x"), x, err_msg="what is kept is not overwritten")


def test_another_epsilon_and_another_type_are_declined() -> None:
    relu = ActivationLayer(bottoms="x", tops="y", neuron={"type": "ReLU", "epsilon": 0.5})
    layers = [InputLayer(name="in", tops="x", shape=3), relu]
    op = Net("net", layers, backend="onednn").ops[-1]
    assert not op.kernel
    assert "serves epsilon=0, not 0.5" in [reason for _, reason in op.choice.declined]
    layers = [InputLayer(name="in", tops="x", shape=3), InnerProductLayer(bottoms="x", tops="y", output_dim=2)]
    op = Net("net", layers, backend="onednn", dtype="float64").ops[-1]
    assert op.backend is open_backend("numpy"), "what onednn declines runs through the kernels of numpy"


def test_bottoms_of_other_types_are_declined() -> None:
    for layer in (
        ConvolutionLayer(bottoms="x", tops="y", n_filter=2, kernel=2),
        PoolingLayer(bottoms="x", tops="y", kernel=2),
        InnerProductLayer(bottoms="x", tops="y", output_dim=2),
    ):
        source = InputLayer(name="in", tops="x", shape=(5, 4, 4), dtype="uint8")
        op = Net("net", [source, layer], backend="onednn").ops[1]
        assert "serves a bottom of float32, not uint8" in [reason for _, reason in op.choice.declined]


def test_no_reference_code_is_accepted() -> None:
    """Every layer of a net whose first bottom has one channel, where oneDNN 3.2 would take its reference code."""
    layers: list[Any] = [
        InputLayer(name="in", tops="data", shape=(1, 12, 12), batch_size=2),
        ConvolutionLayer(bottoms="data", tops="conv", n_filter=16, kernel=3),
        PoolingLayer(bottoms="conv", tops="pool", kernel=2, stride=2),
        ConvolutionLayer(bottoms="pool", tops="conv2", n_filter=20, kernel=3),
        InnerProductLayer(bottoms="conv2", tops="ip", output_dim=3),
        InputLayer(name="labels", tops="label", batch_size=2),
        *_loss(),
    ]
    net = Net("net", layers, backend="onednn")
    states = [op.state for op in net.ops if isinstance(op.state, OnednnKernel)]
    used = [one.info for state in states for calls in state.calls.values() for one in calls]
    assert len(used) > 10
    assert [info for info in used if "ref" in info] == []


def _loss() -> list[Layer]:
    from nacre_layers.losses.softmax_loss import SoftmaxLossLayer

    return [SoftmaxLossLayer(name="loss", bottoms=["ip", "label"])]
