"""LRN: every number divided by a power of the mean square around it."""

import itertools

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_near
from nacre.testing.trial import Example, Trial
from nacre_layers.normalisation.lrn import LRNLayer


def windows(layer, shape):
    """Yield the slices of the window around each place, and the number of places in a whole one."""
    channels = layer.axis % len(shape)
    axes = [channels] if layer.mode == "across" else [axis for axis in range(1, len(shape)) if axis != channels]
    down = (layer.kernel - 1) // 2
    for place in np.ndindex(*shape):
        window = [slice(index, index + 1) for index in place]
        for axis in axes:
            window[axis] = slice(max(place[axis] - down, 0), place[axis] - down + layer.kernel)
        yield place, tuple(window), layer.kernel ** len(axes)


class TestLRN(Agreement):
    layer = LRNLayer

    def examples(self):
        yield Example({}, [(2, 7, 2, 3)])
        yield Example({"kernel": 3, "mode": "within", "scale": 2.0, "shift": 0.5}, [(2, 3, 5, 4)], label="within")
        yield Example({"kernel": 4, "power": 0.5}, [(3, 6), (2, 1, 3)], label="even kernel, two bottoms, one channel")
        yield Example({"kernel": 2, "axis": -1, "mode": "within"}, [(2, 3, 4, 2)], label="even, within, channels last")

    def strategy(self):
        fields = {
            "kernel": st.integers(1, 6),
            "scale": st.floats(0, 3),
            "shift": st.floats(0.1, 3),
            "power": st.sampled_from([0.75, 0.5, 1.0, -0.5, 0.0]),
            "axis": st.sampled_from([1, 2, -1]),
            "mode": st.sampled_from(["across", "within"]),
        }
        shape = st.tuples(*[st.integers(1, 4)] * 3) | st.tuples(*[st.integers(1, 5)] * 4)
        return st.builds(Example, st.fixed_dictionaries(fields), st.lists(shape, min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        import torch

        tops = []
        for x in inputs:
            channels = layer.axis % x.ndim
            down = (layer.kernel - 1) // 2
            if layer.mode == "across" and channels == 1 and layer.kernel % 2:
                args = layer.kernel, layer.scale, layer.power, layer.shift
                tops.append(torch.nn.functional.local_response_norm(x, *args))
                continue
            mean = x * x
            for axis in [channels] if layer.mode == "across" else [a for a in range(1, x.ndim) if a != channels]:
                pads = down, layer.kernel - 1 - down
                padded = torch.nn.functional.pad(mean.movedim(axis, -1), pads)
                mean = padded.unfold(-1, layer.kernel, 1).mean(-1).movedim(-1, axis)
            tops.append(x / (layer.shift + layer.scale * mean) ** layer.power)
        return tops

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            y = np.zeros_like(x)
            for place, window, count in windows(layer, x.shape):
                norm = layer.shift + layer.scale * sum(value**2 for value in x[window].ravel()) / count
                y[place] = x[place] / norm**layer.power
            tops.append(y)
        return tops


def run(fields, x):
    trial = Trial(TestLRN().make, Example(fields, [np.asarray(x, float)]), backend="numpy", dtype="float64")
    trial.forward()
    return trial


def test_golden_numbers_of_mocha():
    y = run({"kernel": 3}, np.array([1, 2, 3, 4.0]).reshape(1, 4, 1, 1)).results()[0]
    assert_near(y.ravel(), np.array([0.479207, 0.544546, 0.508276, 0.749087]), "top", 1e-6)


def test_golden_numbers_of_caffe_across():
    y = run({"kernel": 3, "scale": 0.5}, np.arange(1.0, 6).reshape(1, 5)).results()[0]
    assert_near(y.ravel(), np.array([0.63470062, 0.81072009, 0.79925187, 0.74908726, 1.0678495]), "top", 1e-7)


def test_golden_numbers_of_caffe_within():
    y = run({"kernel": 3, "scale": 0.5, "mode": "within"}, np.arange(1.0, 10).reshape(1, 1, 3, 3)).results()[0]
    golden = [0.38620634, 0.51810108, 0.88254074, 0.72033484, 0.60164791, 0.86804926, 1.287971, 0.99740372, 1.35834746]
    assert_near(y.ravel(), np.array(golden), "top", 1e-7)


def test_golden_gradient_of_caffe_across():
    x = np.arange(1.0, 6).reshape(1, 5)
    trial = run({"kernel": 3, "scale": 0.5}, x)
    gradient = trial.gradients()["input 0"]
    weight = trial.probe_weights()[0]
    # The golden numbers are for a gradient of ones; the Jacobian's columns, by central differences, give any other.
    ones = np.array([0.48734653, 0.04214456, -0.0789502, -0.16632335, -0.0571558])
    jacobian = np.zeros((5, 5))
    for place, sign in itertools.product(range(5), (-1, 1)):
        moved = x.copy()
        moved[0, place] += sign * 1e-5
        trial.forward([moved])
        jacobian[place] += sign * trial.results()[0].ravel() / 2e-5
    assert_near(jacobian.sum(axis=1), ones, "golden gradient", 1e-6)
    assert_near(gradient.ravel(), jacobian @ weight.ravel(), "gradient", 1e-6)


@pytest.mark.parametrize("mode", ["across", "within"])
def test_an_even_kernel_keeps_the_shape(mode):  # in Mocha.jl it shrank the map within channels
    assert run({"kernel": 4, "mode": mode}, np.ones((2, 3, 5, 5))).results()[0].shape == (2, 3, 5, 5)


def test_a_kernel_larger_than_the_bottom_counts_zeros_outside():
    y = run({"kernel": 9}, np.full((1, 2), 3.0)).results()[0]
    assert_near(y.ravel(), np.full(2, 3 / 3**0.75), "top", 1e-12)


def net(**fields):
    layers = [InputLayer(tops=["x"], shape=3), LRNLayer(name="norm", bottoms=["x"], tops=["y"], **fields)]
    return Net("n", layers, backend="numpy")


def test_windows_within_a_channel_need_images():
    with pytest.raises(ConfigError, match=r"norm: mode='within', .*\(1, 3\)"):
        net(mode="within")


@pytest.mark.parametrize(
    "fields", [{"kernel": 0}, {"scale": -1.0}, {"shift": 0.0}, {"power": float("inf")}, {"mode": "over"}, {"axis": 0}]
)
def test_bad_fields(fields):
    with pytest.raises(ConfigError, match=f"norm: {next(iter(fields))}="):
        net(**fields)


def test_the_axis_must_exist():
    with pytest.raises(ConfigError, match="norm: axis=2, but the bottom"):
        net(axis=2)
