"""ContrastiveLoss: similar pairs near each other, others apart."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import WEIGHT, loss_and_gradients, pairs
from nacre import ConfigError, DataError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.contrastive_loss import ContrastiveLossLayer


def with_labels(random, shape):
    a = random.uniform(-1, 1, shape)
    return [a, a + random.uniform(-1, 1, shape), random.integers(0, 2, shape[0])]


class TestContrastiveLoss(Agreement):
    layer = ContrastiveLossLayer

    def examples(self):
        similar = np.array([1, 0, 0, 1])
        a, b = 0.3 * np.random.default_rng(0).standard_normal((2, 4, 3))
        yield Example({"weight": 0.3}, [a, b, similar])
        yield Example({"margin": 3.0, "legacy": True}, [a, b, similar.reshape(4, 1).astype("uint8")], label="legacy")

    def strategy(self):
        margin = st.sampled_from([0.5, 1.0, 3.0])
        return pairs(with_labels, margin=margin, legacy=st.booleans(), weight=WEIGHT)

    def in_torch(self, layer, inputs, parameters):
        square = (inputs[0] - inputs[1]).reshape(len(inputs[0]), -1).pow(2).sum(1)
        similar = inputs[2].reshape(-1).double()
        apart = (layer.margin - square).relu() if layer.legacy else (layer.margin - square.sqrt()).relu().pow(2)
        return layer.weight / (2 * len(similar)) * (similar * square + (1 - similar) * apart).sum()

    def reference(self, layer, inputs, parameters):
        total = 0
        for a, b, similar in zip(*inputs, strict=True):
            square = sum((a.reshape(-1) - b.reshape(-1)) ** 2)
            if similar:
                total += square
            else:
                total += max(0, layer.margin - square) if layer.legacy else max(0, layer.margin - square**0.5) ** 2
        return layer.weight * total / (2 * len(inputs[0]))


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("margin", [1.0, 1e4])
def test_dissimilar_ones_that_are_equal_have_no_gradient(legacy, margin):
    x, fields = np.ones((2, 3)), {"margin": margin, "legacy": legacy, "dtype": "float32"}
    loss, of_a, of_b, _ = loss_and_gradients(ContrastiveLossLayer, x, x, np.array([0, 1]), **fields)
    assert_close(loss, (margin if legacy else margin**2) / 4, tolerance=1e-6)
    assert not of_a.any()
    assert not of_b.any()


def test_labels_are_0_or_1():
    with pytest.raises(DataError, match=r"tested: label 2 of record 1 .*from 0 to 1"):
        loss_and_gradients(ContrastiveLossLayer, (2, 3), (2, 3), np.array([0, 2]))


def test_labels_have_a_gradient_of_zero():
    assert_close(loss_and_gradients(ContrastiveLossLayer, (2, 3), (2, 3), np.array([0.0, 1.0]))[3], np.zeros(2))


def test_bad_fields():
    with pytest.raises(ConfigError, match=r"bottoms=\('a', 'b'\), but exactly 3 must be given"):
        ContrastiveLossLayer(bottoms=["a", "b"])
    with pytest.raises(ConfigError, match=r"margin=0\.0, but it must be above 0"):
        ContrastiveLossLayer(bottoms=["a", "b", "similar"], margin=0)
    with pytest.raises(ConfigError, match=r"tested: .*'bottom1' .*\(3, 5\) .*'bottom0'"):
        loss_and_gradients(ContrastiveLossLayer, (3, 4), (3, 5), np.zeros(3, int))
    with pytest.raises(ConfigError, match=r"tested: .*\(3, 2\), .*\(3,\)"):
        loss_and_gradients(ContrastiveLossLayer, (3, 4), (3, 4), np.zeros((3, 2), int))
