"""BinaryAccuracy: the share of scores on the right side of a threshold."""

import numpy as np
import pytest
from hypothesis import strategies as st

from forging import trials
from losses import pairs
from nacre import ConfigError, InputLayer, Net
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers.metrics.binary_accuracy import BinaryAccuracyLayer


def some_equal(random, shape):
    return [random.integers(-2, 3, shape) / 2, random.choice([-1.0, 0.5, 1.0], shape)]


class TestBinaryAccuracy(LayerTests):
    layer = BinaryAccuracyLayer
    max_examples = trials(50, 200)

    def examples(self):
        yield Example({}, [(4, 3), np.random.default_rng(0).choice([-1.0, 1.0], (4, 3))])
        labels = np.array([1, 0, 1], "uint8")
        yield Example({"threshold": 0.5, "report_error": True}, [(3, 1), labels], label="0 and 1, error")

    def strategy(self):
        return pairs(some_equal, threshold=st.sampled_from([0.0, 0.5, -0.5]), report_error=st.booleans())

    def reference(self, layer, inputs, parameters):
        pairs = list(zip(inputs[0].reshape(-1), inputs[1].reshape(-1), strict=True))
        hits = [(x > layer.threshold) == (label > layer.threshold) for x, label in pairs]
        statistics = {"accuracy": sum(hits) / len(hits), "records": float(len(hits))}
        return {**statistics, "error": 1 - sum(hits) / len(hits)} if layer.report_error else statistics


def accuracy_net(batch):
    sources = [InputLayer(tops="x", shape=2, batch_size=batch), InputLayer(tops="label", shape=2, batch_size=batch)]
    return Net("n", [*sources, BinaryAccuracyLayer(name="accuracy", bottoms=["x", "label"])], backend="numpy")


def test_it_is_a_mean_over_rows_until_it_is_reset():
    net = accuracy_net(2)
    for x in ([[1, 1], [1, 1]], [[1, -1]]):  # four hits, then one of two: not the mean of 1 and 0.5
        net.write("x", x)
        net.write("label", np.ones((len(x), 2)))
        net.forward()
    assert net.statistics()["accuracy"] == {"accuracy": 5 / 6, "records": 6.0}
    net.reset_statistics()
    assert net.node_ops["accuracy"].state.dump_statistics() == {"accuracy": 0.0, "records": 0.0}


def test_a_score_that_is_no_number_is_never_right():
    net = accuracy_net(1)
    net.write("x", [[np.nan, np.nan]])
    net.write("label", [[1, -1]])
    net.forward()
    assert net.statistics()["accuracy"]["accuracy"] == 0


def test_bad_fields():
    with pytest.raises(ConfigError, match=r"bottoms=.*exactly 2"):
        BinaryAccuracyLayer(bottoms=["x"])
    with pytest.raises(ConfigError, match="threshold=inf, but it must be finite"):
        BinaryAccuracyLayer(bottoms=["x", "label"], threshold=float("inf"))
    sources = [InputLayer(tops="x", shape=2, batch_size=2), InputLayer(tops="label", shape=3, batch_size=2)]
    with pytest.raises(ConfigError, match=r"accuracy: .*'label' .*\(2, 3\) .*'x'"):
        Net("n", [*sources, BinaryAccuracyLayer(name="accuracy", bottoms=["x", "label"])], backend="numpy")
