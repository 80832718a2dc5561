"""Pooling: the maximum and the mean of windows, along any axes."""

import itertools

import numpy as np
import pytest
from hypothesis import strategies as st

from nacre import ConfigError, InputLayer, Net
from nacre.testing import Example, LayerTests, Trial, assert_close
from nacre_layers import Max, Mean, PoolingLayer


def spread(numbers, count):
    return numbers * count if len(numbers) == 1 else numbers


def windows(length, kernel, stride, pad, rounding):
    """Give the (start, stop) of every window along an axis, in cells of the image."""
    free = length + 2 * pad - kernel
    count = (-(-free // stride) if rounding == "ceil" else free // stride) + 1
    found = [(number * stride - pad, number * stride - pad + kernel) for number in range(count)]
    return [window for window in found if window[0] < length]


def pooled(layer, x):
    """Pool by loops over every window."""
    axes = layer.axes or tuple(range(2, x.ndim))
    sizes = [spread(one, len(axes)) for one in (layer.kernel, layer.stride, layer.pad)]
    spans = {
        axis: [(*window, pad) for window in windows(x.shape[axis], kernel, stride, pad, layer.rounding)]
        for axis, kernel, stride, pad in zip(axes, *sizes, strict=True)
    }
    shape = [len(spans[axis]) if axis in spans else length for axis, length in enumerate(x.shape)]
    y = np.zeros(shape)
    for place in np.ndindex(*shape):
        cells, counts = [], {"kernel": 1, "padded": 1, "image": 1}
        for axis, index in enumerate(place):
            if axis not in spans:
                cells.append(slice(index, index + 1))
                continue
            start, stop, pad = spans[axis][index]
            length = x.shape[axis]
            cells.append(slice(max(start, 0), min(stop, length)))
            counts["kernel"] *= stop - start
            counts["padded"] *= min(stop, length + pad) - start
            counts["image"] *= min(stop, length) - max(start, 0)
        part = x[tuple(cells)]
        y[place] = part.max() if isinstance(layer.pooling, Max) else part.sum() / counts[layer.pooling.divide_by]
    return y


class TestPooling(LayerTests):
    layer = PoolingLayer

    def examples(self):
        yield Example({"kernel": 2, "stride": 2}, [(2, 2, 4, 4)], label="max")
        yield Example({"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)}, [(2, 2, 4, 3), (3, 1, 5, 5)], label="two")
        yield Example({"kernel": 3, "stride": 2, "neuron": "Tanh"}, [(2, 1, 6, 6)], label="max, hangs over")
        yield Example({"kernel": 2, "stride": 2, "rounding": "floor"}, [(2, 2, 5, 5)], label="max, floor")
        for divide_by in ("padded", "kernel", "image"):
            mean = {"pooling": Mean(divide_by=divide_by), "kernel": 3, "stride": 2, "pad": 1}
            yield Example(mean, [(2, 2, 6, 4)], label=f"mean, {divide_by}")
        yield Example(
            {"kernel": 3, "stride": 2, "pooling": "Mean", "rounding": "floor"}, [(2, 2, 6, 6)], label="mean, floor"
        )
        yield Example({"kernel": 3, "stride": 2, "pad": 2, "axes": [1]}, [(2, 5, 3)], label="channels")
        yield Example({"kernel": 2, "pooling": "Mean"}, [(2, 2, 3, 3, 3)], label="three axes")

    def strategy(self):
        def example(images, channels, kernel, stride, pad, extra, rounding, pooling):
            pad = tuple(min(p, k - 1) for p, k in zip(pad, kernel, strict=True))
            image = [max(1, k - 2 * p) + more for k, p, more in zip(kernel, pad, extra, strict=True)]
            fields = {"kernel": kernel, "stride": stride, "pad": pad, "rounding": rounding, "pooling": pooling}
            return Example(fields, [(images, channels, *image)])

        few, two = st.integers(1, 2), st.tuples(*[st.integers(1, 4)] * 2)
        more = st.tuples(*[st.integers(0, 3)] * 2)
        functions = st.sampled_from([Max(), *(Mean(divide_by=one) for one in ("padded", "kernel", "image"))])
        return st.builds(example, few, few, two, two, more, more, st.sampled_from(["ceil", "floor"]), functions)

    def reference(self, layer, inputs, parameters):
        tops = [pooled(layer, x) for x in inputs]
        return [np.tanh(y) for y in tops] if repr(layer.neuron) == "Tanh()" else tops


def trial(x, **fields):
    found = Trial(TestPooling().make, Example(fields, [np.asarray(x, float)]), backend="numpy", dtype="float64")
    found.forward()
    return found


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "pad", "out"),
    [
        *((32, 3, 2, 0, 16), (28, 2, 2, 0, 14), (7, 2, 2, 0, 4), (16, 3, 2, 1, 9), (15, 3, 2, 1, 8), (6, 2, 2, 1, 4)),
        (5, 3, 3, 1, 2),  # 3, less a window that has only padding
    ],
)
def test_sizes_round_up(length, kernel, stride, pad, out):
    y = trial(np.ones((1, 1, length, length)), kernel=kernel, stride=stride, pad=pad).results()[0]
    assert y.shape == (1, 1, out, out)


def test_golden_means():
    ones = np.ones((1, 1, 3, 3))
    by_kernel = Mean(divide_by="kernel")
    y = trial(ones, kernel=2, stride=2, pooling=by_kernel).results()[0]
    assert_close(y[0, 0], [[1, 0.5], [0.5, 0.25]])
    assert_close(trial(ones, kernel=3, stride=2, pad=1, pooling=by_kernel).results()[0][0, 0], np.full((2, 2), 4 / 9))
    assert_close(trial(ones, kernel=2, stride=2, pooling=Mean(divide_by="image")).results()[0], np.ones((1, 1, 2, 2)))
    # Caffe divides by what lies in the padded image: a window that hangs over it has fewer cells.
    assert_close(trial(ones, kernel=2, stride=2, pooling=Mean()).results()[0], np.ones((1, 1, 2, 2)))
    channels = trial(np.arange(1.0, 6).reshape(1, 5), kernel=3, stride=2, pad=2, axes=[1], pooling=by_kernel)
    assert_close(channels.results()[0][0], [1 / 3, 2, 4, 5 / 3])


def test_the_first_of_equal_maxima_gets_the_gradient():
    tied = trial(np.zeros((1, 1, 4, 4)), kernel=2, stride=2)
    gradient = tied.gradients()["input 0"][0, 0]
    expected = np.zeros((4, 4))
    expected[::2, ::2] = tied.net.gradient("top0")[0, 0]
    assert_close(gradient, expected, tolerance=0.0)


def test_the_maximum_of_a_window_with_nan_is_nan():
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    x[0, 0, 0, 1] = np.nan
    y = trial(x, kernel=2, stride=2).results()[0]
    assert_close(y[0, 0], [[np.nan, 7], [13, 15]])


def test_padding_is_no_maximum():
    assert_close(trial(np.full((1, 1, 2, 2), -5.0), kernel=2, pad=1).results()[0], np.full((1, 1, 3, 3), -5.0))


@pytest.mark.parametrize(
    ("rounding", "pooling", "pad"),
    list(itertools.product(["ceil", "floor"], [Max(), Mean(), Mean(divide_by="image")], [0, 1])),
)
def test_against_torch(rounding, pooling, pad):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 6))
    found = trial(x, kernel=3, stride=2, pad=pad, rounding=rounding, pooling=pooling)
    given = torch.tensor(x, requires_grad=True)
    options = {"kernel_size": 3, "stride": 2, "padding": pad, "ceil_mode": rounding == "ceil"}
    if isinstance(pooling, Max):
        y = torch.nn.functional.max_pool2d(given, **options)
    else:
        include = pooling.divide_by == "padded"
        y = torch.nn.functional.avg_pool2d(given, count_include_pad=include, **options)
    assert_close(found.results()[0], y.detach().numpy())
    gradient = found.gradients()["input 0"]
    y.backward(torch.tensor(found.net.gradient("top0").copy()))
    assert_close(gradient, given.grad.numpy())


@pytest.mark.parametrize(
    ("fields", "shape", "message"),
    [
        ({"kernel": 7}, (1, 5, 5), "kernel=7 is larger than the padded image, 5 along axis 2"),
        ({"kernel": 2, "pad": 2}, (1, 5, 5), "pad=2 must be below kernel=2"),
        ({"kernel": 2}, (4,), "has no axes behind the channels"),
        ({"kernel": 2, "axes": [4]}, (1, 5, 5), "has no axes"),
        ({"kernel": (0, 2)}, (1, 5, 5), r"kernel=\(0, 2\), but every number must be above 0"),
        ({"kernel": 2, "rounding": "round"}, (1, 5, 5), "one of 'ceil', 'floor'"),
        ({"kernel": 2, "pooling": "Median"}, (1, 5, 5), "no pooling 'Median'"),
    ],
)
def test_bad_fields(fields, shape, message):
    with pytest.raises(ConfigError, match=message):
        Net(
            "n",
            [
                InputLayer(tops=["x"], shape=shape, batch_size=2),
                PoolingLayer(name="pool", bottoms=["x"], tops=["y"], **fields),
            ],
            backend="numpy",
        )
