"""Taps: a linear map along one axis, and its transposed one, are those of a matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import InputLayer, Net, open_backend
from nacre_layers.taps import Taps, through


def matrix(taps):
    dense = np.zeros((taps.count, taps.length))
    for i, place, weight in taps.entries:
        dense[i, place] += weight
    return dense


def applied(x, *ways):
    view = Net("n", [InputLayer(tops="none")], backend="numpy", dtype="float64").view(open_backend("numpy"))
    shape = list(x.shape)
    for axis, taps in ways:
        shape[axis] = taps.count
    y = np.full(shape, np.nan)
    through(view, x, [(axis, taps.placed(view)) for axis, taps in ways], y)
    return y


@st.composite
def maps(draw):
    count, length = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    entry = st.tuples(st.integers(0, count - 1), st.integers(0, length - 1), st.sampled_from([0.0, 1.0, 0.25, -2.0]))
    return Taps(count, length, draw(st.lists(entry, max_size=12)))


@settings(max_examples=15)
@given(maps(), maps(), st.sampled_from(["float64", "int64"]))
def test_a_map_is_that_of_its_matrix(one, other, dtype):
    x = np.random.default_rng(0).integers(-9, 9, (2, one.length, other.length)).astype(dtype)
    found = applied(x, (2, other), (1, one))
    np.testing.assert_allclose(found, np.einsum("ia,jb,nab->nij", matrix(one), matrix(other), x))
    assert (matrix(one.back) == matrix(one).T).all()
    back = applied(found, (1, one.back), (2, other.back))
    np.testing.assert_allclose(back, np.einsum("ia,jb,nij->nab", matrix(one), matrix(other), found))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_where_it_is_read(value):
    x = np.array([[1.0, value, 2.0, 3.0]])
    copies = Taps(5, 4, [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 0, 1), (3, 3, 1)])  # two for 3, none for 4
    np.testing.assert_array_equal(applied(x, (1, copies)), [[1, value, 2, 4, 0]])
