"""Reshape: the same numbers under another shape."""

import numpy as np
import pytest

from nacre import ConfigError, InputLayer, Net
from nacre.testing import Example, LayerTests
from nacre_layers import ReshapeLayer


class TestReshape(LayerTests):
    layer = ReshapeLayer

    def examples(self):
        yield Example({"shape": [2, 6]}, [(3, 12)])
        yield Example({"shape": [3, -1]}, [(3, 12), (2, 3, 2, 2)], label="two bottoms, -1")
        yield Example({"shape": -1}, [(2, 3, 2, 2)], label="flat")

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            known = abs(int(np.prod(layer.shape)))
            shape = [x[0].size // known if length == -1 else length for length in layer.shape]
            tops.append(np.array(list(x.flat)).reshape(len(x), *shape))
        return tops


@pytest.mark.parametrize("shape", [[5], [3, 5], [-1, 5], [-1, -1], [24]])
def test_shapes_that_do_not_fit(shape):
    layers = [InputLayer(tops=["x"], shape=12), ReshapeLayer(bottoms=["x"], tops=["y"], shape=shape)]
    with pytest.raises(ConfigError, match=r"y: shape=.*, but an image has 12 numbers: \(12,\)"):
        Net("n", layers, backend="numpy")


@pytest.mark.parametrize("shape", [[0, 2], [-2, 2]])
def test_bad_numbers(shape):
    with pytest.raises(ConfigError, match=r"y: shape=.*, but every number must be above 0, or -1"):
        ReshapeLayer(bottoms=["x"], tops=["y"], shape=shape)
