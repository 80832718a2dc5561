"""What states carry from batch to batch: when they take it over, and when they forget it."""

from typing import Any

import numpy as np

from nacre import InputLayer, Layer, LayerState, Names, Net, Solver
from nacre_data import MemoryDataLayer
from nacre_layers import InnerProductLayer, SumLossLayer
from nacre_solvers import SGD


class CountingLayer(Layer, can_do_bp=False):
    """What somebody else may write: y = x + the number of batches before."""

    bottoms: Names
    tops: Names


class CountingState(LayerState, of=CountingLayer):
    """The state of `CountingLayer`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.count = 0

    def forward(self, inputs: list[Any]) -> None:
        self.backend.xp.add(inputs[0], self.count, out=self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        pass

    def advance(self) -> None:
        self.count += 1

    def rewind(self) -> None:
        self.count = 0

    def memory(self) -> dict[str, Any]:
        return {"count": self.count}


def test_passes_over_the_data_and_predictions_advance_and_begin_anew() -> None:
    data = MemoryDataLayer(name="data", tops=["x"], data=[np.zeros((7, 1))], batch_size=3)
    layers = [data, CountingLayer(name="count", bottoms=["x"], tops=["y"])]
    with Net("n", layers, backend="numpy", phase="test") as net:
        for _ in range(2):
            net.forward_epoch()
            assert net.node_ops["count"].state.memory() == {"count": 3}
        net.forward()
        net.forward()
        assert net.node_ops["count"].state.memory() == {"count": 3}
        assert net.predict(np.zeros((7, 1)), "y").ravel().tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_a_training_advances_once_a_batch() -> None:
    layers = [
        InputLayer(name="in", tops=["x"], shape=1, batch_size=2),
        CountingLayer(name="count", bottoms=["x"], tops=["y"]),
        InnerProductLayer(name="ip", bottoms=["y"], tops=["z"], output_dim=1),
        SumLossLayer(name="loss", bottoms=["z"]),
    ]
    with Net("n", layers, backend="numpy") as net, Solver(SGD(), lr_policy=0.1, n_accumulate=3).start(net) as training:
        net.write("x", np.zeros((2, 1)))
        for number in range(1, 3):
            training.step()
            assert net.node_ops["count"].state.memory() == {"count": 3 * number}
        net.rewind()
        net.forward()
        assert net.node_ops["count"].state.memory() == {"count": 0}
        net.advance()
        assert net.node_ops["count"].state.memory() == {"count": 1}
