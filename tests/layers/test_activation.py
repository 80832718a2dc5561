"""Activation layers: a neuron as a layer of its own."""

import numpy as np
import pytest

from nacre import ConfigError
from nacre.testing import Example, LayerTests
from nacre_layers import ActivationLayer, ReLULayer, SigmoidLayer, TanhLayer


class TestActivation(LayerTests):
    layer = ActivationLayer

    def examples(self):
        yield Example({"neuron": "Tanh"}, [(3, 4)])
        yield Example({"neuron": {"type": "ReLU", "epsilon": 0.25}}, [(2, 3, 2, 2), (4, 3)], label="two bottoms")
        yield Example({"neuron": "Identity"}, [(3, 4)], label="identity")

    def reference(self, layer, inputs, parameters):
        name = type(layer.neuron).__name__
        functions = {"Tanh": np.tanh, "ReLU": lambda x: np.maximum(x, 0.25), "Identity": lambda x: x}
        return [functions[name](x) for x in inputs]


class TestReLU(LayerTests):
    layer = ReLULayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({}, [(2, 3, 4, 4), (1, 5)], label="two bottoms")

    def reference(self, layer, inputs, parameters):
        return [np.where(x > 0, x, 0) for x in inputs]


class TestSigmoid(LayerTests):
    layer = SigmoidLayer

    def examples(self):
        yield Example({}, [(3, 4)])

    def reference(self, layer, inputs, parameters):
        return [1 / (1 + np.exp(-x)) for x in inputs]


class TestTanh(LayerTests):
    layer = TanhLayer

    def examples(self):
        yield Example({}, [(3, 4)])

    def reference(self, layer, inputs, parameters):
        return [(np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)) for x in inputs]


def test_the_neuron_must_be_named():
    with pytest.raises(ConfigError, match="y: neuron is missing"):
        ActivationLayer(bottoms=["x"], tops=["y"])
