"""SumLoss: any blob as a loss."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import WEIGHT
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.elementwise.element_wise import ElementWiseLayer, Subtract
from nacre_layers.elementwise.functions import AbsValLayer
from nacre_layers.losses.sum_loss import SumLossLayer


class TestSumLoss(Agreement):
    layer = SumLossLayer

    def examples(self):
        yield Example({}, [(4, 3)])
        yield Example({"weight": 0.3}, [(2, 3, 2, 2)], label="weighted images")

    def strategy(self):
        def build(shape, weight, seed):  # above 0: else the sum may be next to nothing, and float32 has few digits
            return Example({"weight": weight}, [np.random.default_rng(seed).uniform(0.1, 1, shape)])

        shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)
        return st.builds(build, shapes, WEIGHT, st.integers(0, 2**16))

    def in_torch(self, layer, inputs, parameters):
        return layer.weight * inputs[0].sum()

    def reference(self, layer, inputs, parameters):
        return sum(layer.weight * number for number in inputs[0].flat)


def test_layers_make_a_loss_of_their_own():
    """The sum of absolute errors."""
    layers = [
        InputLayer(tops=["a", "b"], shape=3, batch_size=2),
        ElementWiseLayer(bottoms=["a", "b"], tops="error", operation=Subtract()),
        AbsValLayer(bottoms="error", tops="size"),
        SumLossLayer(name="loss", bottoms="size", weight=0.5),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64", input_gradients=["a"])
    a, b = np.random.default_rng(0).normal(size=(2, 2, 3))
    net.write("a", a)
    net.write("b", b)
    assert_close(net.forward(), 0.5 * abs(a - b).sum())
    net.backward()
    assert_close(net.gradient("a"), 0.5 * np.sign(a - b))


def test_bad_fields():
    with pytest.raises(ConfigError, match=r"weight=-1\.0, but it must be 0 or more"):
        SumLossLayer(bottoms="x", weight=-1)
    with pytest.raises(ConfigError, match=r"bottoms=\('x', 'y'\), but exactly 1 must be given"):
        SumLossLayer(bottoms=["x", "y"])
