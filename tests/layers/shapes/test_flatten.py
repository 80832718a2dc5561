"""Flatten: several axes as one."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from joined_batches import refuses_a_batch_that_is_not_full
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.flatten import FlattenLayer


class TestFlatten(Agreement):
    layer = FlattenLayer

    def examples(self):
        yield Example({}, [(2, 3, 2, 2), (3, 4)], label="two bottoms")
        yield Example({"axis": 2}, [(2, 3, 2, 4)], label="rows and columns")
        yield Example({"axis": -3, "end_axis": 2}, [(2, 3, 2, 4)], label="channels and rows")
        yield Example({"axis": 0, "end_axis": 1}, [(3, 2, 2), (2, 4)], label="images and channels")

    def strategy(self):
        def build(shape, first, last, from_behind):
            first = first % len(shape)
            last = first + last % (len(shape) - first)
            behind = len(shape) * (from_behind and first > 0)  # the batch's axis only where it is called 0
            return Example({"axis": first - behind, "end_axis": last - behind}, [tuple(shape)])

        shapes = st.lists(st.integers(1, 4), min_size=2, max_size=5)
        return st.builds(build, shapes, st.integers(0, 4), st.integers(0, 4), st.booleans())

    def in_torch(self, layer, inputs, parameters):
        return [x.flatten(layer.axis, layer.end_axis) for x in inputs]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            shape = list(x.shape)
            first, last = (axis % x.ndim for axis in (layer.axis, layer.end_axis))
            length = 1
            for _ in range(first, last + 1):
                length *= shape.pop(first)
            tops.append(np.array(list(x.flat)).reshape([*shape[:first], length, *shape[first:]]))
        return tops


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"axis": 3}, r"y: axis=3, but the bottom of shape \(1, 2, 3\) has the axes 1 to 2"),
        ({"axis": 2, "end_axis": 1}, "y: end_axis=1, but it must be from axis=2 to 2"),
        ({"end_axis": 3}, r"y: end_axis=3, but it must be from axis=1 to 2 for a bottom of shape \(1, 2, 3\)"),
        ({"axis": -3}, r"y: axis=-3, but the bottom of shape \(1, 2, 3\) has the axes 1 to 2"),
        ({"end_axis": 0}, "y: end_axis=0, but it must be from axis=1 to 2"),
    ],
)
def test_axes_that_are_none(fields, message):
    with pytest.raises(ConfigError, match=message):
        Net("n", [InputLayer(tops="x", shape=(2, 3)), FlattenLayer(bottoms="x", tops="y", **fields)], backend="numpy")


def test_nothing_is_copied():
    layers = [InputLayer(tops="x", shape=(2, 3), dtype="int64"), FlattenLayer(bottoms="x", tops="y")]
    net = Net("n", layers, backend="numpy", phase="predict")
    op = net.node_ops["y"]
    assert np.shares_memory(op.state.blobs[0], op.input_arrays[0])
    assert op.state.blobs[0].dtype == "int64"


def test_the_batch_is_joined_only_where_all_its_rows_count():
    layers = [InputLayer(tops="x", shape=2, batch_size=3), FlattenLayer(name="f", bottoms="x", tops="y", axis=0)]
    refuses_a_batch_that_is_not_full(layers, "f")
