"""Accuracy: the share of labels that the highest score hits."""

import numpy as np
import pytest
from hypothesis import strategies as st

from forging import trials
from losses import scores_and_labels
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers.metrics.accuracy import AccuracyLayer


def with_ties(random, shape, axis):
    return random.integers(0, 4, shape).astype(float)


class TestAccuracy(LayerTests):
    layer = AccuracyLayer
    max_examples = trials(50, 200)

    def examples(self):
        yield Example({}, [(5, 3), np.array([0, 2, 1, 2, 0])])
        labels = np.array([[0.0], [2], [1], [2]])
        yield Example({"report_error": True, "per_class": True}, [(4, 3), labels], label="error, classes")
        yield Example({"axis": -1, "top_k": 2}, [(3, 2, 4), np.arange(6).reshape(3, 2) % 4], label="last axis, top 2")
        images = np.arange(12).reshape(2, 1, 2, 3) % 4
        yield Example({"ignore_label": 2, "per_class": True}, [(2, 4, 2, 3), images], label="images, a label ignored")

    def strategy(self):
        two, either = st.sampled_from([1, 2]), st.booleans()
        return scores_and_labels(with_ties, top_k=two, report_error=either, per_class=either)

    def reference(self, layer, inputs, parameters):
        x = np.moveaxis(inputs[0], layer.axis, -1)
        rows, labels = x.reshape(-1, x.shape[-1]), inputs[1].reshape(-1).astype(int)
        hits = [
            (label, sum(score >= row[label] for score in row) - 1 < layer.top_k)
            for row, label in zip(rows, labels, strict=True)
            if label != layer.ignore_label
        ]
        accuracy = mean(hit for _, hit in hits)
        statistics = {"accuracy": accuracy, "records": float(len(hits))}
        if layer.report_error:
            statistics["error"] = 1 - accuracy
        if layer.per_class:
            for one in range(x.shape[-1]):
                statistics[f"class_{one}"] = mean(hit for label, hit in hits if label == one)
        return statistics


def mean(hits):
    hits = list(hits)
    return sum(hits) / len(hits) if hits else 0.0


def accuracy_net(classes, batch, **fields):
    layers = [
        InputLayer(name="in", tops=["x"], shape=classes, batch_size=batch),
        InputLayer(name="labels", tops=["label"], batch_size=batch, dtype="int64"),
        AccuracyLayer(name="accuracy", bottoms=["x", "label"], **fields),
    ]
    return Net("n", layers, backend="numpy", phase="test")


@pytest.mark.parametrize(("top_k", "hits"), [(1, 1), (2, 3), (3, 4)])
def test_equal_scores_count_against_the_label(top_k, hits):
    """Caffe's rule: a row of equal scores hits only if all of its classes may."""
    net = accuracy_net(3, 4, top_k=top_k)
    net.write("x", [[1, 1, 1], [0, 2, 2], [0, 2, 2], [3, 2, 2]])
    net.write("label", [0, 1, 2, 0])
    net.forward()
    assert net.statistics()["accuracy"] == {"accuracy": hits / 4, "records": 4.0}


def test_a_score_that_is_no_number_is_no_hit():
    net = accuracy_net(3, 2)
    net.write("x", [[np.nan, np.nan, np.nan], [0, 1, np.nan]])
    net.write("label", [0, 1])
    net.forward()
    assert net.statistics()["accuracy"]["accuracy"] == 1 / 2


def test_it_is_a_mean_over_rows_until_it_is_reset():
    net = accuracy_net(2, 4)
    for labels in ([0, 0, 0, 0], [1]):  # four hits, then one miss: not the mean of 1 and 0
        net.write("x", np.tile([1.0, 0.0], (len(labels), 1)))
        net.write("label", labels)
        net.forward()
    assert net.statistics()["accuracy"] == {"accuracy": 4 / 5, "records": 5.0}
    net.reset_statistics()
    assert net.node_ops["accuracy"].state.dump_statistics() == {"accuracy": 0.0, "records": 0.0}
    net.forward()
    assert net.statistics()["accuracy"] == {"accuracy": 0.0, "records": 1.0}


def test_a_label_out_of_range():
    net = accuracy_net(2, 2)
    net.write("label", [0, 2])
    with pytest.raises(DataError, match="accuracy: label 2 of record 1"):
        net.forward()


def test_bad_fields():
    with pytest.raises(ConfigError, match=r"bottoms=.*exactly 2"):
        AccuracyLayer(bottoms=["x"])
    with pytest.raises(ConfigError, match="top_k=0, but it must be above 0"):
        AccuracyLayer(bottoms=["x", "label"], top_k=0)
    with pytest.raises(ConfigError, match="accuracy: top_k=3, but there are 2 classes"):
        accuracy_net(2, 2, top_k=3)
