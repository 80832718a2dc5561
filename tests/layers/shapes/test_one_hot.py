"""OneHot: whole numbers as vectors with a single 1."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.one_hot import OneHotLayer


def numbers(shape, n_class, seed, dtype="int64"):
    return np.random.default_rng(seed).integers(0, n_class, shape).astype(dtype)


class TestOneHot(Agreement):
    layer = OneHotLayer

    def examples(self):
        yield Example({"n_class": 5}, [numbers((3, 4), 5, 0)], label="characters")
        yield Example({"n_class": 3}, [np.array([2, 0, 1]), numbers((2, 1, 3), 3, 1, "uint8")], label="two bottoms")
        yield Example({"n_class": 1}, [np.zeros((2, 2))], wanted=(), label="one class")

    def strategy(self):
        def build(shape, n_class, seed, dtype):
            return Example({"n_class": n_class}, [numbers(shape, n_class, seed, dtype)], wanted=())

        return st.builds(
            build,
            st.lists(st.integers(1, 4), min_size=1, max_size=3),
            st.integers(1, 5),
            st.integers(0, 99),
            st.sampled_from(["int64", "uint8", "float64"]),
        )

    def in_torch(self, layer, inputs, parameters):
        import torch

        return [torch.nn.functional.one_hot(x.long(), layer.n_class) for x in inputs]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            top = np.zeros((*x.shape, layer.n_class))
            for place in np.ndindex(x.shape):
                top[(*place, int(x[place]))] = 1
            tops.append(top)
        return tops


def net_of(shape=2, **fields):
    layers = [
        InputLayer(tops="x", shape=shape, batch_size=4),
        OneHotLayer(bottoms="x", tops="y", **{"n_class": 3, **fields}),
    ]
    return Net("n", layers, backend="numpy")


def test_rows_that_do_not_count_are_0():
    net = net_of()
    for count in (4, 3):
        net.write("x", np.full((count, 2), 2))
        net.forward()
    assert net.blob("y").sum((1, 2)).tolist() == [2, 2, 2, 0]
    assert (net.blob("y")[:3, :, 2] == 1).all()


@pytest.mark.parametrize(("value", "told"), [(3, "3"), (-1, "-1"), (0.5, "0.5"), (np.nan, "nan"), (1e30, r"1e\+30")])
def test_a_number_out_of_range(value, told):
    net = net_of()
    x = np.ones((4, 2))
    x[2, 1] = value
    net.write("x", x)
    with pytest.raises(DataError, match=f"y: number {told} of record 2 .*from 0 to 2\n.*n_class"):
        net.forward()


def test_bad_fields():
    with pytest.raises(ConfigError, match="y: n_class=0, but it must be above 0"):
        net_of(n_class=0)
