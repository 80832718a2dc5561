"""Pad: a border around images."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.pad import PadLayer


def borders_of(layer, ndim):
    """Return {axis: (length in front, length behind)}."""
    axes = layer.axes or range(2, ndim)
    fronts = layer.pad * len(axes) if len(layer.pad) == 1 else layer.pad
    ends = (layer.end * len(axes) if len(layer.end) == 1 else layer.end) or fronts
    return {axis: (front, end) for axis, front, end in zip(axes, fronts, ends, strict=True)}


def padded(layer, x):
    """Pad number by number."""
    borders = [borders_of(layer, x.ndim).get(axis, (0, 0)) for axis in range(x.ndim)]
    y = np.full([length + sum(both) for length, both in zip(x.shape, borders, strict=True)], float(layer.value))
    for place in np.ndindex(*y.shape):
        there = [index - front for index, (front, _) in zip(place, borders, strict=True)]
        if layer.mode == "edge":
            there = [min(max(index, 0), length - 1) for index, length in zip(there, x.shape, strict=True)]
        elif layer.mode == "reflect":
            there = [abs(index) for index in there]
            there = [
                index if index < length else 2 * length - 2 - index
                for index, length in zip(there, x.shape, strict=True)
            ]
        if all(0 <= index < length for index, length in zip(there, x.shape, strict=True)):
            y[place] = x[tuple(there)]
    return y


class TestPad(Agreement):
    layer = PadLayer

    def examples(self):
        for mode in ("constant", "edge", "reflect"):
            yield Example({"pad": 1, "mode": mode}, [(2, 2, 3, 4), (2, 1, 2, 2)], label=f"{mode}, two bottoms")
            yield Example({"pad": [2, 0], "end": [1, 3], "mode": mode}, [(2, 1, 3, 4)], label=f"{mode}, four lengths")
        yield Example({"pad": 2, "value": -1.5}, [(2, 2, 3)], label="a value, one axis")
        yield Example({"pad": 1, "end": 0, "axes": [1], "mode": "edge"}, [(2, 3, 2)], label="in front of steps")
        yield Example({"pad": 0}, [(2, 2, 3, 3)], label="no border")
        yield Example({"pad": 1, "value": 7}, [np.arange(8).reshape(2, 1, 2, 2)], label="whole numbers")

    def strategy(self):
        def build(mode, lengths, pad, end, value, ends):
            pad, end = pad[: len(lengths)], end[: len(lengths)]
            lengths = [max(one, front + 1, behind + 1) for one, front, behind in zip(lengths, pad, end, strict=False)]
            fields = {"mode": mode, "pad": pad} | ({"end": end} if ends else {})
            return Example(fields | ({"value": value} if mode == "constant" else {}), [(2, 2, *lengths)])

        three, lengths = st.tuples(*[st.integers(0, 3)] * 3), st.lists(st.integers(1, 4), min_size=1, max_size=3)
        modes = st.sampled_from(["constant", "edge", "reflect"])
        return st.builds(build, modes, lengths, three, three, st.sampled_from([0.0, 2.5]), st.booleans())

    def in_torch(self, layer, inputs, parameters):
        import torch

        mode = {"edge": "replicate"}.get(layer.mode, layer.mode)
        value = {"value": layer.value} if mode == "constant" else {}
        tops = []
        for x in inputs:
            borders = borders_of(layer, x.ndim)
            sides = [side for axis in range(x.ndim - 1, 1, -1) for side in borders[axis]]
            tops.append(torch.nn.functional.pad(x, sides, mode, **value))
        return tops

    def reference(self, layer, inputs, parameters):
        return [padded(layer, x) for x in inputs]


def made(x, **fields):
    x = np.asarray(x)
    source = InputLayer(tops="x", shape=x.shape[1:], batch_size=len(x), dtype="" if x.dtype.kind == "f" else "int64")
    with Net("n", [source, PadLayer(bottoms="x", tops="y", **fields)], backend="numpy") as net:
        net.write("x", x)
        net.forward()
        return net.blob("y")


def test_small_cases():
    assert made([[[1, 2, 3]]], pad=2)[0, 0].tolist() == [0, 0, 1, 2, 3, 0, 0]
    assert made([[[1, 2, 3]]], pad=2, mode="edge")[0, 0].tolist() == [1, 1, 1, 2, 3, 3, 3]
    assert made([[[1, 2, 3]]], pad=2, mode="reflect")[0, 0].tolist() == [3, 2, 1, 2, 3, 2, 1]
    assert made([[[1, 2, 3]]], pad=0, end=1, mode="reflect")[0, 0].tolist() == [1, 2, 3, 2]
    corners = [[4, 3, 4, 3], [2, 1, 2, 1], [4, 3, 4, 3], [2, 1, 2, 1]]
    assert made([[[[1, 2], [3, 4]]]], pad=1, mode="reflect")[0, 0].tolist() == corners


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pad": -1}, "y: pad=.*, but every number must be 0 or more"),
        ({}, "y: .*pad"),
        ({"pad": [1, 2, 3]}, r"y: pad=\(1, 2, 3\), but there are 2 directions"),
        ({"pad": 1, "end": [1, 2, 3]}, r"y: end=\(1, 2, 3\), but there are 2 directions"),
        ({"pad": 1, "axes": [0]}, r"y: axes=\(0,\), but every number must be above 0"),
        ({"pad": 1, "axes": [4]}, r"y: the bottom of shape \(1, 1, 2, 3\) has no axes \(4,\)"),
        ({"pad": 1, "axes": [2, 2]}, r"y: axes=\(2, 2\), but an axis is named twice"),
        ({"pad": [2, 1], "mode": "reflect"}, 'y: mode="reflect" needs .* it has 2 and the image 2 along axis 2'),
        ({"pad": 1, "mode": "edge", "value": 1}, 'y: value=1.0, but it is for mode="constant": remove it'),
        ({"pad": 1, "mode": "wrap"}, "y: mode='wrap', but it must be one of 'constant', 'edge', 'reflect'"),
        ({"pad": 1, "value": 0.5}, r"y: value=0\.5, but bottom 'x' holds whole numbers \(int64\)"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        made(np.zeros((1, 1, 2, 3), int), **fields)
