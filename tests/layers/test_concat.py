"""Concat: several blobs one behind the other."""

import numpy as np
import pytest

from nacre import ConfigError, InputLayer, Net
from nacre.testing import Example, LayerTests
from nacre_layers import ConcatLayer


class TestConcat(LayerTests):
    layer = ConcatLayer

    def examples(self):
        yield Example({}, [(3, 2), (3, 4)], tops=1)
        yield Example({"axis": -1}, [(2, 3, 2), (2, 3, 1), (2, 3, 4)], tops=1, label="last axis")
        yield Example({}, [(2, 1, 3, 2), (2, 2, 3, 2)], tops=1, label="channels")
        yield Example({"axis": 0}, [(2, 3), (4, 3)], tops=1, label="batch")
        yield Example({}, [(2, 3)], tops=1, label="one")

    def reference(self, layer, inputs, parameters):
        parts = [list(x.swapaxes(0, layer.axis)) for x in inputs]
        return [np.array([row for part in parts for row in part]).swapaxes(0, layer.axis)]


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (1, r"y: bottom 'b' of shape \(1, 3, 5\) does not fit 'a' of shape \(1, 2, 4\) along axis 1"),
        (3, "y: axis=3, but"),
    ],
)
def test_bottoms_that_do_not_fit(axis, message):
    layers = [
        InputLayer(tops=["a"], shape=(2, 4)),
        InputLayer(tops=["b"], shape=(3, 5)),
        ConcatLayer(bottoms=["a", "b"], tops=["y"], axis=axis),
    ]
    with pytest.raises(ConfigError, match=message):
        Net("n", layers, backend="numpy")
