"""Split: one blob under several names."""

import numpy as np
from hypothesis import strategies as st

from agreement import Agreement
from nacre import InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example, Trial
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.shapes.split import SplitLayer


class TestSplit(Agreement):
    layer = SplitLayer

    def examples(self):
        yield Example({}, [(3, 4)], tops=2)
        yield Example({}, [(2, 3, 2, 2)], tops=3, label="three")
        yield Example({}, [(3, 4)], tops=1, label="one")

    def strategy(self):
        shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)
        return st.builds(lambda shape, tops: Example({}, [tuple(shape)], tops=tops), shapes, st.integers(1, 5))

    def in_torch(self, layer, inputs, parameters):
        return inputs * len(layer.tops)

    def reference(self, layer, inputs, parameters):
        return [inputs[0]] * len(layer.tops)


def test_gradients_add_up():
    trial = Trial(TestSplit().make, Example({}, [(3, 4)], tops=3), backend="numpy", dtype="float64")
    trial.forward()
    gradient = trial.gradients()["input 0"]
    assert_close(gradient, sum(trial.net.gradient(name) for name in trial.tops))


def test_nothing_is_copied():
    layers = [InputLayer(tops=["x"], shape=4, batch_size=3), SplitLayer(bottoms=["x"], tops=["a", "b"])]
    net = Net("n", layers, backend="numpy", phase="predict")
    state = net.node_ops["a"].state
    assert np.shares_memory(state.blobs[0], state.blobs[1])


def test_a_layer_in_place_on_one_branch_leaves_the_other():
    layers = [
        InputLayer(tops=["x"], shape=40, batch_size=3),
        SplitLayer(bottoms=["x"], tops=["a", "b"]),
        DropoutLayer(name="drop", bottoms=["a"]),
    ]
    net = Net("n", layers, backend="numpy", keep=("x", "a", "b"))
    x = np.random.default_rng(0).standard_normal((3, 40)).astype("float32")
    for _ in range(2):
        net.write("x", x)
        net.forward()
        assert_close(net.blob("b"), x, tolerance=0.0)
        assert_close(net.blob("x"), x, tolerance=0.0)
        assert (net.blob("a") == 0).any()
