"""Layers that write in place above others whose backward reads what they overwrite: gradients of whole nets.

In Mocha.jl, Dropout in place over a Sigmoid or Tanh neuron gives wrong gradients, by as much as 3; ReLU hides it.
"""

import numpy as np
import pytest

from nacre import InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.gradients import check_net_gradients
from nacre.testing.trial import backends, without_kernels
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.reshape import ReshapeLayer
from nacre_layers.shapes.split import SplitLayer


def ip(bottom, top, **fields):
    return InnerProductLayer(bottoms=[bottom], tops=[top], **{"output_dim": 6, "weight_init": "Gaussian", **fields})


def drop(bottom, **fields):
    return DropoutLayer(name=f"drop-{bottom}", bottoms=[bottom], **fields)


NETS = {
    **{
        f"{name} neuron, dropout": [ip("x", "a", neuron=name), drop("a"), ip("a", "y")]
        for name in ("Sigmoid", "Tanh", "ReLU")
    },
    "softmax, dropout": [ip("x", "a"), SoftmaxLayer(bottoms=["a"], tops=["b"]), drop("b"), ip("b", "y")],
    "split, dropout on one branch": [
        ip("x", "a", neuron="Tanh"),
        SplitLayer(name="split", bottoms=["a"], tops=["b", "c"]),
        drop("b"),
        ConcatLayer(bottoms=["b", "c"], tops=["d"]),
        ip("d", "y"),
    ],
    "pooling, dropout": [
        ConvolutionLayer(bottoms=["x"], tops=["a"], n_filter=3, kernel=2, weight_init="Gaussian"),
        PoolingLayer(bottoms=["a"], tops=["b"], kernel=2),
        drop("b"),
        ip("b", "y"),
    ],
    "pooling with a neuron, dropout": [
        ConvolutionLayer(bottoms=["x"], tops=["a"], n_filter=3, kernel=2, neuron="Tanh", weight_init="Gaussian"),
        PoolingLayer(bottoms=["a"], tops=["b"], kernel=2, stride=2, pooling="Mean", neuron="Sigmoid"),
        drop("b"),
        ip("b", "y"),
    ],
    "two dropouts, reshape between": [
        ip("x", "a", neuron="Tanh"),
        drop("a", ratio=0.2),
        ReshapeLayer(bottoms=["a"], tops=["b"], shape=[2, 3]),
        drop("b", ratio=0.2),
        ip("b", "y"),
    ],
}


def make(layers, **options):
    sources = [
        InputLayer(name="in", tops=["x"], shape=(2, 4, 4), batch_size=3),
        InputLayer(name="labels", tops=["label"], batch_size=3, dtype="int64"),
    ]
    # The weights belong to the layers: a net made before has left the same, as seed and names are the same.
    net = Net("n", [*sources, *layers, SoftmaxLossLayer(bottoms=["y", "label"])], dtype="float64", **options)
    net.write("x", np.random.default_rng(3).standard_normal((3, 2, 4, 4)))
    net.write("label", [0, 5, 2])
    return net


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("name", NETS)
def test_gradients(name, backend):
    errors = check_net_gradients(make(NETS[name], backend=backend))
    assert errors and max(error for _, error in errors) < 1e-6, errors
    with without_kernels():
        errors = check_net_gradients(make(NETS[name], backend=backend))
    assert errors and max(error for _, error in errors) < 1e-6, errors


@pytest.mark.parametrize("name", NETS)
def test_a_net_that_keeps_everything_gives_the_same(name):
    nets = [make(NETS[name], backend="numpy", input_gradients=["x"], keep=keep) for keep in ((), "all")]
    for _ in range(2):  # the second pass finds the memory as the first has left it
        assert_close(nets[0].forward(), nets[1].forward())
        for net in nets:
            net.backward()
        assert_close(nets[0].gradient("x"), nets[1].gradient("x"))
        for parameter in nets[0].parameters:
            assert_close(nets[0].parameters[parameter].gradient, nets[1].parameters[parameter].gradient, parameter)


def test_in_place_on_what_a_source_gives():
    layers = [InputLayer(tops=["x"], shape=6, batch_size=3), drop("x"), ip("x", "y")]
    net = Net("n", layers, backend="numpy", dtype="float64")
    x = np.random.default_rng(0).standard_normal((3, 6))
    results = []
    for factor in (1, 2, 1):
        net.write("x", factor * x)
        net.forward()
        results.append(net.blob("y"))
    bias = net.parameters["y/bias"].value
    assert_close(results[1] - bias, 2 * (results[0] - bias))
    assert_close(results[2], results[0], tolerance=0.0)
    assert_close(net.predict(x, output="y"), x @ net.parameters["y/weight"].value.T + bias)


def test_the_masks_are_not_empty():
    net = make(NETS["Tanh neuron, dropout"], backend="numpy", keep=["a"])
    net.forward()
    share = np.mean(net.blob("a") == 0)
    assert 0.2 < share < 0.8
