"""StopGradient: what is above learns, and what is below does not learn from it."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import InputLayer, Net, TopologyError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.sum_loss import SumLossLayer
from nacre_layers.shapes.stop_gradient import StopGradientLayer


class TestStopGradient(Agreement):
    layer = StopGradientLayer

    def examples(self):
        yield Example({}, [(2, 3), (4, 1, 2, 2)], label="two bottoms")
        yield Example({}, [(3, 4)], label="one")

    def strategy(self):
        shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
        return st.lists(shapes, min_size=1, max_size=3).map(lambda inputs: Example({}, inputs))

    def in_torch(self, layer, inputs, parameters):
        return [x.detach() for x in inputs]

    def reference(self, layer, inputs, parameters):
        return inputs


def net_of(*more):
    layers = [
        InputLayer(tops="x", shape=3, batch_size=2),
        InnerProductLayer(bottoms="x", tops="shared", output_dim=4),
        StopGradientLayer(bottoms="shared", tops="stopped"),
        InnerProductLayer(bottoms="stopped", tops="head", output_dim=2),
        SumLossLayer(name="loss", bottoms="head"),
        *more,
    ]
    net = Net("n", layers, backend="numpy", dtype="float64", keep=("stopped",))
    net.write("x", np.random.default_rng(0).normal(size=(2, 3)))
    net.forward()
    net.backward()
    return net


def test_a_branch_learns_and_does_not_teach():
    net = net_of(SumLossLayer(name="other", bottoms="shared", weight=2))
    x = net.blob("x")
    assert_close(net.parameters["head/weight"].gradient, np.tile(net.blob("stopped").sum(axis=0), (2, 1)))
    assert_close(net.parameters["shared/weight"].gradient, np.tile(2 * x.sum(axis=0), (4, 1)))  # of the other loss only


def test_nothing_is_copied():
    op = net_of(SumLossLayer(name="other", bottoms="shared")).node_ops["stopped"]
    assert np.shares_memory(op.state.blobs[0], op.input_arrays[0])


def test_what_nobody_teaches_is_an_error():
    with pytest.raises(TopologyError, match=r"blob 'shared' of layer 'shared' .*no loss"):
        net_of()
