"""Tile: a blob several times over."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.tile import TileLayer


class TestTile(Agreement):
    layer = TileLayer

    def examples(self):
        yield Example({"tiles": 3}, [(2, 3), (3, 2, 2)], label="two bottoms")
        yield Example({"axis": -1, "tiles": 2}, [(2, 3, 4)], label="last axis")
        yield Example({"axis": 2, "tiles": 1}, [(2, 3, 2, 2)], label="once")
        yield Example({"tiles": 2}, [np.arange(6).reshape(3, 2)], label="whole numbers")

    def strategy(self):
        def build(shape, axis, tiles, from_behind):
            axis = 1 + axis % (len(shape) - 1)
            return Example({"axis": axis - len(shape) * from_behind, "tiles": tiles}, [tuple(shape)])

        shapes = st.lists(st.integers(1, 4), min_size=2, max_size=4)
        return st.builds(build, shapes, st.integers(0, 3), st.integers(1, 4), st.booleans())

    def in_torch(self, layer, inputs, parameters):
        import torch

        return [torch.cat([x] * layer.tiles, layer.axis) for x in inputs]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            rows = list(x.swapaxes(0, layer.axis))
            tops.append(np.array([row for _ in range(layer.tiles) for row in rows]).swapaxes(0, layer.axis))
        return tops


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tiles": 0}, "y: tiles=0, but it must be above 0"),
        ({}, "y: .*tiles"),
        ({"tiles": 2, "axis": 2}, r"y: axis=2, but the bottom of shape \(1, 3\) has the axes 1 to 1"),
        ({"tiles": 2, "axis": -2}, r"y: axis=-2, but the bottom of shape \(1, 3\) has the axes 1 to 1"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        Net("n", [InputLayer(tops="x", shape=3), TileLayer(bottoms="x", tops="y", **fields)], backend="numpy")
