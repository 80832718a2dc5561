"""Constraints: where a parameter may be, after an update."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forging import trials
from nacre import ConfigError, InputLayer, Net, Solver
from nacre.testing.close import assert_close, assert_near
from nacre.testing.trial import ProbeLayer
from nacre_layers.constraints import L2Norm
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_solvers import SGD


def view(dtype="float64"):
    """Return a net's view of the numpy backend."""
    net = Net("n", [InputLayer(tops=["x"], shape=2)], backend="numpy", dtype=dtype)
    return net.view(net.backend)


def constrained(value, **fields):
    array = np.array(value)
    L2Norm(**fields).constrain(view(), array)
    return array


def test_golden_numbers():
    assert_close(constrained([[3.0, 4.0], [0.3, 0.4]], threshold=1), [[0.6, 0.8], [0.3, 0.4]])


def test_a_vector_is_one_vector():
    assert_close(constrained([3.0, 4.0], threshold=1), [0.6, 0.8])
    assert_close(constrained([0.3, 0.4], threshold=1), [0.3, 0.4], tolerance=0.0)


def test_a_weight_that_lies_transposed():
    assert_close(constrained([[3.0, 0.3], [4.0, 0.4]], threshold=1, axis=1), [[0.6, 0.3], [0.8, 0.4]])


def test_zeros_stay_zeros():
    assert_close(constrained(np.zeros((2, 3)), threshold=0.5), np.zeros((2, 3)), tolerance=0.0)


@settings(derandomize=True, max_examples=trials(60, 200), database=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.floats(0.1, 3), st.integers(0, 99))
def test_every_output_is_at_most_so_long_and_points_where_it_did(shape, threshold, seed):
    before = np.random.default_rng(seed).standard_normal(shape)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-6)):
        value = before.astype(dtype)
        L2Norm(threshold=threshold).constrain(view(dtype), value)
        vectors = before.reshape(1, -1) if len(shape) == 1 else before.reshape(shape[0], -1)
        expected = [vector * min(1, threshold / np.linalg.norm(vector)) for vector in vectors]
        assert_near(value, np.reshape(expected, shape), dtype, tolerance)


def training(**fields):
    """Return a training whose weight grows by 10 in every number of every update, and what it was in the beginning."""
    layer = InnerProductLayer(
        name="ip", bottoms="x", tops="y", output_dim=2, weight_init=0, weight_cons={"type": "L2Norm", **fields}
    )
    net = Net("n", [InputLayer(tops=["x"], shape=3), layer, ProbeLayer(name="loss", bottoms="y")], backend="numpy")
    net.write("x", np.ones((1, 3)))
    return Solver(SGD(), lr_policy=10).start(net)


@pytest.mark.parametrize(("every", "bounded"), [(1, [True] * 6), (3, [False, False, True] * 2)])
def test_the_solver_keeps_parameters_within_bounds(every, bounded):
    found = []
    with training(threshold=1.5, every_n_iter=every) as run:
        for _ in range(6):
            run.step()
            norms = np.linalg.norm(run.net.parameters["ip/weight"].value, axis=1)
            found.append(bool((norms < 1.5 + 1e-6).all()))
    assert found == bounded


def test_an_axis_that_the_parameter_lacks():
    message = r"ip: weight_cons: L2Norm: axis=2, but a parameter of shape \(2, 3\) has the axes 0 to 1"
    with pytest.raises(ConfigError, match=message):
        training(threshold=1, axis=2)
    L2Norm(threshold=1, axis=1).check((2,))
    assert_close(constrained([3.0, 4.0], threshold=1, axis=1), [0.6, 0.8])


@pytest.mark.parametrize(
    "fields",
    [{}, {"threshold": 0}, {"threshold": np.inf}, {"threshold": 1, "axis": -1}, {"threshold": 1, "every_n_iter": 0}],
)
def test_bad_fields(fields):
    with pytest.raises(ConfigError, match="L2Norm: "):
        L2Norm(**fields)
