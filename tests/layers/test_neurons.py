"""Neurons: activation functions, in place or not."""

import math

import numpy as np
import pytest

from nacre import ConfigError, Identity, InputLayer, Net, open_backend, registry
from nacre.testing import Example
from nacre.testing import NeuronTests as NeuronSuite
from nacre.testing.close import assert_close
from nacre.testing.gradients import numerical_gradient, worst_error
from nacre.testing.trial import backends
from nacre_layers.neurons import (
    ELU,
    GELU,
    SELU,
    Exponential,
    Hardswish,
    LReLU,
    Mish,
    ReLU,
    Sigmoid,
    SiLU,
    Softplus,
    STanh,
    Tanh,
)

erf_of = np.vectorize(math.erf)


def logistic(x):
    return 1 / (1 + np.exp(-x))


def normal(x):
    """The standard normal distribution function."""
    return (1 + erf_of(x / np.sqrt(2))) / 2


def tanh_gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def mish(x):
    return x * np.tanh(np.log(1 + np.exp(x)))


def slope_of(function, x):
    """The slope of an analytic function, exact to the last digits: by a step in the imaginary direction."""
    return np.imag(function(x + 1e-30j)) / 1e-30


FORMULAS = {
    Identity(): (lambda x: x, lambda x: np.ones_like(x)),
    ReLU(): (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(float)),
    Sigmoid(): (logistic, lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    Tanh(): (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    STanh(): (lambda x: 1.7159047 * np.tanh(2 * x / 3), lambda x: 1.7159047 * 2 / 3 / np.cosh(2 * x / 3) ** 2),
    STanh(outer=2, inner=0.5): (lambda x: 2 * np.tanh(x / 2), lambda x: 1 / np.cosh(x / 2) ** 2),
    LReLU(): (lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1, 0.01)),
    LReLU(slope=2): (lambda x: np.where(x > 0, x, 2 * x), lambda x: np.where(x > 0, 1, 2)),
    ELU(): (lambda x: np.where(x > 0, x, np.exp(x) - 1), lambda x: np.where(x > 0, 1, np.exp(x))),
    ELU(alpha=0.5): (lambda x: np.where(x > 0, x, np.exp(x) / 2 - 0.5), lambda x: np.where(x > 0, 1, np.exp(x) / 2)),
    SELU(): (
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
        lambda x: 1.0507009873554805 * np.where(x > 0, 1, 1.6732632423543772 * np.exp(x)),
    ),
    Mish(): (mish, lambda x: slope_of(mish, x)),
    Hardswish(): (
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, (2 * x + 3) / 6)),
    ),
    GELU(): (lambda x: x * normal(x), lambda x: normal(x) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)),
    GELU(approximate="tanh"): (tanh_gelu, lambda x: slope_of(tanh_gelu, x)),
    SiLU(): (lambda x: x * logistic(x), lambda x: logistic(x) * (1 + x * (1 - logistic(x)))),
    SiLU(beta=-3): (lambda x: x * logistic(-3 * x), lambda x: slope_of(lambda z: z * logistic(-3 * z), x)),
    Softplus(): (lambda x: np.log(1 + np.exp(x)), logistic),
    Softplus(beta=3): (lambda x: np.log(1 + np.exp(3 * x)) / 3, lambda x: logistic(3 * x)),
    Exponential(): (np.exp, np.exp),
}
X = np.array([[-3.0, -1.5, -0.25], [0.4, 1.7, 3.0]])


class Run:
    """A neuron's functions on arrays of a backend."""

    def __init__(self, neuron, backend, dtype):
        self.neuron, self.backend, self.dtype = neuron, open_backend(backend), dtype
        self.view = Net("n", [InputLayer(tops="none")], backend=backend, dtype=dtype).view(self.backend)

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
@pytest.mark.parametrize("neuron", FORMULAS, ids=repr)
def test_formulas(neuron, dtype, backend):
    run, (function, slope) = Run(neuron, backend, dtype), FORMULAS[neuron]
    dy = np.arange(6.0).reshape(2, 3) - 2.5
    for in_place in (False, True):
        assert_close(run.forward(X, in_place=in_place), function(X))
        assert_close(run.backward(X, dy, in_place=in_place), dy * slope(X))


@pytest.mark.parametrize("neuron", FORMULAS, ids=repr)
def test_gradients(neuron):
    run, dy = Run(neuron, "numpy", "float64"), np.arange(1.0, 7).reshape(2, 3)
    x = X * 0.99  # Hardswish has kinks at 3 and -3
    places, slopes = numerical_gradient(lambda x: float((run.forward(x) * dy).sum()), x)
    assert worst_error(run.backward(x, dy), places, slopes)[0] < 1e-6


def test_every_neuron_of_ours_has_its_formula_here():
    ours = {registry().open_offer(offer) for offer in registry().offers("neuron") if offer.distribution == "nacre"}
    assert ours == {type(neuron) for neuron in FORMULAS}


def test_relu_has_no_gradient_at_the_kink():
    run = Run(ReLU(), "numpy", "float64")
    assert_close(run.backward(np.array([-1.0, 0.0, 1.0]), np.ones(3)), [0, 0, 1])
    run = Run(ReLU(epsilon=0.5), "numpy", "float64")
    assert_close(run.forward(np.array([0.4, 0.5, 0.6])), [0.5, 0.5, 0.6])
    assert_close(run.backward(np.array([0.4, 0.5, 0.6]), np.ones(3)), [0, 0, 1])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("neuron", [one for one in FORMULAS if type(one) is not Exponential], ids=repr)
def test_large_numbers_do_not_overflow(neuron, dtype):
    run, x = Run(neuron, "numpy", dtype), np.array([-1e30, -800, 0, 800, 1e30])
    with np.errstate(all="raise", under="ignore"):
        y, dx = run.forward(x), run.backward(x, np.ones(5))
    assert np.isfinite(y).all() and np.isfinite(dx).all()
    far = neuron if not isinstance(neuron, SiLU) or neuron.beta > 0 else None  # that one is flat on the other side
    assert far is None or (abs(dx[-1] - run.backward(np.array([20.0]), np.ones(1))) < 1e-4).all()


def test_the_exponential_underflows_to_zero():
    run = Run(Exponential(), "numpy", "float32")
    assert_close(run.forward(np.array([-1e30, 0])), [0, 1])
    assert_close(run.backward(np.array([-1e30, 0]), np.ones(2)), [0, 1])


@pytest.mark.parametrize("neuron", FORMULAS, ids=repr)
def test_nan_stays_nan(neuron):
    assert np.isnan(Run(neuron, "numpy", "float64").forward(np.array([np.nan]))).all()


def test_singas_numbers_of_stanh():
    run, x = Run(STanh(), "numpy", "float64"), np.array([1, 2, 0.5])
    assert_close(run.forward(x), [1.00000000, 1.49294290, 0.55168522], tolerance=1e-8)
    assert_close(run.backward(x, np.ones(3)), [0.75541451, 0.27796821, 1.02568725], tolerance=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LReLU(slope=0), "slope=0.0, but it must be above 0"),
        (lambda: ELU(alpha=-1), "alpha=-1.0, but it must be above 0"),
        (lambda: ELU(alpha=float("inf")), "alpha=inf, but it must be finite"),
        (lambda: GELU(approximate="erf"), "approximate='erf', but it must be one of 'none', 'tanh'"),
        (lambda: SiLU(beta=float("nan")), "beta=nan, but it must be finite"),
        (lambda: Softplus(beta=0), "beta=0.0, but it must be above 0"),
        (lambda: STanh(inner=0), "inner=0.0, but it must be above 0"),
    ],
)
def test_bad_fields(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


# The conformance kit


class OfNeurons(NeuronSuite):
    def examples(self):
        for neuron in FORMULAS:
            if type(neuron) is self.component:
                fields = neuron.given()
                yield Example(fields, label=",".join(map(str, fields.values())))

    def reference(self, neuron, x):
        return next(form for one, (form, _) in FORMULAS.items() if repr(one) == repr(neuron))(x)


for cls in dict.fromkeys(map(type, FORMULAS)):
    more = {"component": cls, "overflows": cls is Exponential, "__module__": __name__}
    globals()[f"Test{cls.__name__}"] = type(f"Test{cls.__name__}", (OfNeurons,), more)
