"""Slice: a blob cut into parts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.slice import SliceLayer


class TestSlice(Agreement):
    layer = SliceLayer

    def examples(self):
        yield Example({}, [(3, 4)], tops=2, label="equal parts")
        yield Example({"points": [1, 3]}, [(2, 6, 2, 3)], tops=3, label="three parts")
        yield Example({"axis": -1, "points": 2}, [(2, 3, 5)], tops=2, label="last axis")
        yield Example({}, [(2, 3)], tops=1, label="one part")
        yield Example({"points": 1}, [np.arange(12).reshape(3, 4)], tops=2, label="whole numbers")

    def strategy(self):
        def build(shape, lengths, axis, from_behind, equal):
            axis = 1 + axis % (len(shape) - 1)
            lengths = lengths[:1] * len(lengths) if equal else lengths
            shape = (*shape[:axis], sum(lengths), *shape[axis + 1 :])
            points = [] if equal else np.cumsum(lengths)[:-1].tolist()
            fields = {"axis": axis - len(shape) if from_behind else axis, "points": points}
            return Example(fields, [shape], tops=len(lengths))

        return st.builds(
            build,
            st.lists(st.integers(1, 4), min_size=2, max_size=4),
            st.lists(st.integers(1, 4), min_size=2, max_size=4),
            st.integers(0, 3),
            st.booleans(),
            st.booleans(),
        )

    def in_torch(self, layer, inputs, parameters):
        import torch

        where = list(layer.points) or len(layer.tops)
        return list(torch.tensor_split(inputs[0], where, layer.axis))

    def reference(self, layer, inputs, parameters):
        rows = list(inputs[0].swapaxes(0, layer.axis))
        ends = [*layer.points, len(rows)]
        if not layer.points:
            ends = [len(rows) // len(layer.tops) * (n + 1) for n in range(len(layer.tops))]
        parts = [[row for n, row in enumerate(rows) if start <= n < end] for start, end in pairwise([0, *ends])]
        return [np.array(part).swapaxes(0, layer.axis) for part in parts]


def test_slice_is_the_inverse_of_concat_along_the_batch_too():
    layers = [
        InputLayer(tops=["x"], shape=3, batch_size=4),
        SliceLayer(bottoms="x", tops=["a", "b"], axis=0, points=1),
        ConcatLayer(bottoms=["a", "b"], tops="y", axis=0),
    ]
    net = Net("n", layers, backend="numpy", keep="a")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    net.write("x", x)
    net.forward()
    assert net.blob("a").shape == (1, 3)
    np.testing.assert_array_equal(net.blob("y"), x)


def test_a_batch_of_which_some_rows_do_not_count_is_not_cut():
    layers = [InputLayer(tops=["x"], shape=3, batch_size=4), SliceLayer(bottoms="x", tops=["a", "b"], axis=-2)]
    net = Net("n", layers, backend="numpy")
    net.write("x", np.zeros((3, 3)))
    with pytest.raises(DataError, match=r"a: axis=-2 .* 3 of 4 "):
        net.forward()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"points": [1, 2]}, r"cut: points=\(1, 2\), but 2 tops need 1"),
        ({"points": [0]}, r"cut: points=\(0,\), but every number must be above 0"),
        ({"tops": ["a", "b", "c"], "points": [2, 2]}, r"cut: points=\(2, 2\), but each must be above the one before"),
        ({"bottoms": ["x", "y"]}, "cut: bottoms=.*, but exactly 1 must be given"),
        ({"tops": []}, "cut: tops=.*, but at least 1 must be given"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        SliceLayer(**{"name": "cut", "bottoms": "x", "tops": ["a", "b"], **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "cut: axis 1 of length 5 cannot be cut into 2 equal parts\n.*points"),
        ({"points": 5}, r"cut: points=\(5,\), but axis 1 has the length 5"),
        ({"axis": 2}, "cut: axis=2, but the bottom of shape .* has the axes 0 to 1"),
    ],
)
def test_bottoms_that_do_not_fit(fields, message):
    layers = [InputLayer(tops=["x"], shape=5), SliceLayer(name="cut", bottoms="x", tops=["a", "b"], **fields)]
    with pytest.raises(ConfigError, match=message):
        Net("n", layers, backend="numpy")
