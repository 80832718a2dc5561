"""Softmax: probabilities along an axis."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from joined_batches import refuses_a_batch_that_is_not_full
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example, Trial, backends
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer


class TestSoftmax(Agreement):
    layer = SoftmaxLayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({"axis": -1}, [(2, 3, 4)], label="last axis")
        yield Example({}, [(2, 3, 2, 2), (3, 2)], label="two bottoms")
        yield Example({"axis": 3}, [(2, 1, 2, 3, 2)], label="five axes")
        yield Example({"axis": 0}, [(3, 4), (2, 3, 2)], label="images of a batch")

    def strategy(self):
        shape = st.tuples(*[st.integers(1, 4)] * 3) | st.tuples(*[st.integers(1, 4)] * 5)
        fields = st.fixed_dictionaries({"axis": st.sampled_from([0, 1, 2, -1])})
        return st.builds(Example, fields, st.lists(shape, min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        return [x.softmax(layer.axis) for x in inputs]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            y = np.zeros_like(x)
            moved, out = np.moveaxis(x, layer.axis, -1), np.moveaxis(y, layer.axis, -1)
            for place in np.ndindex(moved.shape[:-1]):
                powers = [np.exp(value) for value in moved[place]]
                out[place] = [power / sum(powers) for power in powers]
            tops.append(y)
        return tops


def test_large_scores_do_not_overflow():
    example = Example({}, [np.array([[1e4, 1e4, -1e4]])])
    trial = Trial(TestSoftmax().make, example, backend="numpy", dtype="float64")
    trial.forward()
    assert_close(trial.results()[0], [[0.5, 0.5, 0]])


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("axis", [2, 7, -2, -3])
def test_the_axis_must_be_there_and_that_of_the_batch_is_called_0(axis, backend):
    with pytest.raises(ConfigError, match=f"y: axis={axis}, but"):
        Net("n", [InputLayer(tops=["x"], shape=3), SoftmaxLayer(bottoms=["x"], tops=["y"], axis=axis)], backend=backend)


def test_the_images_of_a_batch_are_compared_only_where_all_count():
    layers = [InputLayer(tops="x", shape=2, batch_size=3), SoftmaxLayer(name="s", bottoms="x", tops="y", axis=0)]
    refuses_a_batch_that_is_not_full(layers, "s")


def test_a_bottom_without_gradient():  # in Mocha.jl such a layer was refused in a net that is trained
    layers = [
        InputLayer(tops=["x"], shape=3, batch_size=2),
        SoftmaxLayer(bottoms=["x"], tops=["y"]),
        InnerProductLayer(bottoms=["y"], tops=["z"], output_dim=3),
        InputLayer(tops=["label"], batch_size=2),
        SoftmaxLossLayer(bottoms=["z", "label"]),
    ]
    net = Net("n", layers, backend="numpy")
    net.write("x", np.ones((2, 3)))
    net.write("label", [0, 1])
    net.forward()
    net.backward()
    assert_close(net.blob("z"), np.full((2, 3), 1 / 3) @ net.parameters["z/weight"].value.T)
