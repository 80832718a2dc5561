"""HingeLoss: scores on the right side, by a margin of 1."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import WEIGHT, loss_and_gradients, pairs, scores_and_labels
from nacre import ConfigError, DataError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.hinge_loss import HingeLossLayer

NORM = st.sampled_from(["L1", "L2"])


def signs(random, shape):
    return [shape, random.choice([-1.0, 1.0], shape)]


def signs_of(layer, shape, labels):
    """Return 1 for the score of each label's class, -1 for all others."""
    if shape == labels.shape or shape == (*labels.shape, 1):
        return labels.reshape(shape)
    labels = labels.reshape(-1)
    rows = -np.ones((len(labels), shape[layer.axis]))
    for place, label in enumerate(labels):
        rows[place, int(label)] = 1
    moved = np.moveaxis(np.empty(shape), layer.axis, -1).shape
    return np.moveaxis(rows.reshape(moved), -1, layer.axis)


class TestHingeLoss(Agreement):
    layer = HingeLossLayer

    def examples(self):
        labels = np.random.default_rng(0).choice([-1.0, 1.0], (4, 3))
        yield Example({"weight": 0.3}, [(4, 3), labels])
        yield Example({"norm": "L2"}, [(3, 1), np.array([1, -1, -1])], label="squared, whole numbers")
        yield Example({"weight": 0.3}, [(4, 3), np.array([0, 2, 1, 2])], label="classes")
        last = np.array([[[0], [1]], [[2], [3]], [[3], [0]]], "uint8")
        yield Example({"norm": "L2", "axis": -1}, [(3, 2, 4), last], label="classes of the last axis, squared")

    def strategy(self):
        return pairs(signs, norm=NORM, weight=WEIGHT) | scores_and_labels(ignoring=False, norm=NORM, weight=WEIGHT)

    def in_torch(self, layer, inputs, parameters):
        import torch

        x, labels = inputs
        y = labels if labels.shape == x.shape else torch.tensor(signs_of(layer, tuple(x.shape), labels.numpy()))
        return layer.weight / len(x) * (1 - x * y).relu().pow(int(layer.norm[1])).sum()

    def reference(self, layer, inputs, parameters):
        y = signs_of(layer, inputs[0].shape, inputs[1])
        missing = [max(0, 1 - a * b) for a, b in zip(inputs[0].reshape(-1), y.reshape(-1), strict=True)]
        return layer.weight / len(inputs[0]) * sum(one ** int(layer.norm[1]) for one in missing)


def test_golden_number():
    loss, gradient, of_label = loss_and_gradients(HingeLossLayer, np.array([[0.5]]), np.array([[1.0]]))
    assert (loss, gradient, of_label) == (0.5, -1, -0.5)


def test_the_loss_is_weighted_like_its_gradient():
    """Mocha's loss ignores the weight on the CPU, its gradient does not."""
    x, y = np.array([[0.5, 2.0], [-1.0, 0.25]]), np.array([[1.0, 1.0], [-1.0, -1.0]])
    plain, weighted = (loss_and_gradients(HingeLossLayer, x, y, weight=weight) for weight in (1.0, 4.0))
    assert plain[0] == (0.5 + 0 + 0 + 1.25) / 2
    for one, other in zip(plain, weighted, strict=True):
        assert_close(other, 4 * one)


def test_one_score_a_record_wants_signs():
    """A label of the shape of the scores is a sign; there is nothing to choose between one class."""
    assert loss_and_gradients(HingeLossLayer, np.array([[2.0], [2.0]]), np.array([1, -1]))[0] == 1.5


def test_a_class_out_of_range():
    with pytest.raises(DataError, match=r"tested: label -1 of record 1 .*from 0 to 2"):
        loss_and_gradients(HingeLossLayer, (2, 3), np.array([0, -1]))


def test_class_labels_have_a_gradient_of_zero():
    assert_close(loss_and_gradients(HingeLossLayer, (2, 3), np.array([0.0, 1.0]))[2], np.zeros(2))


def test_bad_fields():
    with pytest.raises(ConfigError, match="norm='L3', but it must be one of 'L1', 'L2'"):
        HingeLossLayer(bottoms=["x", "label"], norm="L3")
    with pytest.raises(ConfigError, match=r"tested: .*\(3, 5\), .*\(3, 1\)"):
        loss_and_gradients(HingeLossLayer, (3, 4), (3, 5))
