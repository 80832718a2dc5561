"""Transpose: the axes of a blob in another order."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.transpose import TransposeLayer


class TestTranspose(Agreement):
    layer = TransposeLayer

    def examples(self):
        yield Example({"axes": [2, 3, 1]}, [(2, 3, 4, 2), (3, 2, 2, 3)], label="channels last, two bottoms")
        yield Example({}, [(2, 3, 4, 5)], label="reversed")
        yield Example({"axes": [-1, 1]}, [(2, 3, 4)], label="from behind")
        yield Example({}, [(3, 2)], label="nothing to do")
        yield Example({"axes": [2, 1]}, [np.arange(12).reshape(2, 3, 2)], label="whole numbers")

    def strategy(self):
        def build(shape, random, from_behind):
            axes = list(range(1, len(shape)))
            random.shuffle(axes)
            return Example({"axes": [axis - len(shape) * from_behind for axis in axes]}, [tuple(shape)])

        shapes = st.lists(st.integers(1, 4), min_size=2, max_size=5)
        return st.builds(build, shapes, st.randoms(use_true_random=False), st.booleans())

    def in_torch(self, layer, inputs, parameters):
        axes = layer.axes or range(inputs[0].ndim - 1, 0, -1)
        return [x.permute(0, *axes) for x in inputs]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            axes = [axis % x.ndim for axis in layer.axes] or list(range(1, x.ndim))[::-1]
            y = np.zeros([len(x), *(x.shape[axis] for axis in axes)])
            for place in np.ndindex(*y.shape):
                there = [place[0]] + [0] * (x.ndim - 1)
                for axis, index in zip(axes, place[1:], strict=True):
                    there[axis] = index
                y[place] = x[tuple(there)]
            tops.append(y)
        return tops


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"axes": [0, 1]}, r"y: axes=\(0, 1\), but every number must be different from 0"),
        ({"axes": [1, 1]}, r"y: axes=\(1, 1\), but each axis must be named once"),
        ({"axes": [1]}, r"y: axes=\(1,\), but a bottom of shape \(1, 3, 2\) has the axes 1 to 2"),
        ({"axes": [2, -1]}, r"y: axes=\(2, -1\), but a bottom of shape \(1, 3, 2\) has the axes 1 to 2"),
        ({"axes": [1, 3]}, r"y: axes=\(1, 3\), but a bottom of shape \(1, 3, 2\) has the axes 1 to 2"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        Net("n", [InputLayer(tops="x", shape=[3, 2]), TransposeLayer(bottoms="x", tops="y", **fields)])
