"""Trains some deterministic nets on onednn and tells the bits of what they learned; the argument seeds its clock."""

from __future__ import annotations

import random
import sys
import time
from hashlib import sha256

import numpy as np

from nacre import InputLayer, Layer, Net, Solver
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.lrn import LRNLayer
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.split import SplitLayer
from nacre_onednn.tuning.search import Trial
from nacre_solvers import SGD

CLOCK = random.Random(int(sys.argv[1]))


def heads(bottom: str) -> list[Layer]:
    return [
        InnerProductLayer(name="ip", bottoms=bottom, tops="scores", output_dim=10),
        SoftmaxLossLayer(name="loss", bottoms=("scores", "label")),
    ]


NETS: dict[str, list[Layer]] = {
    "convolutions": [
        ConvolutionLayer(name="conv1", bottoms="data", tops="conv1", n_filter=20, kernel=5, pad=2, neuron=ReLU()),
        LRNLayer(name="norm1", bottoms="conv1", tops="norm1"),
        PoolingLayer(name="pool1", bottoms="norm1", tops="pool1", kernel=2, stride=2),
        ConvolutionLayer(name="conv2", bottoms="pool1", tops="conv2", n_filter=32, kernel=3, neuron=ReLU()),
        *heads("conv2"),
    ],
    "residual": [
        ConvolutionLayer(name="conv1", bottoms="data", tops="conv1", n_filter=16, kernel=3, pad=1, bias=False),
        BatchNormLayer(name="norm1", bottoms="conv1", tops="norm1", neuron=ReLU()),
        SplitLayer(name="split", bottoms="norm1", tops=("left", "right")),
        ConvolutionLayer(name="conv2", bottoms="left", tops="conv2", n_filter=16, kernel=3, pad=1),
        ElementWiseLayer(name="sum", bottoms=("conv2", "right"), tops="sum", neuron=ReLU()),
        *heads("sum"),
    ],
    "products": [
        InnerProductLayer(name="ip1", bottoms="data", tops="ip1", output_dim=200, neuron=ReLU()),
        DropoutLayer(name="drop", bottoms="ip1"),
        *heads("ip1"),
    ],
}


def other_times(self: Trial, most: float) -> None:
    """Let a trial take as long as chance has it."""
    assert self.replay is not None
    self.replay()
    self.seconds = CLOCK.random()


def main() -> None:
    """Print the nets' names, and the digests of their parameters."""
    Trial.run = other_times
    time.perf_counter = CLOCK.random
    for name, layers in NETS.items():
        net = Net(
            name,
            [
                InputLayer(name="in", tops="data", shape=(3, 12, 12), batch_size=24),
                InputLayer(name="labels", tops="label", batch_size=24),
                *layers,
            ],
            backend="onednn",
            deterministic=True,
            seed=5,
        )
        generator = np.random.default_rng(1)
        net.write("data", generator.normal(size=(24, 3, 12, 12)))
        net.write("label", generator.integers(10, size=24))
        with Solver(SGD(), lr_policy=0.01, momentum_policy=0.9).start(net) as training:
            for _ in range(4):
                training.step()
        bits = b"".join(np.ascontiguousarray(net.parameters[key].value).tobytes() for key in sorted(net.parameters))
        sys.stdout.write(f"{name} {sha256(bits).hexdigest()}\n")


if __name__ == "__main__":
    main()
