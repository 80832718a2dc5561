"""KLDivergenceLoss: how far a distribution is from another one."""

import math

import numpy as np
import pytest

from agreement import Agreement
from losses import WEIGHT, loss_and_gradients, pairs
from nacre import DataError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.kl_divergence_loss import KLDivergenceLossLayer


def probabilities(random, shape):
    return [random.uniform(0.1, 0.9, shape) for _ in range(2)]


class TestKLDivergenceLoss(Agreement):
    layer = KLDivergenceLossLayer

    def examples(self):
        random = np.random.default_rng(0)
        yield Example({}, probabilities(random, (4, 3)))
        yield Example({"weight": 0.3}, probabilities(random, (2, 3, 2)), label="weight, several axes")
        yield Example({}, [random.uniform(0.1, 0.9, (3, 2)), np.eye(3, 2, dtype=int)], label="whole targets")

    def strategy(self):
        return pairs(probabilities, weight=WEIGHT)

    def in_torch(self, layer, inputs, parameters):
        from torch.nn.functional import kl_div

        return layer.weight * kl_div(inputs[0].log(), inputs[1], reduction="batchmean")

    def reference(self, layer, inputs, parameters):
        pairs = zip(inputs[0].reshape(-1), inputs[1].reshape(-1), strict=True)
        return layer.weight / len(inputs[0]) * sum(t * math.log(t / p) for p, t in pairs if t)


def test_equal_distributions_have_no_loss():
    p = np.array([[0.2, 0.8], [0.0, 1.0]])
    loss, gradient, _ = loss_and_gradients(KLDivergenceLossLayer, p, p)
    assert loss == 0
    assert_close(gradient[0], [-0.5, -0.5])


def test_a_certain_miss_is_finite():
    loss, gradient, other = loss_and_gradients(KLDivergenceLossLayer, np.array([[0.0, 1]]), np.array([[1.0, 0]]))
    assert_close(loss, -math.log(1e-20))
    assert np.isfinite(gradient).all() and np.isfinite(other).all()


def test_what_is_no_probability():
    with pytest.raises(DataError, match=r"tested: bottom 'bottom0' holds -2, which is not a probability"):
        loss_and_gradients(KLDivergenceLossLayer, np.array([[-2.0, 1]]), np.array([[1.0, 0]]))
