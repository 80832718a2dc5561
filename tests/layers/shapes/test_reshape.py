"""Reshape: the same numbers under another shape."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.reshape import ReshapeLayer


class TestReshape(Agreement):
    layer = ReshapeLayer

    def examples(self):
        yield Example({"shape": [2, 6]}, [(3, 12)])
        yield Example({"shape": [3, -1]}, [(3, 12), (2, 3, 2, 2)], label="two bottoms, -1")
        yield Example({"shape": -1}, [(2, 3, 2, 2)], label="flat")
        yield Example({"shape": [0, -1]}, [(2, 3, 2, 2)], label="the channels copied")
        yield Example({"shape": [2, -1], "axis": 2, "n_axes": 1}, [(2, 3, 8, 5)], label="one axis")
        yield Example({"shape": [1, 1], "axis": -2, "n_axes": 0}, [(2, 3, 4)], label="new axes")

    def strategy(self):
        def build(shape, first, count, parts, infer, copy):
            first = 1 + first % len(shape)
            count = count % (len(shape) - first + 1)
            old = shape[first : first + count]
            new = [length for pair in zip(old, parts[: len(old)], strict=False) for length in pair]
            old = [one * other for one, other in zip(old, parts, strict=False)]
            bottom = (*shape[:first], *old, *shape[first + count :])
            if infer and new:
                new[infer % len(new)] = -1
            if copy and new and new[0] == bottom[first]:
                new[0] = 0
            return Example({"shape": new or [1], "axis": first, "n_axes": count}, [bottom])

        sizes = st.lists(st.integers(1, 4), min_size=1, max_size=4)
        parts = st.lists(st.integers(1, 3), min_size=4, max_size=4)
        return st.builds(build, sizes, *[st.integers(0, 4)] * 2, parts, st.integers(0, 4), st.booleans())

    def in_torch(self, layer, inputs, parameters):
        return [x.reshape(expected(layer, x.shape)) for x in inputs]

    def reference(self, layer, inputs, parameters):
        return [np.array(list(x.flat)).reshape(expected(layer, x.shape)) for x in inputs]


def expected(layer, shape):
    """Return the shape of a top as in Caffe's description of its fields."""
    first = layer.axis if layer.axis > 0 else layer.axis + len(shape) + 1
    behind = shape[len(shape) if layer.n_axes == -1 else first + layer.n_axes :]
    new = [shape[first + place] if length == 0 else length for place, length in enumerate(layer.shape)]
    if -1 in new:
        rest = int(np.prod(shape))
        for length in (*shape[:first], *new, *behind):
            rest //= length if length > 0 else 1
        new[new.index(-1)] = rest
    return (*shape[:first], *new, *behind)


def reshaped(bottom, **fields):
    """Return the shape that one image of this shape gets."""
    layers = [InputLayer(tops=["x"], shape=bottom), ReshapeLayer(bottoms=["x"], tops=["y"], **fields)]
    return Net("n", layers, backend="numpy", allocate=False).memory.final["y"].shape[1:]


@pytest.mark.parametrize(
    ("bottom", "fields", "top"),
    [  # of Caffe's description of its layer
        ((8,), {"shape": [2, 4]}, (2, 4)),
        ((2, 8), {"shape": [0, 2, 4]}, (2, 2, 4)),
        ((2, 8), {"shape": [2, 4], "axis": 2}, (2, 2, 4)),
        ((2, 8), {"shape": [2, 4], "axis": -1, "n_axes": 0}, None),
        ((2, 8), {"shape": [1], "axis": -1, "n_axes": 0}, (2, 8, 1)),
        ((2, 8), {"shape": [1], "axis": -3, "n_axes": 0}, (1, 2, 8)),
        ((2, 8, 5), {"shape": [-1], "axis": 1, "n_axes": 2}, (16, 5)),
    ],
)
def test_caffes_fields(bottom, fields, top):
    if top is not None:
        assert reshaped(bottom, **fields) == top
        return
    with pytest.raises(ConfigError, match=r"y: shape=\(2, 4\), .* 1 numbers: "):
        reshaped(bottom, **fields)


@pytest.mark.parametrize("shape", [[5], [3, 5], [-1, 5], [24]])
def test_shapes_that_do_not_fit(shape):
    with pytest.raises(ConfigError, match=r"y: shape=.*, but an image has 12 numbers: \(12,\)"):
        reshaped((12,), shape=shape)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": [2, 0]}, r"y: shape=\(2, 0\) copies the length of axis 2, which the bottom of shape \(1, 12\)"),
        ({"shape": [12], "axis": 2}, None),
        ({"shape": [1], "axis": 3}, "y: axis=3 and n_axes=-1, but the bottom of shape"),
        ({"shape": [1], "axis": 1, "n_axes": 2}, r"y: axis=1 and n_axes=2, but .* has the axes 1 to 1"),
        ({"shape": [1], "axis": -3, "n_axes": 0}, "y: axis=-3 and n_axes=0, but"),
    ],
)
def test_axes_that_do_not_fit(fields, message):
    with pytest.raises(ConfigError, match=message or r"y: shape=\(12,\), but the axes that it replaces have 1"):
        reshaped((12,), **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": [-2, 2]}, "every number must be above 0, or 0 to copy, or -1"),
        ({"shape": [-1, -1]}, "only one number can be -1"),
        ({"shape": 2, "axis": 0}, "it must be different from 0"),
        ({"shape": 2, "n_axes": -2}, "it must be 0 or more, or -1"),
    ],
)
def test_bad_numbers(fields, message):
    with pytest.raises(ConfigError, match=f"y: .*, but {message}"):
        ReshapeLayer(bottoms=["x"], tops=["y"], **fields)
