"""Argmax: where the largest numbers are."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.shapes.argmax import ArgmaxLayer


class TestArgmax(Agreement):
    layer = ArgmaxLayer

    def examples(self):
        yield Example({}, [(3, 4), (2, 5, 2, 2)], label="two bottoms")
        yield Example({"values": True, "axis": -1}, [(2, 3, 4)], label="values of the last axis")
        yield Example({"top_k": 3}, [(3, 4, 2)], label="three")
        yield Example({"top_k": 2, "values": True}, [(3, 4)], label="two values")
        yield Example({"top_k": 2}, [np.array([[3, 1, 3], [0, 0, 0], [1, 2, 2]], np.uint8)], label="whole numbers")

    def strategy(self):
        def build(shape, axis, from_behind, top_k, values):
            axis = 1 + axis % (len(shape) - 1)
            fields = {"axis": axis - len(shape) * from_behind, "top_k": 1 + top_k % shape[axis], "values": values}
            return Example(fields, [tuple(shape)])

        shapes = st.lists(st.integers(1, 4), min_size=2, max_size=4)
        return st.builds(build, shapes, st.integers(0, 3), st.booleans(), st.integers(0, 3), st.booleans())

    def in_torch(self, layer, inputs, parameters):
        found = [x.topk(layer.top_k, layer.axis) for x in inputs]
        return [one.values if layer.values else one.indices for one in found]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            lines = np.moveaxis(x, layer.axis, -1)
            top = np.empty((*lines.shape[:-1], layer.top_k), x.dtype if layer.values else np.int64)
            for place in np.ndindex(lines.shape[:-1]):
                line = lines[place].tolist()
                best = sorted(range(len(line)), key=lambda n, line=line: (-line[n], n))[: layer.top_k]
                top[place] = [line[n] for n in best] if layer.values else best
            tops.append(np.moveaxis(top, -1, layer.axis))
        return tops


def net_of(x, **fields):
    layers = [InputLayer(tops="x", shape=x.shape[1:], batch_size=len(x)), ArgmaxLayer(bottoms="x", tops="y", **fields)]
    net = Net("n", layers, backend="numpy")
    net.write("x", x)
    net.forward()
    return net


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_of_equal_numbers_the_first_wins(top_k):
    x = np.array([[1.0, 5.0, 5.0, 0.0], [2.0, 2.0, 2.0, 2.0], [-np.inf, -np.inf, 0.0, -np.inf]])
    places = net_of(x, top_k=top_k).blob("y")
    assert places.dtype == np.int64
    assert places.tolist() == [line[:top_k] for line in ([1, 2, 0], [0, 1, 2], [2, 0, 1])]


@pytest.mark.parametrize("top_k", [1, 2])
def test_a_nan_is_the_largest_however_many_are_asked_for(top_k):
    x = np.array([[1.0, np.nan, 5.0]])
    assert net_of(x, top_k=top_k).blob("y").tolist() == [[1, 2][:top_k]]


def test_whole_numbers_are_compared_as_such():
    """In floating point these two would be equal."""
    net = Net("n", [InputLayer(tops="x", shape=2, dtype="int64"), ArgmaxLayer(bottoms="x", tops="y", top_k=2)])
    net.write("x", np.array([[2**60, 2**60 + 1]]))
    net.forward()
    assert net.blob("y").tolist() == [[1, 0]]


@pytest.mark.parametrize("cls", [ArgmaxLayer, SoftmaxLayer])
def test_nothing_is_left_behind_after_shutdown(cls):
    """Mocha's Argmax and Softmax leak their blobs."""
    net = Net("n", [InputLayer(tops="x", shape=3), cls(bottoms="x", tops="y")], backend="numpy")
    net.forward()
    state = weakref.ref(net.node_ops["y"].state)
    net.shutdown()
    del net
    gc.collect()
    assert state() is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"top_k": 4}, "y: top_k=4, but axis 1 has the length 3"),
        ({"top_k": 0}, "y: top_k=0, but it must be above 0"),
        ({"axis": 0}, "y: axis=0, but it must be different from 0"),
        ({"axis": 2}, r"y: axis=2, but the bottom of shape \(2, 3\) has the axes 1 to 1"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        net_of(np.ones((2, 3)), **fields)
