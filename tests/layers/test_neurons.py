"""Neurons: activation functions, in place or not."""

import numpy as np
import pytest

from nacre import Identity, Net, open_backend, registry
from nacre.testing import assert_close, backends, numerical_gradient, worst_error
from nacre_layers import ReLU, Sigmoid, Tanh

FORMULAS = {
    Identity: (lambda x: x, lambda x: np.ones_like(x)),
    ReLU: (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(float)),
    Sigmoid: (lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    Tanh: (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
}
X = np.array([[-3.0, -1.5, -0.25], [0.4, 1.7, 3.0]])


class Run:
    """A neuron's functions on arrays of a backend."""

    def __init__(self, neuron, backend, dtype):
        self.neuron, self.backend, self.dtype = neuron, open_backend(backend), dtype
        self.view = Net("n", [], backend=backend, dtype=dtype).view(self.backend)

    def put(self, host):
        array = self.backend.empty(host.shape, self.dtype)
        self.backend.from_host(np.ascontiguousarray(host, self.dtype), array)
        return array

    def forward(self, x, *, in_place=False):
        x = self.put(x)
        y = x if in_place else self.put(np.full(x.shape, np.nan))
        self.neuron.forward(self.view, x, y)
        return self.backend.to_host(y)

    def backward(self, x, dy, *, in_place=False):
        y, given = self.put(self.forward(x)), self.put(dy)
        dx = given if in_place else self.put(np.full(dy.shape, np.nan))
        self.neuron.backward(self.view, self.put(x) if self.neuron.needs_input else None, y, given, dx)
        return self.backend.to_host(dx)


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", FORMULAS, ids=lambda kind: kind.__name__)
def test_formulas(kind, dtype, backend):
    run, (function, slope) = Run(kind(), backend, dtype), FORMULAS[kind]
    dy = np.arange(6.0).reshape(2, 3) - 2.5
    for in_place in (False, True):
        assert_close(run.forward(X, in_place=in_place), function(X))
        assert_close(run.backward(X, dy, in_place=in_place), dy * slope(X))


@pytest.mark.parametrize("kind", FORMULAS, ids=lambda kind: kind.__name__)
def test_gradients(kind):
    run, dy = Run(kind(), "numpy", "float64"), np.arange(1.0, 7).reshape(2, 3)
    places, slopes = numerical_gradient(lambda x: float((run.forward(x) * dy).sum()), X)
    assert worst_error(run.backward(X, dy), places, slopes)[0] < 1e-6


def test_every_neuron_of_ours_has_its_formula_here():
    ours = {offer.name for offer in registry().offers("neuron") if offer.distribution == "nacre"}
    assert ours == {kind.__name__ for kind in FORMULAS}


def test_relu_has_no_gradient_at_the_kink():
    run = Run(ReLU(), "numpy", "float64")
    assert_close(run.backward(np.array([-1.0, 0.0, 1.0]), np.ones(3)), [0, 0, 1])
    run = Run(ReLU(epsilon=0.5), "numpy", "float64")
    assert_close(run.forward(np.array([0.4, 0.5, 0.6])), [0.5, 0.5, 0.6])
    assert_close(run.backward(np.array([0.4, 0.5, 0.6]), np.ones(3)), [0, 0, 1])


@pytest.mark.parametrize("kind", [Sigmoid, Tanh, ReLU])
def test_large_numbers_do_not_overflow(kind):
    run = Run(kind(), "numpy", "float32")
    with np.errstate(all="raise"):
        y = run.forward(np.array([-1e30, 0, 1e30]))
        dx = run.backward(np.array([-1e30, 0, 1e30]), np.ones(3))
    assert np.isfinite(y).all() and np.isfinite(dx).all()


@pytest.mark.parametrize("kind", [Sigmoid, Tanh, ReLU])
def test_nan_stays_nan(kind):
    assert np.isnan(Run(kind(), "numpy", "float64").forward(np.array([np.nan]))).all()
