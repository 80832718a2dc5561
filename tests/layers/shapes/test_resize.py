"""Resize: images of another size."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes import resize
from nacre_layers.shapes.resize import ResizeLayer


def sizes_of(layer, lengths):
    """Return the new lengths, and the steps from one pixel to the next."""
    if layer.factor is not None:
        return [math.floor(length * layer.factor) for length in lengths], [1 / layer.factor] * len(lengths)
    sizes = layer.size * len(lengths) if len(layer.size) == 1 else layer.size
    return list(sizes), [length / size for length, size in zip(lengths, sizes, strict=True)]


def resized(layer, x):
    """Resize a blob pixel by pixel."""
    sizes, steps = sizes_of(layer, x.shape[2:])
    y = np.zeros((*x.shape[:2], *sizes))
    for place in np.ndindex(*sizes):
        parts = [((), 1.0)]
        for index, step, length in zip(place, steps, x.shape[2:], strict=True):
            if layer.mode == "nearest":
                here = [(min(math.floor(round(index * step, 9)), length - 1), 1.0)]
            else:
                middle = min(max((index + 0.5) * step - 0.5, 0), length - 1)
                before = math.floor(middle)
                here = [(before, 1 - middle + before), (min(before + 1, length - 1), middle - before)]
            parts = [((*before, there), weight * share) for before, weight in parts for there, share in here]
        y[(..., *place)] = sum(weight * x[(..., *there)] for there, weight in parts)
    return y


def agrees(length, size):
    """Return whether PyTorch's float32 finds the same nearest pixels."""
    step = np.float32(length) / np.float32(size)
    return all(int(np.float32(i) * step) == i * length // size for i in range(size))


class TestResize(Agreement):
    layer = ResizeLayer

    def examples(self):
        for mode in ("nearest", "bilinear"):
            yield Example({"size": (7, 3), "mode": mode}, [(2, 2, 4, 5), (2, 1, 7, 2)], label=f"{mode}, two bottoms")
            yield Example({"factor": 0.4, "mode": mode}, [(2, 1, 5, 7)], label=f"{mode}, smaller")
        yield Example({"factor": 2}, [(2, 3, 4)], label="one axis, twice")
        yield Example({"size": [3, 2, 4], "mode": "bilinear"}, [(2, 1, 2, 3, 2)], label="three axes")
        yield Example({"size": 5}, [np.arange(18).reshape(2, 1, 3, 3)], label="whole numbers")
        yield Example({"size": 5, "mode": "bilinear"}, [np.arange(18).reshape(2, 1, 3, 3)], label="means of whole ones")

    def strategy(self):
        def build(fields, mode, before, lengths):
            size = fields.get("size")
            if size:
                fields = {"size": size[: len(lengths)]}
                exact = all(agrees(*one) for one in zip(lengths, size, strict=False))
            else:
                exact = True
            return Example({**fields, "mode": mode if exact else "bilinear"}, [(*before, *lengths)])

        size = st.tuples(*[st.integers(1, 9)] * 3).map(lambda size: {"size": size})
        factor = st.sampled_from([1.0, 1.5, 2.0, 4.0]).map(lambda factor: {"factor": factor})
        modes, before = st.sampled_from(["nearest", "bilinear"]), st.tuples(st.integers(1, 2), st.integers(1, 3))
        return st.builds(build, size | factor, modes, before, st.lists(st.integers(1, 6), min_size=1, max_size=3))

    def in_torch(self, layer, inputs, parameters):
        import torch

        tops = []
        for x in inputs:
            names = {1: "linear", 2: "bilinear", 3: "trilinear"}
            linear = {"mode": names[x.ndim - 2], "align_corners": False} if layer.mode == "bilinear" else {}
            how = {"size": sizes_of(layer, x.shape[2:])[0]} if layer.size else {"scale_factor": layer.factor}
            tops.append(torch.nn.functional.interpolate(x, **how, **linear))
        return tops

    def reference(self, layer, inputs, parameters):
        return [resized(layer, x) for x in inputs]


def made(x, **fields):
    x = np.asarray(x, float)
    layers = [
        InputLayer(tops="x", shape=x.shape[1:], batch_size=len(x)),
        ResizeLayer(bottoms="x", tops="y", **fields),
    ]
    with Net("n", layers, backend="numpy", dtype="float64") as net:
        net.write("x", x)
        net.forward()
        return net.blob("y")


def test_small_cases():
    x = [[[[0.0, 1], [2, 3]]]]
    assert made(x, factor=2)[0, 0].tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]]
    rows = [[0, 0.25, 0.75, 1], [0.5, 0.75, 1.25, 1.5], [1.5, 1.75, 2.25, 2.5], [2, 2.25, 2.75, 3]]
    assert made(x, factor=2, mode="bilinear")[0, 0].tolist() == rows
    assert made(x, size=1)[0, 0].tolist() == [[0]]
    assert made(x, size=1, mode="bilinear")[0, 0].tolist() == [[1.5]]
    assert made([[[0.0, 1, 2, 3, 4, 5]]], size=3)[0, 0].tolist() == [0, 2, 4]
    assert made([[[0.0, 1, 2, 3, 4, 5]]], size=3, mode="bilinear")[0, 0].tolist() == [0.5, 2.5, 4.5]


def test_the_nearest_pixel_is_exact_where_float32_is_not():
    """In float32 6 · (7 / 6) is below 7 for some such numbers; here the pixel is never the one before."""
    for length in range(1, 60):
        for size in range(1, 60):
            x = np.arange(float(length)).reshape(1, 1, -1)
            if not agrees(length, size):
                assert made(x, size=size)[0, 0].tolist() == [i * length // size for i in range(size)]
                return
    raise AssertionError("float32 agrees everywhere: the sentence in the docstring is not needed")


def test_what_is_not_a_number_stays_where_it_is():
    x = np.arange(9.0).reshape(1, 1, 3, 3)
    x[0, 0, 1, 1] = np.nan
    assert np.isnan(made(x, size=3)).sum() == 1
    assert np.isnan(made(x, size=6)).sum() == 4
    assert np.isnan(made(x, size=6, mode="bilinear")).sum() == 16


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"y: size=\(\) and factor=None, but exactly one of them is needed"),
        ({"size": 3, "factor": 2}, r"y: size=\(3,\) and factor=2\.0, but exactly one of them is needed"),
        ({"size": 0}, "y: size=.*, but every number must be above 0"),
        ({"factor": 0}, r"y: factor=0\.0, but it must be above 0"),
        ({"factor": math.inf}, "y: factor=inf, but it must be finite"),
        ({"factor": 1e308}, r"y: factor=1e\+308 makes too many pixels of images of shape \(3, 2\)"),
        ({"size": [2, 3, 4]}, r"y: size=\(2, 3, 4\), but there are 2 directions"),
        ({"factor": 0.3}, r"y: factor=0\.3 leaves no pixel of the images of shape \(3, 2\)"),
        ({"size": 3, "mode": "cubic"}, "y: mode='cubic', but it must be one of 'nearest', 'bilinear'"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        made(np.zeros((1, 2, 3, 2)), **fields)


def test_a_bottom_without_images():
    with pytest.raises(
        ConfigError, match=r"y: the bottom of shape \(2, 3\) must be \(images, channels, rows, columns\)"
    ):
        made(np.zeros((2, 3)), size=2)


def test_a_net_that_is_only_planned_lists_no_pixels(monkeypatch):
    """They may be more than there is memory for."""
    monkeypatch.setattr(resize, "Taps", None)
    layers = [InputLayer(tops="x", shape=(1, 4, 4)), ResizeLayer(bottoms="x", tops="y", size=10**6)]
    with Net("n", layers, backend="numpy", allocate=False) as net:
        assert "1000000" in str(net.summary())
