"""Initializers: the first values of parameters."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, InputLayer, Net, registry
from nacre.random import Random
from nacre.testing import assert_close
from nacre_layers import Constant, Gaussian, InnerProductLayer, Uniform, Xavier, XavierFanIn

ALL = [Constant(value=0.5), Uniform(low=-1, high=3), Gaussian(mean=2, std=0.5), Xavier(), XavierFanIn()]
RANDOM = ALL[1:]


def values(initializer, shape, *, seed=0, name="ip/weight"):
    return initializer.values(Random(seed, name, lambda: 0), shape)


@pytest.mark.parametrize(
    ("initializer", "mean", "std", "low", "high"),
    [
        (Uniform(low=-1, high=3), 1, 4 / math.sqrt(12), -1, 3),
        (Gaussian(mean=2, std=0.5), 2, 0.5, -math.inf, math.inf),
        (Xavier(), 0, math.sqrt(2 / 600), -0.1, 0.1),  # fan-in 400, fan-out 200: limit sqrt(6 / 600)
        (XavierFanIn(), 0, math.sqrt(1 / 400), -math.sqrt(3 / 400), math.sqrt(3 / 400)),
    ],
)
def test_statistics(initializer, mean, std, low, high):
    drawn = values(initializer, (200, 400))
    assert abs(drawn.mean() - mean) < 5 * std / math.sqrt(drawn.size)
    assert drawn.std() == pytest.approx(std, rel=0.02)
    assert drawn.min() >= low and drawn.max() <= high
    if math.isfinite(high):  # and the ends are reached
        assert drawn.max() > high - 0.01 * (high - low) and drawn.min() < low + 0.01 * (high - low)


@settings(derandomize=True, deadline=None, max_examples=30, database=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=5).map(tuple))
def test_the_fans_of_a_convolution_count_its_window(shape):
    window = math.prod(shape[2:])
    fan_in, fan_out = shape[1] * window, shape[0] * window
    uniform = 2 * Random(0, "w", lambda: 0).generator().random(shape) - 1
    assert_close(values(Xavier(), shape, name="w"), uniform * math.sqrt(6 / (fan_in + fan_out)))
    assert_close(values(XavierFanIn(), shape, name="w"), uniform * math.sqrt(3 / fan_in))


@pytest.mark.parametrize("shape", [(4,), (3, 2), (2, 3, 2, 2)])
@pytest.mark.parametrize("initializer", ALL, ids=repr)
def test_values_are_float64_of_the_shape(initializer, shape):
    drawn = values(initializer, shape)
    assert drawn.shape == shape and drawn.dtype == np.float64


def test_constant():
    assert_close(values(Constant(value=0.5), (2, 3)), np.full((2, 3), 0.5))
    assert_close(values(Constant(), (2,)), [0, 0])


@pytest.mark.parametrize("initializer", RANDOM, ids=repr)
def test_values_are_those_of_the_seed_and_the_name(initializer):
    first = values(initializer, (3, 4))
    assert np.array_equal(values(initializer, (3, 4)), first)
    assert not (values(initializer, (3, 4), name="ip2/weight") == first).any()
    assert not (values(initializer, (3, 4), seed=1) == first).any()


def net(*, dtype="float64", seed=0, before=(), initializer=None):
    layers = [InputLayer(tops=["x"], shape=5, batch_size=2), *before]
    layers.append(InnerProductLayer(bottoms=["x"], tops=["ip"], output_dim=4, weight_init=initializer or Xavier()))
    return Net("n", layers, backend="numpy", dtype=dtype, seed=seed)


@pytest.mark.parametrize("initializer", RANDOM, ids=repr)
def test_weights_do_not_depend_on_the_type(initializer):
    coarse = net(dtype="float32", initializer=initializer).parameters["ip/weight"].value
    fine = net(dtype="float64", initializer=initializer).parameters["ip/weight"].value
    assert coarse.dtype == np.float32
    assert np.array_equal(coarse, fine.astype(np.float32))


def test_another_layer_moves_nobody_elses_weights():
    other = InnerProductLayer(bottoms=["x"], tops=["other"], output_dim=4)
    one, both = net(), net(before=[other])
    assert np.array_equal(one.parameters["ip/weight"].value, both.parameters["ip/weight"].value)
    assert not np.array_equal(both.parameters["other/weight"].value, both.parameters["ip/weight"].value)
    assert not np.array_equal(net(seed=1).parameters["ip/weight"].value, one.parameters["ip/weight"].value)


def test_a_bare_number_is_a_constant():
    layer = InnerProductLayer(bottoms=["x"], tops=["y"], output_dim=2, weight_init=0.25, bias_init={"type": "Gaussian"})
    assert repr(layer.weight_init) == "Constant(value=0.25)" and repr(layer.bias_init) == "Gaussian()"


@pytest.mark.parametrize(
    ("kind", "fields"), [(Gaussian, {"std": -1}), (Constant, {"value": math.nan}), (Uniform, {"high": math.inf})]
)
def test_bad_fields(kind, fields):
    with pytest.raises(ConfigError, match=f"{kind.__name__}: {next(iter(fields))}="):
        kind(**fields)


def test_every_initializer_of_ours_is_tested_here():
    ours = {offer.name for offer in registry().offers("initializer") if offer.distribution == "nacre"}
    assert ours == {type(one).__name__ for one in ALL}
