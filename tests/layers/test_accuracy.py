"""Accuracy: the share of labels that the highest score hits."""

import numpy as np
import pytest

from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing import Example, LayerTests
from nacre_layers import AccuracyLayer


class TestAccuracy(LayerTests):
    layer = AccuracyLayer

    def examples(self):
        yield Example({}, [(5, 3), np.array([0, 2, 1, 2, 0])])
        yield Example({"report_error": True}, [(4, 3), np.array([[0.0], [2], [1], [2]])], label="error")
        yield Example({"axis": -1}, [(3, 2, 4), np.arange(6).reshape(3, 2) % 4], label="last axis")
        yield Example({}, [(2, 4, 2, 3), np.arange(12).reshape(2, 1, 2, 3) % 4], label="images")

    def reference(self, layer, inputs, parameters):
        x = np.moveaxis(inputs[0], layer.axis, -1)
        rows, labels = x.reshape(-1, x.shape[-1]), inputs[1].reshape(-1)
        hits = [list(row).index(max(row)) == label for row, label in zip(rows, labels, strict=True)]
        accuracy = sum(hits) / len(hits)
        statistics = {"accuracy": accuracy, "records": float(len(hits))}
        return {**statistics, "error": 1 - accuracy} if layer.report_error else statistics


def accuracy_net(classes, batch, **fields):
    layers = [
        InputLayer(name="in", tops=["x"], shape=classes, batch_size=batch),
        InputLayer(name="labels", tops=["label"], batch_size=batch, dtype="int64"),
        AccuracyLayer(name="accuracy", bottoms=["x", "label"], **fields),
    ]
    return Net("n", layers, backend="numpy", phase="test")


def test_of_equal_scores_the_first_wins():
    net = accuracy_net(3, 3)
    net.write("x", [[1, 1, 1], [0, 2, 2], [0, 2, 2]])
    net.write("label", [0, 1, 2])
    net.forward()
    assert net.statistics()["accuracy"] == {"accuracy": 2 / 3, "records": 3.0}


def test_it_is_a_mean_over_rows_until_it_is_reset():
    net = accuracy_net(2, 4)
    assert net.statistics()["accuracy"] == {"accuracy": 0.0, "records": 0.0}
    for labels in ([0, 0, 0, 0], [1]):  # four hits, then one miss: not the mean of 1 and 0
        net.write("x", np.tile([1.0, 0.0], (len(labels), 1)))
        net.write("label", labels)
        net.forward()
    assert net.statistics()["accuracy"] == {"accuracy": 4 / 5, "records": 5.0}
    net.reset_statistics()
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
