"""MeanAbsoluteError and R2: how far predictions are from the truth, as scikit-learn measures it."""

import math

import numpy as np
import pytest

from forging import trials
from losses import pairs
from nacre import ConfigError
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers import MeanAbsoluteErrorLayer, R2Layer
from passes import over_a_pass, state_after


def normal(random, shape):
    return [random.standard_normal(shape), random.standard_normal(shape)]


class TestMeanAbsoluteError(LayerTests):
    layer = MeanAbsoluteErrorLayer
    max_examples = trials(50, 200)

    def examples(self):
        yield Example({}, [(4, 3), (4, 3)])
        yield Example({}, [(5, 1), np.array([3, 1, 2, 0, 1])], label="whole numbers")

    def strategy(self):
        return pairs(normal)

    def reference(self, layer, inputs, parameters):
        x, y = (np.reshape(one, -1) for one in inputs)
        return {"mae": np.abs(x - y).mean(), "records": float(x.size)}


class TestR2(LayerTests):
    layer = R2Layer
    max_examples = trials(50, 200)

    def examples(self):
        yield Example({}, [(4, 3), (4, 3)])
        yield Example({}, [(5, 1), np.array([3, 1, 2, 0, 1])], label="whole numbers")
        yield Example({}, [(3, 2), np.ones((3, 2))], label="the truth is always the same")

    def strategy(self):
        return pairs(normal)

    def reference(self, layer, inputs, parameters):
        x, y = (np.reshape(one, (len(one), -1)) for one in inputs)
        if len(x) < 2:
            return {"r2": math.nan, "records": float(len(x))}
        each = [
            1 - ((b - a) ** 2).sum() / ((b - b.mean()) ** 2).sum() if np.ptp(b) else float((a == b).all())
            for a, b in zip(x.T, y.T, strict=True)
        ]
        return {"r2": np.mean(each), "records": float(len(x))}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_they_are_those_of_scikit_learn(seed, shift):
    """Also far from 0, where a difference of squares would lose its digits."""
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(seed)
    y = random.standard_normal((41, 3)) + shift
    x = y + random.standard_normal((41, 3))
    y[:, 2] = x[:, 2] = 0.1
    found = over_a_pass(MeanAbsoluteErrorLayer, x, y)
    assert found == {"mae": pytest.approx(metrics.mean_absolute_error(y, x), rel=1e-12), "records": 123}
    found = over_a_pass(R2Layer, x[:, :2], y[:, :2])
    assert found == {"r2": pytest.approx(metrics.r2_score(y[:, :2], x[:, :2]), abs=1e-12), "records": 41}


def test_a_truth_that_is_always_the_same():
    y = np.full((7, 1), 0.1)
    assert over_a_pass(R2Layer, y, y)["r2"] == 1
    assert over_a_pass(R2Layer, y + 0.5, y)["r2"] == 0


def test_too_few_records_and_what_is_not_finite():
    for count in (0, 1):
        state = state_after(R2Layer, 1, np.zeros((1, 1))[:count], np.ones((1, 1))[:count])
        assert math.isnan(state.dump_statistics()["r2"]) and state.dump_statistics()["records"] == count
    assert state_after(MeanAbsoluteErrorLayer, 1, np.zeros((0, 1)), np.zeros((0, 1))).dump_statistics()["mae"] == 0
    for layer, name in ((R2Layer, "r2"), (MeanAbsoluteErrorLayer, "mae")):
        state = state_after(layer, 2, np.array([1.0, math.nan]), np.array([1.0, 2.0]))
        assert math.isnan(state.dump_statistics()[name])


@pytest.mark.parametrize("layer", [MeanAbsoluteErrorLayer, R2Layer])
def test_bottoms_of_two_shapes(layer):
    with pytest.raises(ConfigError, match=r"m: bottom 'label' of shape \(2, 3\) differs from 'x' of shape \(2, 2\)"):
        state_after(layer, 2, np.zeros((2, 2)), np.zeros((2, 3)))
