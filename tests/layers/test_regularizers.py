"""Regularizers: the gradient of a penalty on a parameter."""

import numpy as np
import pytest

from nacre import ConfigError, InputLayer, Net, open_backend, registry
from nacre.testing.close import assert_close
from nacre.testing.gradients import numerical_gradient, worst_error
from nacre.testing.trial import backends
from nacre_layers.regularizers import L1, L2

PENALTIES = {"L1": lambda w: np.abs(w).sum(), "L2": lambda w: (w**2).sum() / 2}
W = np.array([-2.0, -0.5, 0.25, 3.0])


def added(regularizer, weight, gradient, coefficient, *, backend="numpy", dtype="float64"):
    opened = open_backend(backend)
    arrays = []
    for host in (weight, gradient):
        arrays.append(opened.empty(host.shape, dtype))
        opened.from_host(host.astype(dtype), arrays[-1])
    regularizer.add_gradient(
        Net("n", [InputLayer(tops="none")], backend=backend, dtype=dtype).view(opened), *arrays, coefficient
    )
    assert_close(opened.to_host(arrays[0]), weight, "the weight", tolerance=0.0)
    return opened.to_host(arrays[1])


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_formulas(backend, dtype):
    gradient = np.array([1.0, -1.0, 0.5, 2.0])
    where = {"backend": backend, "dtype": dtype}
    assert_close(added(L2(), W, gradient, 0.1, **where), gradient + 0.1 * W)
    assert_close(added(L1(), W, gradient, 0.1, **where), gradient + 0.1 * np.sign(W))


def test_l1_leaves_zeros():
    assert_close(added(L1(), np.zeros(3), np.arange(3.0), 5.0), [0, 1, 2])


@pytest.mark.parametrize("name", sorted(PENALTIES))
def test_the_gradient_is_that_of_the_penalty(name):
    regularizer = registry().open("regularizer", name)()
    places, slopes = numerical_gradient(lambda w: 0.3 * float(PENALTIES[name](w)), W)
    assert worst_error(added(regularizer, W, np.zeros(4), 0.3), places, slopes)[0] < 1e-6


def test_every_regularizer_of_ours_has_its_penalty_here():
    ours = {offer.name for offer in registry().offers("regularizer") if offer.distribution == "nacre"}
    assert ours == set(PENALTIES)


@pytest.mark.parametrize("kind", [L1, L2])
def test_bad_coefficient(kind):
    assert kind().coef == 1.0
    with pytest.raises(ConfigError, match=f"{kind.__name__}: coef=-1"):
        kind(coef=-1)
