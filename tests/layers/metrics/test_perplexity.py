"""Perplexity: e to the power of the mean negative log-likelihood of labels."""

import math

import numpy as np
import pytest

from forging import trials
from losses import scores_and_labels
from nacre import DataError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers.metrics.perplexity import PerplexityLayer


class TestPerplexity(LayerTests):
    layer = PerplexityLayer
    max_examples = trials(50, 200)

    def examples(self):
        yield Example({}, [(5, 3), np.array([0, 2, 1, 2, 0])])
        sequences = np.array([[0, 1, 3], [2, -1, -1]])
        yield Example({"axis": -1, "ignore_label": -1}, [(2, 3, 4), sequences], label="sequences")
        yield Example({}, [(2, 4, 2, 3), np.arange(12).reshape(2, 1, 2, 3) % 4], label="images")

    def strategy(self):
        return scores_and_labels()

    def reference(self, layer, inputs, parameters):
        x = np.moveaxis(inputs[0], layer.axis, -1)
        logs = [
            math.log(math.exp(row[label]) / sum(map(math.exp, row)))
            for row, label in zip(x.reshape(-1, x.shape[-1]), inputs[1].reshape(-1).astype(int), strict=True)
            if label != layer.ignore_label
        ]
        mean = -sum(logs) / len(logs) if logs else 0.0
        return {"perplexity": math.exp(mean), "bits": mean / math.log(2), "records": float(len(logs))}


def perplexity_net(batch, dtype="float64", **fields):
    layers = [
        InputLayer(tops="x", shape=4, batch_size=batch),
        InputLayer(tops="label", batch_size=batch, dtype="int64"),
        PerplexityLayer(name="text", bottoms=["x", "label"], **fields),
    ]
    return Net("n", layers, backend="numpy", phase="test", dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [1, 2, 3, 7, 10])
def test_it_is_the_same_for_batches_of_any_size(batch, dtype):
    random = np.random.default_rng(0)
    scores, labels = random.standard_normal((10, 4)).astype(dtype).astype("float64"), random.integers(0, 4, 10)
    labels[[2, 3]] = -1
    net = perplexity_net(batch, dtype, ignore_label=-1)
    for first in range(0, 10, batch):
        net.write("x", scores[first : first + batch])
        net.write("label", labels[first : first + batch])
        net.forward()
    used = labels >= 0
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    mean = -logs[used, labels[used]].mean()
    found = net.statistics()["text"]
    assert_close(found["perplexity"], math.exp(mean), tolerance=1e-12)
    assert_close(found["bits"], mean / math.log(2), tolerance=1e-12)
    assert found["records"] == 8


def test_a_net_that_knows_nothing_of_n_classes_has_the_perplexity_n():
    net = perplexity_net(2)
    net.write("x", np.zeros((2, 4)))
    net.write("label", [0, 3])
    net.forward()
    assert_close(net.statistics()["text"]["perplexity"], 4, tolerance=1e-12)
    assert_close(net.statistics()["text"]["bits"], 2, tolerance=1e-12)
    net.reset_statistics()
    assert net.node_ops["text"].state.dump_statistics() == {"perplexity": 1.0, "bits": 0.0, "records": 0.0}


@pytest.mark.parametrize(("scores", "expected"), [([1e4, 0, 0, 0], np.inf), ([np.nan, 0, 0, 0], np.nan)])
def test_what_is_no_number(scores, expected):
    net = perplexity_net(1)
    net.write("x", [scores])
    net.write("label", [1])
    net.forward()
    np.testing.assert_equal(net.statistics()["text"]["perplexity"], expected)


def test_a_label_out_of_range():
    net = perplexity_net(2)
    net.write("label", [0, -1])
    with pytest.raises(DataError, match=r"text: label -1 of record 1 .*from 0 to 3"):
        net.forward()
