"""Index2Onehot: class numbers as vectors with a single 1."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.index2onehot import Index2OnehotLayer


def labels(shape, n_class, seed, dtype):
    return np.random.default_rng(seed).integers(0, n_class, shape).astype(dtype)


class TestIndex2Onehot(Agreement):
    layer = Index2OnehotLayer

    def examples(self):
        yield Example({"n_class": 3}, [np.array([2, 0, 1]), np.array([[1], [2]])], label="two bottoms")
        yield Example({"n_class": 4, "axis": -2}, [labels((2, 1, 3), 4, 0, "float64")], wanted=(), label="a sequence")
        yield Example({"n_class": 1}, [np.zeros((2, 1, 2, 2), np.uint8)], label="one class")

    def strategy(self):
        def build(shape, axis, from_behind, n_class, seed, dtype):
            axis = 1 + axis % (len(shape) - 1)
            shape[axis] = 1
            fields = {"axis": axis - len(shape) * from_behind, "n_class": n_class}
            return Example(fields, [labels(shape, n_class, seed, dtype)], wanted=())

        return st.builds(
            build,
            st.lists(st.integers(1, 4), min_size=2, max_size=4),
            st.integers(0, 3),
            st.booleans(),
            st.integers(1, 5),
            st.integers(0, 99),
            st.sampled_from(["int64", "uint8", "float64"]),
        )

    def in_torch(self, layer, inputs, parameters):
        import torch

        found = []
        for x in inputs:
            x = x[:, None] if x.ndim == 1 else x
            onehot = torch.nn.functional.one_hot(x.squeeze(layer.axis).long(), layer.n_class)
            found.append(onehot.movedim(-1, layer.axis))
        return found

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            x = x.reshape(-1, 1) if x.ndim == 1 else x
            shape = list(x.shape)
            shape[layer.axis] = layer.n_class
            top = np.zeros(shape)
            for place in np.ndindex(x.shape):
                one = list(place)
                one[layer.axis] = int(x[place])
                top[tuple(one)] = 1
            tops.append(top)
        return tops


def net_of(shape, n_class=3, dtype="", **fields):
    layers = [
        InputLayer(tops="x", shape=shape, batch_size=4, dtype=dtype),
        Index2OnehotLayer(bottoms="x", tops="y", n_class=n_class, **fields),
    ]
    return Net("n", layers, backend="numpy")


def test_rows_that_do_not_count_are_0():
    net = net_of((1, 2))
    net.write("x", np.ones((4, 1, 2)))
    net.forward()
    net.write("x", np.full((3, 1, 2), 2))
    net.forward()
    assert net.blob("y").sum((1, 2)).tolist() == [2, 2, 2, 0]
    assert (net.blob("y")[:3, 2] == 1).all()


@pytest.mark.parametrize(
    ("value", "told"), [(3, "3"), (-1, "-1"), (0.5, "0.5"), (np.nan, "nan"), (np.inf, "inf"), (1e30, r"1e\+30")]
)
def test_what_is_no_class(value, told):
    net = net_of((1, 2))
    x = np.ones((4, 1, 2))
    x[2, 0, 1] = value
    net.write("x", x)
    with pytest.raises(DataError, match=f"y: label {told} of record 2 .*from 0 to 2"):
        net.forward()


@pytest.mark.parametrize(
    ("shape", "fields", "message"),
    [
        ((2,), {}, r"y: bottom 'x' of shape \(4, 2\) must have the length 1 along axis 1"),
        ((1,), {"axis": 2}, "y: axis=2, but the bottom of shape"),
        ((1,), {"n_class": 0}, "y: n_class=0, but it must be above 0"),
        ((1,), {"axis": 0}, "y: axis=0, but it must be different from 0"),
    ],
)
def test_bad_fields(shape, fields, message):
    with pytest.raises(ConfigError, match=message):
        net_of(shape, **fields)
