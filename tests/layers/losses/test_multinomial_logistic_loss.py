"""MultinomialLogisticLoss: cross-entropy of probabilities and labels."""

import gc
import math
import weakref

import numpy as np
import pytest

from agreement import Agreement
from losses import NORMALIZE, WEIGHT, class_weights, loss_and_gradients, places, scores_and_labels
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.losses.multinomial_logistic_loss import MultinomialLogisticLossLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer


def probabilities(random, shape, axis):
    values = random.uniform(0.1, 1, shape)
    return values / values.sum(axis=axis, keepdims=True)


class TestMultinomialLogisticLoss(Agreement):
    layer = MultinomialLogisticLossLayer

    def examples(self):
        x = probabilities(np.random.default_rng(0), (4, 3), 1)
        yield Example({"weight": 0.3, "weights": [1, 2, 3]}, [x, np.array([0, 2, 1, 2])], label="weights")
        x = probabilities(np.random.default_rng(1), (2, 2, 4), -1)
        yield Example({"axis": -1, "ignore_label": 3}, [x, np.array([[0, 3], [1, 2]], "uint8")], label="last axis")

    def strategy(self):
        return scores_and_labels(probabilities, weighted=True, weight=WEIGHT, normalize=NORMALIZE)

    def in_torch(self, layer, inputs, parameters):
        import torch

        rows, used, divisor = places(layer, inputs[0].detach().numpy(), inputs[1].numpy())
        log = inputs[0].movedim(layer.axis, -1).reshape(rows.shape).log()
        weights = torch.tensor(class_weights(layer, tuple(inputs[0].shape)))
        parts = [weights[place, label] * log[place, label] for place, label in used]
        return -layer.weight / divisor * (sum(parts) + 0 * log.sum())

    def reference(self, layer, inputs, parameters):
        rows, used, divisor = places(layer, *inputs)
        weights = class_weights(layer, inputs[0].shape)
        losses = [-weights[place][label] * math.log(rows[place][label]) for place, label in used]
        return layer.weight * sum(losses) / divisor


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_probability_of_zero_has_a_finite_loss_and_gradient(dtype):
    x, labels = np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([0, 1])
    loss, gradient, _ = loss_and_gradients(MultinomialLogisticLossLayer, x, labels, dtype=dtype)
    assert_close(loss, (-math.log(1e-20) - math.log(0.5)) / 2, tolerance=1e-6)
    assert_close(gradient / 1e20, [[-0.5, 0], [0, -1e-20]], tolerance=1e-6)


def test_behind_a_softmax_it_is_the_softmax_loss():
    """Mocha's check of the topology trips over a Softmax below which nothing learns: here it runs."""
    scores, labels = np.random.default_rng(0).standard_normal((3, 4)), np.array([3, 0, 1])
    layers = [
        InputLayer(tops="x", shape=4, batch_size=3),
        InputLayer(tops="label", batch_size=3, dtype="int64"),
        SoftmaxLayer(bottoms="x", tops="p"),
        MultinomialLogisticLossLayer(name="loss", bottoms=["p", "label"]),
    ]
    expected = loss_and_gradients(SoftmaxLossLayer, scores, labels)
    for wanted in ((), ("x",)):
        net = Net("n", layers, backend="numpy", dtype="float64", input_gradients=wanted)
        net.write("x", scores)
        net.write("label", labels)
        assert_close(net.forward(), expected[0])
        net.backward()
        if wanted:
            assert_close(net.gradient("x"), expected[1])


def test_nothing_is_left_of_a_net_that_is_shut_down():
    """Mocha's MultinomialLogisticLoss and Softmax leak their blobs."""
    layers = [
        InputLayer(tops="x", shape=4, batch_size=3),
        InputLayer(tops="label", batch_size=3, dtype="int64"),
        SoftmaxLayer(bottoms="x", tops="p"),
        MultinomialLogisticLossLayer(name="loss", bottoms=["p", "label"]),
    ]
    net = Net("n", layers, backend="numpy")
    net.forward()
    states = [weakref.ref(op.state) for op in net.ops]
    net.shutdown()
    del net
    gc.collect()
    assert [one() for one in states] == [None] * len(states)


def test_bad_fields():
    with pytest.raises(ConfigError, match=r"bottoms=\('p',\), but 2 or 3 must be given"):
        MultinomialLogisticLossLayer(bottoms=["p"])
    with pytest.raises(ConfigError, match=r"weight=-1\.0, but it must be 0 or more"):
        MultinomialLogisticLossLayer(bottoms=["p", "label"], weight=-1)


@pytest.mark.parametrize("number", [-0.5, 1.5])
def test_what_is_no_probability_is_refused(number):
    scores = np.array([[0.5, number, 0.0], [0.1, 0.2, 0.7]])
    with pytest.raises(DataError, match=rf"tested: bottom 'bottom0' holds {number}") as caught:
        loss_and_gradients(MultinomialLogisticLossLayer, scores, np.array([1, 2]))
    assert "SoftmaxLoss" in caught.value.remedy
