"""TopKAccuracy: the share of labels among the highest scores."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from forging import trials
from losses import scores_and_labels
from nacre import ConfigError
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers import AccuracyLayer, TopKAccuracyLayer
from passes import over_a_pass, state_after


class TestTopKAccuracy(LayerTests):
    layer = TopKAccuracyLayer
    max_examples = trials(50, 200)

    def examples(self):
        yield Example({}, [(6, 5), np.array([0, 1, 2, 2, 1, 4])])
        labels = np.array([[0, 1, 3], [2, -1, -1]])
        yield Example({"axis": -1, "ignore_label": -1, "k": 2}, [(2, 3, 4), labels], label="sequences")

    def strategy(self):
        few = lambda random, shape, axis: random.integers(0, 4, shape) / 2  # noqa: E731 - with equal scores
        return scores_and_labels(few, k=st.sampled_from([[1], [2, 1]]))

    def reference(self, layer, inputs, parameters):
        rows = np.moveaxis(inputs[0], layer.axis, -1)
        rows, labels = rows.reshape(-1, rows.shape[-1]), np.asarray(inputs[1]).reshape(-1)
        ranks = [(row >= row[int(n)]).sum() for row, n in zip(rows, labels, strict=True) if n != layer.ignore_label]
        found = {f"top_{k}": np.mean([rank <= k for rank in ranks]) if ranks else 0.0 for k in layer.k}
        return {**found, "records": float(len(ranks))}


def test_it_is_that_of_scikit_learn_and_of_accuracy():
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    scores, labels = random.standard_normal((50, 7)), random.integers(0, 7, 50)
    found = over_a_pass(TopKAccuracyLayer, scores, labels, k=[1, 3, 6])
    for k in (1, 3, 6):
        expected = metrics.top_k_accuracy_score(labels, scores, k=k, labels=range(7))
        assert found[f"top_{k}"] == pytest.approx(expected, abs=1e-12)
        assert state_after(AccuracyLayer, 5, scores, labels, top_k=k).dump_statistics()["accuracy"] == found[f"top_{k}"]


def test_equal_scores_count_against_the_label_and_nan_is_never_a_hit():
    scores = np.array([[1.0, 1.0, 0.0], [math.nan, 0.0, 1.0], [math.inf, 0.0, -math.inf]])
    found = over_a_pass(TopKAccuracyLayer, scores, np.array([0, 0, 0]), k=[1, 2])
    assert found == {"top_1": 1 / 3, "top_2": 2 / 3, "records": 3}


def test_bad_fields():
    with pytest.raises(ConfigError, match=r"k=\[2, 2\] has a number twice"):
        TopKAccuracyLayer(bottoms=["x", "label"], k=[2, 2])
    with pytest.raises(ConfigError, match="every number must be above 0"):
        TopKAccuracyLayer(bottoms=["x", "label"], k=[0])
    with pytest.raises(ConfigError, match=r"m: k=\[1, 5\], but there are 3 classes\n.* up to 3"):
        state_after(TopKAccuracyLayer, 1, np.zeros((1, 3)), np.array([0]))
