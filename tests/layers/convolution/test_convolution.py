"""Convolution and deconvolution: filters that slide over one to three axes."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer


def spread(numbers, count):
    return numbers * count if len(numbers) == 1 else numbers


def sizes_of(layer, directions):
    return [spread(one, directions) for one in (layer.kernel, layer.stride, layer.pad, layer.dilation)]


def convolved(layer, x, weight, bias):
    """Convolve by loops over every number of the result."""
    kernel, stride, pad, dilation = sizes_of(layer, x.ndim - 2)
    x = np.pad(x, [(0, 0), (0, 0), *((one, one) for one in pad)])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    out = [(length - r) // s + 1 for length, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    channels, filters = x.shape[1] // layer.n_group, layer.n_filter // layer.n_group
    y = np.zeros((len(x), layer.n_filter, *out))
    for n, f in itertools.product(range(len(x)), range(layer.n_filter)):
        group = f // filters
        for place in np.ndindex(*out):
            cells = tuple(slice(p * s, p * s + r, d) for p, s, r, d in zip(place, stride, reach, dilation, strict=True))
            window = x[(n, slice(group * channels, (group + 1) * channels), *cells)]
            y[(n, f, *place)] = np.sum(window * weight[f]) + bias[f]
    return y


def deconvolved(layer, x, weight, bias):
    """Add the filter of every number of the bottom, times that number, to the top."""
    kernel, stride, pad, dilation = sizes_of(layer, x.ndim - 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    extra = spread(layer.extra, x.ndim - 2)
    padded = [(length - 1) * s + r + e for length, s, r, e in zip(x.shape[2:], stride, reach, extra, strict=True)]
    channels, filters = x.shape[1] // layer.n_group, layer.n_filter // layer.n_group
    y = np.zeros((len(x), layer.n_filter, *padded))
    for n, c, *place in np.ndindex(*x.shape):
        tops = slice(c // channels * filters, (c // channels + 1) * filters)
        cells = tuple(slice(p * s, p * s + r, d) for p, s, r, d in zip(place, stride, reach, dilation, strict=True))
        y[(n, tops, *cells)] += x[(n, c, *place)] * weight[c]
    inside = tuple(slice(p, length - p) for p, length in zip(pad, padded, strict=True))
    return y[(slice(None), slice(None), *inside)] + bias.reshape(-1, *[1] * len(padded))


class Filters:
    """What the tests of both layers have in common."""

    transposed = ""

    def in_torch(self, layer, inputs, parameters):
        import torch

        directions = inputs[0].ndim - 2
        _, stride, padding, dilation = sizes_of(layer, directions)
        function = getattr(torch.nn.functional, f"conv{self.transposed}{directions}d")
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": layer.n_group}
        if self.transposed:
            options["output_padding"] = spread(layer.extra, directions)
        return [function(x, parameters["weight"], parameters.get("bias"), **options) for x in inputs]

    def reference(self, layer, inputs, parameters):
        bias = parameters.get("bias", np.zeros(layer.n_filter))
        naive = partial(deconvolved if self.transposed else convolved, layer)
        tops = [naive(x, parameters["weight"], bias) for x in inputs]
        return [np.maximum(y, 0) for y in tops] if repr(layer.neuron) == "ReLU()" else tops

    def strategy(self):
        def example(directions, images, groups, per_group, filters, kernel, stride, pad, dilation, extra, bias):
            reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
            image = [1 + extra[i] for i in range(directions)]
            for i in range(directions):
                if self.transposed:  # something must be left of (image - 1) stride + reach - 2 pad
                    image[i] += max(0, -(-(2 * pad[i] + 1 - reach[i]) // stride[i]))
                else:
                    image[i] += max(0, reach[i] - 1 - 2 * pad[i])
            sizes = {"kernel": kernel, "stride": stride, "pad": pad, "dilation": dilation}
            fields = {name: numbers[:directions] for name, numbers in sizes.items()}
            fields |= {"n_filter": groups * filters, "n_group": groups, "bias": bias}
            if self.transposed:
                fields["extra"] = tuple(min(e, s - 1) for e, s in zip(extra, fields["stride"], strict=False))
            return Example(fields, [(images, groups * per_group, *image)])

        few, three, borders = (
            st.integers(1, 2),
            st.tuples(*[st.integers(1, 3)] * 3),
            st.tuples(*[st.integers(0, 2)] * 3),
        )
        steps = st.tuples(*[few] * 3)
        return st.builds(
            example, st.integers(1, 3), few, few, few, few, three, steps, borders, steps, borders, st.booleans()
        )


class TestConvolution(Filters, Agreement):
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
        yield Example({"n_filter": 2, "kernel": 3, "dilation": (2, 1), "pad": 1}, [(2, 2, 6, 4)], label="dilation")


class TestDeconvolution(Filters, Agreement):
    layer = DeconvolutionLayer
    entries = 60
    transposed = "_transpose"

    def examples(self):
        yield Example({"n_filter": 3, "kernel": 3}, [(2, 2, 3, 2)], label="plain")
        yield Example(
            {"n_filter": 2, "kernel": (3, 2), "stride": (2, 3), "pad": (1, 0), "extra": (1, 2)},
            [(2, 1, 3, 2)],
            label="uneven",
        )
        yield Example({"n_filter": 4, "kernel": 4, "n_group": 2, "stride": 2, "pad": 1}, [(2, 2, 2, 3)] * 2)
        yield Example({"n_filter": 2, "kernel": 2, "bias": False, "neuron": "ReLU"}, [(3, 3, 2)], label="one axis")
        yield Example({"n_filter": 1, "kernel": 2, "dilation": 2, "pad": 1}, [(2, 2, 2, 3)], label="dilation")


def planned(shape, *, layer=ConvolutionLayer, **fields):
    layers = [
        InputLayer(tops=["x"], shape=shape, batch_size=2),
        layer(name="conv", bottoms=["x"], tops=["y"], **fields),
    ]
    return Net("n", layers, backend="numpy", allocate=False)


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "pad", "out"), [(32, 5, 1, 2, 32), (28, 5, 1, 0, 24), (227, 11, 4, 0, 55)]
)
def test_sizes_round_down(length, kernel, stride, pad, out):
    net = planned((3, length, length), n_filter=2, kernel=kernel, stride=stride, pad=pad)
    assert net.memory.final["y"].shape == (2, 2, out, out)


@pytest.mark.parametrize(
    ("fields", "shape", "message"),
    [
        ({"n_filter": 2, "kernel": 6}, (1, 5, 5), r"kernel=\(6, 6\) is larger than the padded image"),
        (
            {"n_filter": 2, "kernel": 3, "dilation": 3},
            (1, 5, 9),
            r"kernel=\(3, 3\) with dilation=\(3, 3\) is larger than the padded image",
        ),
        ({"n_filter": 4, "n_group": 2}, (3, 5, 5), "n_group=2 does not divide the channels of the bottom, 3"),
        ({"n_filter": 3, "n_group": 2}, (4, 5, 5), "n_group=2 does not divide the n_filter, 3"),
        ({"n_filter": 2}, (4,), "one to three axes"),
        ({"n_filter": 2, "kernel": (3, 3)}, (1, 5), "there are 1 directions"),
        ({"kernel": 3}, (1, 5, 5), "n_filter is missing"),
        ({"n_filter": 2, "kernel": (0, 2)}, (1, 5, 5), r"kernel=\(0, 2\), but every number must be above 0"),
        ({"n_filter": 2, "dilation": 0}, (1, 5, 5), r"dilation=\(0,\), but every number must be above 0"),
        (
            {"layer": DeconvolutionLayer, "n_filter": 2, "kernel": 2, "pad": 3},
            (1, 5, 5),
            r"pad=\(3, 3\) .* shape \(2, 1, 5, 5\)",
        ),
        (
            {"layer": DeconvolutionLayer, "n_filter": 2, "stride": 2, "extra": 2},
            (1, 5, 5),
            r"extra=\(2, 2\) must be below stride=\(2, 2\)",
        ),
        ({"layer": DeconvolutionLayer, "n_filter": 3, "n_group": 2}, (4, 5, 5), "does not divide the n_filter, 3"),
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


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_bilinear_filters_make_pictures_grow(factor):
    """A picture of equal pixels stays one, away from the border, and a slope stays a slope."""
    layer = DeconvolutionLayer(
        bottoms=["x"], tops=["y"], n_filter=2, n_group=2, kernel=2 * factor - factor % 2, stride=factor,
        pad=-(-(factor - 1) // 2), weight_init="Bilinear", weight_lr=0, bias=False,
    )  # fmt: skip
    net = Net("n", [InputLayer(tops=["x"], shape=(2, 6, 6)), layer], backend="numpy", dtype="float64", keep=["y"])
    slope = np.broadcast_to(np.arange(6.0), (1, 1, 6, 6))
    net.write("x", np.concatenate([np.ones((1, 1, 6, 6)), slope], axis=1))
    net.forward()
    y = net.blob("y")
    assert y.shape == (1, 2, 6 * factor, 6 * factor)
    inside = y[0, :, factor:-factor, factor:-factor]
    assert_close(inside[0], np.ones_like(inside[0]))
    assert_close(np.diff(inside[1], axis=1), np.full((4 * factor, 4 * factor - 1), 1 / factor))
