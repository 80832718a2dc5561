"""Silence: blobs that nobody reads get no gradient, and stand in nobody's way."""

import numpy as np
import pytest

from nacre import InputLayer, Net, TopologyError
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example, ProbeLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.shapes.silence import SilenceLayer
from nacre_layers.shapes.slice import SliceLayer


class TestSilence(LayerTests):
    layer = SilenceLayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({}, [(2, 3, 2, 2), (3, 1)], label="two")

    def beside(self, example):
        return [InputLayer(name="seen", tops=["seen"], shape=2), ProbeLayer(name="loss", bottoms=["seen"])]

    def reference(self, layer, inputs, parameters):
        return []


def net(*more):
    layers = [
        InputLayer(name="in", tops=["x"], shape=4, batch_size=2),
        InnerProductLayer(name="ip", bottoms=["x"], tops=["y"], output_dim=4),
        SliceLayer(name="slice", bottoms=["y"], tops=["used", "unused"]),
        ProbeLayer(name="loss", bottoms=["used"]),
    ]
    made = Net("n", [*layers, *more], backend="numpy")
    made.write("x", np.ones((2, 4)))
    return made


def test_a_top_that_nobody_reads():
    with pytest.raises(TopologyError, match=r"'unused' .*'slice' .*no loss"):
        net().backward()
    made = net(SilenceLayer(name="silence", bottoms=["unused"]))
    made.forward()
    made.backward()
    gradient = made.parameters["ip/weight"].gradient
    assert gradient[:2].all() and not gradient[2:].any()
