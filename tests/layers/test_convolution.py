"""Convolution: filters that slide over one to three axes."""

import itertools

import numpy as np
import pytest
from hypothesis import strategies as st

from nacre import ConfigError, InputLayer, Net
from nacre.testing import Example, LayerTests, Trial, assert_close
from nacre_layers import ConvolutionLayer


def spread(numbers, count):
    return numbers * count if len(numbers) == 1 else numbers


def convolved(layer, x, weight, bias):
    """Convolve by loops over every number of the result."""
    directions = x.ndim - 2
    kernel, stride, pad = (spread(one, directions) for one in (layer.kernel, layer.stride, layer.pad))
    x = np.pad(x, [(0, 0), (0, 0), *((one, one) for one in pad)])
    out = [(length - k) // s + 1 for length, k, s in zip(x.shape[2:], kernel, stride, strict=True)]
    channels, filters = x.shape[1] // layer.n_group, layer.n_filter // layer.n_group
    y = np.zeros((len(x), layer.n_filter, *out))
    for n, f in itertools.product(range(len(x)), range(layer.n_filter)):
        group = f // filters
        for place in np.ndindex(*out):
            cells = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, stride, kernel, strict=True))
            window = x[(n, slice(group * channels, (group + 1) * channels), *cells)]
            y[(n, f, *place)] = np.sum(window * weight[f]) + bias[f]
    return y


class TestConvolution(LayerTests):
    layer = ConvolutionLayer
    entries = 60

    def examples(self):
        yield Example({"n_filter": 3, "kernel": 3}, [(2, 2, 5, 6)], label="plain")
        yield Example(
            {"n_filter": 2, "kernel": (3, 2), "stride": (2, 1), "pad": (1, 2)}, [(2, 1, 5, 4)], label="uneven"
        )
        yield Example({"n_filter": 4, "kernel": 2, "n_group": 2, "stride": 2}, [(2, 4, 4, 5)] * 2, label="groups, two")
        yield Example({"n_filter": 2, "kernel": 1, "bias": False, "neuron": "ReLU"}, [(3, 3, 2, 2)], label="1 x 1")
        yield Example({"n_filter": 2, "kernel": 3, "pad": 1}, [(2, 3, 7)], label="one axis")
        yield Example({"n_filter": 2, "kernel": (2, 1, 2), "stride": (1, 2, 1)}, [(2, 2, 3, 3, 3)], label="three axes")

    def strategy(self):
        def example(directions, images, groups, per_group, filters, kernel, stride, pad, extra):
            image = [max(1, kernel[i] - 2 * pad[i]) + extra[i] for i in range(directions)]
            sizes = {"kernel": kernel[:directions], "stride": stride[:directions], "pad": pad[:directions]}
            fields = {"n_filter": groups * filters, "n_group": groups, **sizes}
            return Example(fields, [(images, groups * per_group, *image)])

        three = st.tuples(*[st.integers(1, 3)] * 3)
        borders = st.tuples(*[st.integers(0, 2)] * 3)
        few = st.integers(1, 2)
        return st.builds(example, st.integers(1, 3), few, few, few, few, three, three, borders, borders)

    def reference(self, layer, inputs, parameters):
        bias = parameters.get("bias", np.zeros(layer.n_filter))
        tops = [convolved(layer, x, parameters["weight"], bias) for x in inputs]
        return [np.maximum(y, 0) for y in tops] if repr(layer.neuron) == "ReLU()" else tops


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({"kernel": 3, "stride": (1, 2), "pad": (2, 0)}, (2, 4, 6, 5)),
        ({"kernel": (2, 3), "n_group": 2}, (2, 4, 4, 5)),
        ({"kernel": 4, "stride": 3, "pad": 1}, (2, 4, 9)),
        ({"kernel": (2, 2, 1), "pad": (0, 1, 1)}, (1, 4, 3, 2, 3)),
    ],
)
def test_against_torch(fields, shape):
    torch = pytest.importorskip("torch")
    example = Example({"n_filter": 4, **fields}, [shape])
    trial = Trial(TestConvolution().make, example, backend="numpy", dtype="float64")
    trial.forward()
    x = torch.tensor(trial.arrays[0], requires_grad=True)
    weight, bias = (torch.tensor(trial.parameters()[name].copy(), requires_grad=True) for name in ("weight", "bias"))
    function = getattr(torch.nn.functional, f"conv{len(shape) - 2}d")
    layer = trial.layer
    y = function(x, weight, bias, stride=layer.stride, padding=layer.pad, groups=layer.n_group)
    assert_close(trial.results()[0], y.detach().numpy())
    gradients = trial.gradients()
    y.backward(torch.tensor(trial.net.gradient("top0").copy()))
    for name, tensor in (("input 0", x), ("weight", weight), ("bias", bias)):
        assert_close(gradients[name], tensor.grad.numpy(), name)


def planned(shape, **fields):
    layers = [
        InputLayer(tops=["x"], shape=shape, batch_size=2),
        ConvolutionLayer(name="conv", bottoms=["x"], tops=["y"], **fields),
    ]
    return Net("n", layers, backend="numpy", allocate=False)


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "pad", "out"), [(32, 5, 1, 2, 32), (28, 5, 1, 0, 24), (227, 11, 4, 0, 55)]
)
def test_sizes_round_down(length, kernel, stride, pad, out):
    net = planned((3, length, length), n_filter=2, kernel=kernel, stride=stride, pad=pad)
    assert net.schedule.final["y"].shape == (2, 2, out, out)


@pytest.mark.parametrize(
    ("fields", "shape", "message"),
    [
        ({"n_filter": 2, "kernel": 6}, (1, 5, 5), r"kernel=\(6, 6\) is larger than the padded image"),
        ({"n_filter": 4, "n_group": 2}, (3, 5, 5), "n_group=2 does not divide the channels of the bottom, 3"),
        ({"n_filter": 3, "n_group": 2}, (4, 5, 5), "n_group=2 does not divide the n_filter, 3"),
        ({"n_filter": 2}, (4,), "not one to three axes behind the channels"),
        ({"n_filter": 2, "kernel": (3, 3)}, (1, 5), "there are 1 directions"),
        ({"kernel": 3}, (1, 5, 5), "n_filter is missing"),
        ({"n_filter": 2, "kernel": (0, 2)}, (1, 5, 5), r"kernel=\(0, 2\), but every number must be above 0"),
    ],
)
def test_bad_fields(fields, shape, message):
    with pytest.raises(ConfigError, match=f"conv: .*{message}"):
        planned(shape, **fields)


def test_bottoms_must_have_one_shape():
    sources = [InputLayer(tops=["a"], shape=(1, 3, 3)), InputLayer(tops=["b"], shape=(1, 3, 4))]
    layer = ConvolutionLayer(name="conv", bottoms=["a", "b"], tops=["c", "d"], n_filter=1)
    with pytest.raises(ConfigError, match=r"conv: bottom 'b' of shape .* differs from 'a'"):
        Net("n", [*sources, layer], backend="numpy")
