"""Training allocates nothing per step: tracemalloc sees no block of 1 KiB or more that comes and goes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from nacre import InputLayer, Layer, Net, Solver
from nacre.threads import number_of_threads
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.neurons import ReLU, Sigmoid, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.pooling.functions import Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_solvers import SGD

BATCH = 8192  # so that an array of labels, even of booleans, is a larger block than all else together


def convolutional() -> list[Layer]:
    return [
        InputLayer(name="in", tops="data", shape=(2, 9, 9), batch_size=BATCH),
        ConvolutionLayer(name="conv1", bottoms="data", tops="conv1", n_filter=4, kernel=3, pad=1, neuron=ReLU()),
        PoolingLayer(name="pool1", bottoms="conv1", tops="pool1", kernel=2, stride=2),
        BatchNormLayer(name="norm", bottoms="pool1", tops="norm", neuron=Tanh()),
        ConvolutionLayer(name="conv2", bottoms="norm", tops="conv2", n_filter=6, kernel=3, n_group=2, neuron=Sigmoid()),
        PoolingLayer(name="pool2", bottoms="conv2", tops="pool2", kernel=2, pooling=Mean()),
        InnerProductLayer(name="ip", bottoms="pool2", tops="ip", output_dim=10),
    ]


def dense() -> list[Layer]:
    return [
        InputLayer(name="in", tops="data", shape=(40,), batch_size=BATCH),
        InnerProductLayer(name="ip1", bottoms="data", tops="ip1", output_dim=50, neuron=ReLU()),
        DropoutLayer(name="drop", bottoms="ip1"),
        InnerProductLayer(name="ip", bottoms="ip1", tops="ip", output_dim=10),
    ]


@pytest.mark.parametrize("layers", [convolutional, dense])
@pytest.mark.parametrize("steps", [5, pytest.param(990, marks=pytest.mark.long)])
def test_a_training_step_allocates_no_block_of_a_kibibyte(layers, steps: int) -> None:
    ends = [
        InputLayer(name="labels", tops="label", batch_size=BATCH),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["ip", "label"]),
    ]
    net = Net("net", [*layers(), *ends], backend="numpy")
    net.write("data", np.random.default_rng(0).normal(size=net.memory.final["data"].shape))
    net.write("label", np.arange(BATCH) % 10)
    training = Solver(SGD(), lr_policy=0.01, momentum_policy=0.9, regu_coef=1e-3).start(net)
    for _ in range(10):
        training.step()
    tracemalloc.start()
    try:
        largest = 0
        for _ in range(steps):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            training.step()
            largest = max(largest, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    # All that lives at once within a step, small objects of Python included; each thread has some of its own.
    assert largest < 6000 + 2000 * number_of_threads(), f"{largest} bytes are allocated at once in a step"
