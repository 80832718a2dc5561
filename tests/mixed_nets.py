"""Nets for the tests of backends with own blobs: those of the examples, and one of layers with kernels and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nacre import InputLayer, Layer, Net, Neuron, Solver
from nacre.config import load
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU, STanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.pooling.functions import Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.regularizers import L2
from nacre_solvers import SGD

EXAMPLES = Path(__file__).parents[1] / "examples"


def fill(net: Net, seed: int = 0) -> None:
    """Write random numbers into `data`, and labels from 0 to 2 into `label`."""
    random = np.random.default_rng(seed)
    for name, value in net.memory.final.items():
        if name in ("data", "label"):
            shape = value.shape
            net.write(name, random.integers(0, 3, shape) if name == "label" else random.normal(size=shape))


def from_file(path: str, backend: str = "onednn", **options: Any) -> Net:
    """Make the training net of an example, with random data."""
    net = load(EXAMPLES / path).net("train", backend=backend, **options)
    fill(net)
    return net


def mixed(neuron: Neuron) -> list[Layer]:
    """Return layers of few channels and odd ones, groups, dropout in place, and a neuron with a kernel or without."""
    return [
        InputLayer(name="in", tops="data", shape=(3, 9, 9), batch_size=6),
        InputLayer(name="labels", tops="label", batch_size=6),
        ConvolutionLayer(bottoms="data", tops="conv1", n_filter=16, kernel=3, pad=1, neuron=neuron),
        BatchNormLayer(name="norm", bottoms="conv1", tops="norm"),
        PoolingLayer(bottoms="norm", tops="pool1", kernel=3, stride=2, neuron=ReLU()),
        ConvolutionLayer(bottoms="pool1", tops="conv2", n_filter=20, kernel=3, n_group=4, neuron=ReLU()),
        DropoutLayer(name="drop1", bottoms="conv2", ratio=0.25),
        PoolingLayer(bottoms="conv2", tops="pool2", kernel=2, pooling=Mean()),
        InnerProductLayer(bottoms="pool2", tops="ip1", output_dim=30, neuron=ReLU(), weight_regu=L2()),
        DropoutLayer(name="drop2", bottoms="ip1"),
        InnerProductLayer(bottoms="ip1", tops="ip2", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"]),
    ]


def mixed_net(backend: str = "onednn", neuron: Neuron | None = None, **options: Any) -> Net:
    """Make a net of them, with random data; STanh, which has no kernel, works on own blobs unless a neuron is given."""
    net = Net("mixed", mixed(neuron or STanh()), backend=backend, seed=3, **options)
    fill(net)
    return net


def trained(net: Net, iterations: int) -> dict[str, bytes]:
    """Train a net; give the bits of its parameters."""
    with Solver(SGD(), lr_policy=0.05, momentum_policy=0.9).start(net) as training:
        for _ in range(iterations):
            training.step()
    return {name: handle.value.tobytes() for name, handle in net.parameters.items()}
