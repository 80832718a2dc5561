"""SquareLoss: half the squared distance."""

import numpy as np
import pytest

from agreement import Agreement
from losses import WEIGHT, loss_and_gradients, pairs
from nacre import ConfigError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.square_loss import SquareLossLayer


class TestSquareLoss(Agreement):
    layer = SquareLossLayer

    def examples(self):
        yield Example({}, [(4, 3), (4, 3)])
        yield Example({"weight": 0.3}, [(3, 1), np.array([3, 0, 1])], label="whole numbers without an axis")

    def strategy(self):
        return pairs(lambda random, shape: [shape, random.standard_normal(shape)], weight=WEIGHT)

    def in_torch(self, layer, inputs, parameters):
        from torch.nn.functional import mse_loss

        return layer.weight * mse_loss(*inputs, reduction="sum") / (2 * len(inputs[0]))

    def reference(self, layer, inputs, parameters):
        pairs = zip(inputs[0].reshape(-1), inputs[1].reshape(-1), strict=True)
        return layer.weight / (2 * len(inputs[0])) * sum((x - t) ** 2 for x, t in pairs)


def test_the_target_may_have_a_gradient_and_the_prediction_none():
    """Mocha's gradient of the target fails where that of the prediction is not wanted."""
    x, target = np.array([[1.0], [2]]), np.array([[3.0], [5]])
    _, _, gradient = loss_and_gradients(SquareLossLayer, x.astype(int), target)
    assert_close(gradient, [[1.0], [1.5]])


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (3, 1, 2, 2), (3,)])
def test_bottoms_of_other_shapes(shape):
    with pytest.raises(ConfigError, match=r"tested: .*'bottom1' .*'bottom0'"):
        loss_and_gradients(SquareLossLayer, (3, 4), shape)


def test_bad_fields():
    with pytest.raises(ConfigError, match=r"bottoms=\('x',\), but 2 or 3 must be given"):
        SquareLossLayer(bottoms=["x"])
    with pytest.raises(ConfigError, match=r"weight=-1\.0, but it must be 0 or more"):
        SquareLossLayer(bottoms=["x", "target"], weight=-1)
