"""Concat: several blobs one behind the other."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.trial import Example, backends
from nacre_data import MemoryDataLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.shapes.concat import ConcatLayer


class TestConcat(Agreement):
    layer = ConcatLayer

    def examples(self):
        yield Example({}, [(3, 2), (3, 4)], tops=1)
        yield Example({"axis": -1}, [(2, 3, 2), (2, 3, 1), (2, 3, 4)], tops=1, label="last axis")
        yield Example({}, [(2, 1, 3, 2), (2, 2, 3, 2)], tops=1, label="channels")
        yield Example({"axis": 0}, [(2, 3), (4, 3)], tops=1, label="batch")
        yield Example({}, [(2, 3)], tops=1, label="one")
        yield Example({}, [np.arange(6).reshape(3, 2), np.arange(3)[:, None]], tops=1, label="whole numbers")

    def strategy(self):
        def build(shape, lengths, axis, from_behind):
            axis %= len(shape)
            shapes = [(*shape[:axis], length, *shape[axis + 1 :]) for length in lengths]
            return Example({"axis": axis - len(shape) if from_behind else axis}, shapes, tops=1)

        sizes = st.lists(st.integers(1, 4), min_size=2, max_size=4)
        return st.builds(
            build, sizes, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 3), st.booleans()
        )

    def in_torch(self, layer, inputs, parameters):
        import torch

        return [torch.cat(inputs, layer.axis)]

    def reference(self, layer, inputs, parameters):
        parts = [list(x.swapaxes(0, layer.axis)) for x in inputs]
        return [np.array([row for part in parts for row in part]).swapaxes(0, layer.axis)]


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (1, r"y: bottom 'b' of shape \(1, 3, 5\) does not fit 'a' of shape \(1, 2, 4\) along axis 1"),
        (3, "y: axis=3, but the bottom of shape .* has the axes 0 to 2"),
        (-4, "y: axis=-4, but the bottom of shape .* has the axes 0 to 2"),
    ],
)
def test_bottoms_that_do_not_fit(axis, message):
    layers = [
        InputLayer(tops=["a"], shape=(2, 4)),
        InputLayer(tops=["b"], shape=(3, 5)),
        ConcatLayer(bottoms=["a", "b"], tops=["y"], axis=axis),
    ]
    with pytest.raises(ConfigError, match=message):
        Net("n", layers, backend="numpy")


def test_a_bottom_without_the_axis_is_refused():
    layers = [
        InputLayer(tops=["a"], shape=(2,)),
        InputLayer(tops=["b"], shape=()),
        ConcatLayer(bottoms=["a", "b"], tops=["y"]),
    ]
    with pytest.raises(
        ConfigError, match=r"y: bottom 'b' of shape \(1,\) does not fit 'a' of shape \(1, 2\) along axis 1"
    ):
        Net("n", layers, backend="numpy")


@pytest.mark.parametrize(("dtypes", "expected"), [(["int64", "int64"], "int64"), (["int64", ""], "float32")])
def test_whole_numbers_stay_whole_among_themselves(dtypes, expected):
    sources = [InputLayer(tops=[f"x{n}"], shape=1, dtype=dtype) for n, dtype in enumerate(dtypes)]
    net = Net("n", [*sources, ConcatLayer(bottoms=["x0", "x1"], tops=["y"])], backend="numpy")
    net.write("x0", [[3]])
    net.write("x1", [[4]])
    net.forward()
    assert net.blob("y").dtype == expected
    assert net.blob("y").tolist() == [[3, 4]]


def two_batches(count, phase, backend):
    x, label = np.eye(count, 4), np.arange(count) % 3
    sources = [
        MemoryDataLayer(name=name, tops=[f"x{name}", f"l{name}"], data=[x, label], batch_size=4) for name in "ab"
    ]
    layers = [
        *sources,
        ConcatLayer(bottoms=["xa", "xb"], tops="x", axis=0),
        ConcatLayer(bottoms=["la", "lb"], tops="label", axis=0),
        InnerProductLayer(bottoms="x", tops="y", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["y", "label"]),
    ]
    return Net("two", layers, phase=phase, backend=backend, insert_splits=True, keep="all")


@pytest.mark.parametrize("backend", backends())
def test_all_rows_of_joined_batches_count(backend):
    with two_batches(8, "train", backend) as net:
        net.forward()
        net.backward()
        assert net.statistics()["accuracy"]["records"] == 8
        assert net.gradient("y").any(axis=1).all()


@pytest.mark.parametrize("backend", backends())
def test_batches_of_which_some_rows_do_not_count_are_not_joined(backend):
    with two_batches(7, "validation", backend) as net:
        net.forward()
        with pytest.raises(DataError, match=r"x: axis=0 .* 3 of 4 ") as caught:
            net.forward()
        assert "divides the number of records" in caught.value.remedy
