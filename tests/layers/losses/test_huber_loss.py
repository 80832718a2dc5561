"""HuberLoss: squares of small errors, and sizes of large ones."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import WEIGHT, loss_and_gradients, pairs
from nacre import ConfigError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.huber_loss import HuberLossLayer


def off_the_kink(random, shape):
    """Return predictions and targets whose distance is not near a delta of the examples."""
    target = random.standard_normal(shape)
    return [target + random.choice([-1, 1], shape) * random.choice([0.1, 0.4, 0.8, 1.7, 5.0], shape), target]


class TestHuberLoss(Agreement):
    layer = HuberLossLayer

    def examples(self):
        random = np.random.default_rng(0)
        yield Example({}, off_the_kink(random, (4, 3)))
        yield Example({"weight": 0.3, "delta": 0.5}, off_the_kink(random, (3, 2, 2)), label="delta")
        yield Example({}, [np.array([[3.5], [0.25], [7]]), np.array([3, 0, 1])], label="whole numbers without an axis")

    def strategy(self):
        return pairs(off_the_kink, weight=WEIGHT, delta=st.sampled_from([0.5, 1.0, 3.0]))

    def in_torch(self, layer, inputs, parameters):
        from torch.nn.functional import huber_loss

        return layer.weight * huber_loss(*inputs, reduction="sum", delta=layer.delta) / len(inputs[0])

    def reference(self, layer, inputs, parameters):
        total = 0.0
        for x, t in zip(inputs[0].reshape(-1), inputs[1].reshape(-1), strict=True):
            size = abs(x - t)
            total += size**2 / 2 if size <= layer.delta else layer.delta * (size - layer.delta / 2)
        return layer.weight / len(inputs[0]) * total


def test_it_is_a_loss_of_numbers():
    assert HuberLossLayer.compares_numbers  # so a prediction is printed as a number, not as a class


def test_a_large_error_has_a_slope_of_delta():
    loss, gradient, other = loss_and_gradients(HuberLossLayer, np.array([[1e30, -1e30, 0.5, 0]]), np.zeros((1, 4)))
    assert_close(gradient, [[1, -1, 0.5, 0]])
    assert_close(other, -gradient)
    assert np.isfinite(loss)


@pytest.mark.parametrize(("delta", "words"), [(0, "above 0"), (float("inf"), "finite")])
def test_bad_fields(delta, words):
    with pytest.raises(ConfigError, match=f"delta={float(delta)}, but it must be {words}"):
        HuberLossLayer(bottoms=["x", "target"], delta=delta)
