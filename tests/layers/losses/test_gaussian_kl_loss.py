"""GaussianKLLoss: how far normal distributions are from the standard one."""

import numpy as np
import pytest

from agreement import Agreement
from losses import WEIGHT, loss_and_gradients, pairs
from nacre import ConfigError, DataError, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_data import MemoryDataLayer
from nacre_layers.losses.gaussian_kl_loss import GaussianKLLossLayer


class TestGaussianKLLoss(Agreement):
    layer = GaussianKLLossLayer

    def examples(self):
        yield Example({"weight": 0.3}, [(4, 3), np.random.default_rng(0).uniform(0.2, 2, (4, 3))])

    def strategy(self):
        return pairs(lambda random, shape: [shape, random.uniform(0.1, 3, shape)], weight=WEIGHT)

    def in_torch(self, layer, inputs, parameters):
        from torch.distributions import Normal, kl_divergence

        return layer.weight * kl_divergence(Normal(*inputs), Normal(0.0, 1.0)).sum() / len(inputs[0])

    def reference(self, layer, inputs, parameters):
        pairs = zip(inputs[0].reshape(-1), inputs[1].reshape(-1), strict=True)
        terms = [mu**2 + sigma**2 - 2 * np.log(sigma) - 1 for mu, sigma in pairs]
        return layer.weight / (2 * len(inputs[0])) * sum(terms)


def test_golden_number():
    loss, of_mu, of_sigma = loss_and_gradients(GaussianKLLossLayer, np.array([[1.0]]), np.array([[2.0]]))
    assert_close(loss, 1.306852819, tolerance=1e-9)
    assert (of_mu, of_sigma) == (1, 1.5)


def test_a_pass_over_the_data_weights_every_record_alike():
    """Mocha weights its mean by records on the CPU, and by numbers on the GPU."""
    random = np.random.default_rng(0)
    mu, sigma = random.normal(size=(5, 3)), random.uniform(0.5, 2, (5, 3))
    layers = [
        MemoryDataLayer(tops=["mu", "sigma"], data=[mu, sigma], batch_size=3),
        GaussianKLLossLayer(name="loss"),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64", phase="test")
    expected = (mu**2 + sigma**2 - 2 * np.log(sigma) - 1).sum() / 2 / 5
    assert_close(net.forward_epoch(), expected)


@pytest.mark.parametrize("sigma", [-0.25, 0.0])
def test_a_standard_deviation_is_above_0(sigma):
    message = f"tested: bottom 'bottom1' holds {sigma:g}, but a standard deviation is above 0\n.*Softplus"
    with pytest.raises(DataError, match=message):
        loss_and_gradients(GaussianKLLossLayer, np.zeros((1, 2)), np.array([[1.0, sigma]]))


def test_bad_fields():
    with pytest.raises(ConfigError, match=r"bottoms=\('mu',\), but exactly 2 must be given"):
        GaussianKLLossLayer(bottoms=["mu"])
    with pytest.raises(ConfigError, match=r"tested: .*'bottom1' .*\(3, 5\) .*'bottom0'"):
        loss_and_gradients(GaussianKLLossLayer, (3, 4), (3, 5))
