"""WassersteinLoss: what it costs to move one distribution to another."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import WEIGHT, loss_and_gradients
from nacre import ConfigError, DataError
from nacre.testing.close import assert_close, assert_near
from nacre.testing.trial import Example
from nacre_layers.losses.wasserstein_loss import WassersteinLossLayer

DISTANCES = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


def distributions(random, rows, size):
    """Return distributions that add up to 1 in float32 too: what is too much drives the iteration on for ever."""
    return (1 + random.multinomial(64 - size, np.ones(size) / size, rows)) / 64


def sinkhorn(layer, a, b):
    """Return loss and gradients by the plain iteration, record by record."""
    cost = np.array(layer.cost)
    kernel, loss, potentials = np.exp(-layer.sharpness * cost), 0.0, ([], [])
    for one, other in zip(a.reshape(len(a), -1), b.reshape(len(b), -1), strict=True):
        u = np.ones(len(one)) / len(one)
        for _ in range(layer.sinkhorn_iter):
            u = one / (kernel @ (other / (kernel.T @ u)))
        v = other / (kernel.T @ u)
        loss += u @ (kernel * cost) @ v
        for found, scale in zip(potentials, (u, v), strict=True):
            found.append(layer.weight * np.log(scale) / layer.sharpness / len(a))
    return layer.weight * loss / len(a), *(
        np.array(found).reshape(given.shape) for found, given in zip(potentials, (a, b), strict=True)
    )


@st.composite
def plans(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    rows, height, width = (draw(st.integers(least, 4)) for least in (1, 2, 2))
    fields = {
        "cost": random.uniform(0, 2, (height, width)).tolist(),
        "sharpness": draw(st.sampled_from([0.5, 3.0, 10.0])),
        "sinkhorn_iter": draw(st.sampled_from([1, 5, 20])),
        "weight": draw(WEIGHT),
    }
    return Example(fields, [distributions(random, rows, height), distributions(random, rows, width)])


class TestWassersteinLoss(Agreement):
    """The gradients are those of the smoothed problem, no slopes of the loss: they are compared with plain Sinkhorn."""

    layer = WassersteinLossLayer

    def examples(self):
        random = np.random.default_rng(0)
        a, b = distributions(random, 4, 3), distributions(random, 4, 3)
        yield Example({"cost": DISTANCES, "sharpness": 5.0, "weight": 0.3}, [a, b])
        cost = [[0, 1, 2, 3], [1, 0, 1, 2]]
        b = distributions(random, 3, 4).reshape(3, 2, 2)
        yield Example({"cost": cost, "sharpness": 2.0}, [distributions(random, 3, 2), b], label="of other sizes")

    def strategy(self):
        return plans()

    def reference(self, layer, inputs, parameters):
        return sinkhorn(layer, *inputs)[0]

    def _check_slopes(self, trial, entries):
        trial.forward()
        self._compare_with_sinkhorn(trial, trial.gradients())

    def _check_slope(self, trial, before, gradients, seed, loss):
        self._compare_with_sinkhorn(trial, gradients)

    def _compare_with_sinkhorn(self, trial, gradients):
        for place, expected in enumerate(sinkhorn(trial.layer, *trial.arrays)[1:]):
            assert_near(gradients[f"input {place}"], expected, f"gradient of input {place}", self.gradient)


def test_golden_numbers():
    a, b = np.array([[0.2, 0.3, 0.5]]), np.array([[0.6, 0.3, 0.1]])
    loss, gradient, _ = loss_and_gradients(WassersteinLossLayer, a, b, cost=DISTANCES, sharpness=10)
    assert_close(loss, 0.800000001, tolerance=1e-9)
    assert_close(gradient, [[-1.02196663, -0.0373817, 0.99138651]], tolerance=1e-8)


def test_a_sharp_gradient_is_the_slope_of_the_loss():
    """Along a way on which the distribution stays one."""
    a, b = np.array([[0.2, 0.3, 0.5]]), np.array([[0.6, 0.3, 0.1]])
    way, fields = np.array([[1.0, 1.0, -2.0]]), {"cost": DISTANCES, "sharpness": 40, "sinkhorn_iter": 2000}
    low, high = (loss_and_gradients(WassersteinLossLayer, a + step * way, b, **fields)[0] for step in (-1e-3, 1e-3))
    _, gradient, _ = loss_and_gradients(WassersteinLossLayer, a, b, **fields)
    assert abs((high - low) / 2e-3 - np.sum(gradient * way)) < 0.05


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_sharpness_that_plain_exponentials_cannot_hold(dtype):
    """exp(-5000) is 0, and so are distributions that are 0 somewhere."""
    cost = 5 * np.array(DISTANCES)
    a, b = np.array([[0.0, 0.0, 1.0]]), np.array([[1.0, 0.0, 0.0]])
    loss, *gradients = loss_and_gradients(WassersteinLossLayer, a, b, dtype=dtype, cost=cost, sharpness=1000)
    assert_close(loss, 10, tolerance=1e-3)
    assert all(np.isfinite(one).all() for one in gradients)


def test_bad_fields():
    with pytest.raises(ConfigError, match="cost is missing") as told:
        WassersteinLossLayer(bottoms=["a", "b"])
    assert "sharpness is missing" in str(told.value)
    with pytest.raises(ConfigError, match=r"sharpness=0\.0, but it must be above 0"):
        WassersteinLossLayer(bottoms=["a", "b"], cost=DISTANCES, sharpness=0)
    with pytest.raises(ConfigError, match="sinkhorn_iter=0, but it must be above 0"):
        WassersteinLossLayer(bottoms=["a", "b"], cost=DISTANCES, sharpness=1, sinkhorn_iter=0)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([-0.5, 1.0, 0.5], "tested: bottom 'bottom{}' holds -0.5"),
        ([0.0, 0.0, 1.5], "tested: bottom 'bottom{}' holds 1.5"),
        ([0.5, 0.5, 0.5], "tested: record 1 of the batch in bottom 'bottom{}' adds up to 1.5, but a distribution"),
    ],
)
def test_bottoms_that_are_no_distributions(place, wrong, message):
    bottoms = [np.full((2, 3), 1 / 3), np.full((2, 3), 1 / 3)]
    bottoms[place][1] = wrong
    with pytest.raises(DataError, match=message.format(place)):
        loss_and_gradients(WassersteinLossLayer, *bottoms, cost=DISTANCES, sharpness=1)
    loss_and_gradients(WassersteinLossLayer, *bottoms, cost=DISTANCES, sharpness=1, rows=1)


def test_bottoms_that_do_not_fit():
    with pytest.raises(ConfigError, match=r"tested: cost .*\(3, 3\), .*\(3, 4\)"):
        loss_and_gradients(WassersteinLossLayer, (2, 3), (2, 4), cost=DISTANCES, sharpness=1)
    with pytest.raises(ConfigError, match="tested: the bottoms have 2 and 3 rows"):
        loss_and_gradients(WassersteinLossLayer, (2, 3), (3, 3), cost=DISTANCES, sharpness=1)
