"""Im2col: the windows of an image as its channels."""

import itertools

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.im2col import Im2colLayer


class TestIm2col(Agreement):
    layer = Im2colLayer

    def examples(self):
        yield Example({"kernel": 2}, [(2, 3, 3, 4), (3, 1, 2, 2)], label="two bottoms")
        yield Example(
            {"kernel": [2, 3], "stride": [2, 1], "pad": [1, 2], "dilation": [2, 1]}, [(2, 2, 5, 4)], label="all sizes"
        )
        yield Example({"kernel": 3, "pad": 1}, [(2, 2, 4)], label="one axis")

    def strategy(self):
        def build(images, channels, image, kernel, stride, pad, dilation):
            spans = [step * (length - 1) + 1 for length, step in zip(kernel, dilation, strict=True)]
            image = [max(one, span - 2 * border) for one, span, border in zip(image, spans, pad, strict=True)]
            fields = {"kernel": kernel, "stride": stride, "pad": pad, "dilation": dilation}
            return Example(fields, [(images, channels, *image)])

        def pair(low, high):
            return st.lists(st.integers(low, high), min_size=2, max_size=2)

        counts = st.integers(1, 3)
        return st.builds(build, counts, counts, pair(1, 6), pair(1, 3), pair(1, 3), pair(0, 2), pair(1, 2))

    def in_torch(self, layer, inputs, parameters):
        import torch

        found = []
        for x, top in zip(inputs, self.reference(layer, [x.detach().numpy() for x in inputs], {}), strict=True):
            sizes = {"stride": layer.stride, "padding": layer.pad, "dilation": layer.dilation}
            found.append(torch.nn.functional.unfold(x, layer.kernel, **sizes).reshape(top.shape))
        return found

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            axes = x.ndim - 2
            kernel, stride, pad, dilation = (
                (sizes * axes)[:axes] for sizes in (layer.kernel, layer.stride, layer.pad, layer.dilation)
            )
            x = np.pad(x, [(0, 0), (0, 0), *((border, border) for border in pad)])
            windows = [
                (length - apart * (cells - 1) - 1) // step + 1
                for length, cells, step, apart in zip(x.shape[2:], kernel, stride, dilation, strict=True)
            ]
            top = np.empty((len(x), x.shape[1] * int(np.prod(kernel)), *windows))
            channels = itertools.product(range(x.shape[1]), *map(range, kernel))
            for number, (channel, *cell) in enumerate(channels):
                for window in np.ndindex(*windows):
                    place = [w * s + c * d for w, s, c, d in zip(window, stride, cell, dilation, strict=True)]
                    top[(slice(None), number, *window)] = x[(slice(None), channel, *place)]
            tops.append(top)
        return tops


def test_a_convolution_of_1_on_the_windows_is_one_of_their_size():
    sizes = {"kernel": (3, 2), "stride": 2, "pad": 1}
    layers = [
        InputLayer(tops="x", shape=(2, 6, 5), batch_size=3),
        ConvolutionLayer(name="whole", bottoms="x", tops="a", n_filter=4, **sizes),
        Im2colLayer(bottoms="x", tops="windows", **sizes),
        ConvolutionLayer(name="ones", bottoms="windows", tops="b", n_filter=4),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64", phase="predict")
    net.parameters["ones/weight"].value = net.parameters["whole/weight"].value.reshape(4, 12, 1, 1)
    net.write("x", np.random.default_rng(0).standard_normal((3, 2, 6, 5)))
    net.forward()
    np.testing.assert_allclose(net.blob("b"), net.blob("a"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "fields", "message"),
    [
        (
            (2, 3, 3),
            {"kernel": 4},
            r"y: kernel=\(4, 4\) is larger than the padded image",
        ),
        ((2, 3, 3), {"kernel": 2, "dilation": 3}, r"y: kernel=\(2, 2\) with dilation=\(3, 3\) is larger"),
        ((2, 3, 3), {"kernel": [1, 1, 1]}, r"y: kernel=\(1, 1, 1\), but there are 2 directions"),
        ((2,), {"kernel": 1}, r"y: the bottom of shape \(1, 2\)"),
        ((2, 3, 3), {"kernel": 0}, r"y: kernel=\(0,\), but every number must be above 0"),
        ((2, 3, 3), {"kernel": 1, "pad": -1}, r"y: pad=\(-1,\), but every number must be 0 or more"),
    ],
)
def test_bad_fields(shape, fields, message):
    with pytest.raises(ConfigError, match=message):
        Net("n", [InputLayer(tops="x", shape=shape), Im2colLayer(bottoms="x", tops="y", **fields)], backend="numpy")
