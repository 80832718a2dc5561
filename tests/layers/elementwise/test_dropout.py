"""Dropout: at random, some elements become 0."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError
from nacre.testing.close import assert_close
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example, Trial
from nacre_layers.elementwise.dropout import DropoutLayer


class TestDropout(Agreement):
    layer = DropoutLayer
    is_random = True

    def examples(self):
        yield Example({}, [(5, 40)])
        yield Example({"ratio": 0.2, "auto_scale": False}, [(3, 4, 5, 5)], label="no scale")

    def strategy(self):
        fields = st.fixed_dictionaries({"ratio": st.floats(0, 0.99), "auto_scale": st.booleans()})
        shape = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
        return st.builds(lambda one, shape: Example(one, [shape]), fields, shape)

    def reference(self, layer, inputs, parameters):
        if self.phase != "train":
            return inputs
        uniform = np.empty(inputs[0].shape, np.float32)
        self.random.uniform(uniform)
        scale = 1 / (1 - layer.ratio) if layer.auto_scale else 1.0
        y = np.zeros(inputs[0].shape)
        for place in np.ndindex(*y.shape):
            if uniform[place] >= layer.ratio:
                y[place] = inputs[0][place] * scale
        return [y]


class TestNoDropout(LayerTests):
    layer = DropoutLayer

    def examples(self):
        yield Example({"ratio": 0.0}, [(3, 4)])

    def reference(self, layer, inputs, parameters):
        return inputs


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_the_share_of_zeros_and_the_mean(ratio):
    example = Example({"ratio": ratio}, [np.ones((100, 100))])
    trial = Trial(TestDropout().make, example, backend="numpy", dtype="float64")
    trial.forward()
    y = trial.results()[0]
    assert abs(np.mean(y == 0) - ratio) < 0.02
    assert abs(y.mean() - 1) < 0.1


def test_the_mask_is_the_same_in_both_types_and_in_a_larger_batch():
    masks = {}
    for dtype, rows in (("float32", 6), ("float64", 6), ("float64", 12)):
        trial = Trial(TestDropout().make, Example({}, [np.ones((rows, 9))]), backend="numpy", dtype=dtype)
        trial.forward()
        masks[dtype, rows] = trial.results()[0][:6]
    assert_close(masks["float32", 6], masks["float64", 6], tolerance=0.0)
    assert_close(masks["float64", 12], masks["float64", 6], tolerance=0.0)


@pytest.mark.parametrize("ratio", [1.0, -0.1, float("nan")])
def test_bad_ratio(ratio):
    with pytest.raises(ConfigError, match="ratio="):
        DropoutLayer(bottoms=["x"], ratio=ratio)
