"""Stack, Unstack and Zeros: blobs side by side along a new axis, taken apart, and nothing but zeros."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers import StackLayer, UnstackLayer, ZerosLayer


def shapes():
    return st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


class TestStack(Agreement):
    layer = StackLayer

    def examples(self):
        yield Example({}, [(2, 3), (2, 3), (2, 3)], tops=1, label="behind the batch")
        yield Example({"axis": -1}, [(2, 3), (2, 3)], tops=1, label="at the end")
        yield Example({"axis": 2}, [(2, 3, 4, 5), (2, 3, 4, 5)], tops=1, label="in the middle")
        yield Example({}, [(3,), (3,)], tops=1, label="numbers")
        yield Example({}, [(2, 3)], tops=1, label="one")
        yield Example({}, [np.arange(6).reshape(3, 2)] * 2, tops=1, label="whole numbers")

    def strategy(self):
        def build(shape, count, axis):
            return Example({"axis": 1 + axis % len(shape)}, [shape] * count, tops=1)

        return st.builds(build, shapes(), st.integers(1, 4), st.integers(0, 3))

    def in_torch(self, layer, inputs, parameters):
        import torch

        return [torch.stack(inputs, layer.axis)]

    def reference(self, layer, inputs, parameters):
        return [np.stack(inputs, layer.axis)]


class TestUnstack(Agreement):
    layer = UnstackLayer

    def examples(self):
        yield Example({}, [(2, 3, 4)], tops=3, label="behind the batch")
        yield Example({"axis": -1}, [(2, 3, 4)], tops=4, label="at the end")
        yield Example({}, [(2, 3)], tops=3, label="into numbers")
        yield Example({}, [np.arange(6).reshape(3, 2)], tops=2, label="whole numbers")

    def strategy(self):
        def build(shape, count, axis):
            axis = 1 + axis % len(shape)
            return Example({"axis": axis}, [(*shape[:axis], count, *shape[axis:])], tops=count)

        return st.builds(build, shapes(), st.integers(1, 4), st.integers(0, 3))

    def in_torch(self, layer, inputs, parameters):
        return list(inputs[0].unbind(layer.axis))

    def reference(self, layer, inputs, parameters):
        return list(np.moveaxis(inputs[0], layer.axis, 0))


class TestZeros(Agreement):
    layer = ZerosLayer

    def examples(self):
        yield Example({"shape": [2, 3]}, [(4, 5)], label="a matrix for each image")
        yield Example({}, [(4, 5)], label="a number for each image")

    def strategy(self):
        return st.builds(lambda shape, rows: Example({"shape": shape}, [(rows, 2)]), shapes(), st.integers(1, 4))

    def reference(self, layer, inputs, parameters):
        return [np.zeros((len(inputs[0]), *layer.shape))]


LAYERS = {
    r"z: bottom 'y' has the shape \(1, 4\), but 'x' has \(1, 3\)": StackLayer(bottoms=["x", "y"], tops="z"),
    r"z: axis=0, but .* shape \(1, 3, 1\) has the axes 1 to 2": StackLayer(bottoms="x", tops="z", axis=0),
    r"p: axis 1 of bottom 'x' .* has the length 3, but .* 2 tops": UnstackLayer(bottoms="x", tops=["p", "q"]),
    r"p: axis=2, but .* shape \(1, 3\) has the axes 1 to 1": UnstackLayer(bottoms="x", tops="p", axis=2),
}


@pytest.mark.parametrize("message", LAYERS)
def test_bottoms_that_do_not_fit(message):
    with pytest.raises(ConfigError, match=message):
        Net("n", [InputLayer(tops="x", shape=3), InputLayer(tops="y", shape=4), LAYERS[message]], backend="numpy")
