"""Pooling: the maximum, the mean and a random cell of windows, along any axes; of channels, and in pyramids."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example, Trial, backends
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.losses.sum_loss import SumLossLayer
from nacre_layers.pooling.channel_pooling import ChannelPoolingLayer
from nacre_layers.pooling.functions import Max, Mean, Stochastic
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.pooling.spp import SPPLayer
from nacre_layers.shapes.concat import ConcatLayer


def spread(numbers, count):
    return numbers * count if len(numbers) == 1 else numbers


def spans_of(layer, shape):
    """Return {axis: the (start, stop) of every window along it, in cells of the image, and the padding at each end}."""
    if isinstance(layer, ChannelPoolingLayer):
        axis = range(len(shape))[layer.axis]
        return {axis: (windows(shape[axis], layer.kernel, layer.stride, *layer.pad, "ceil"), *layer.pad)}
    axes = layer.axes or tuple(range(2, len(shape)))
    if layer.whole:
        return {axis: ([(0, shape[axis])], 0, 0) for axis in axes}
    sizes = zip(*(spread(one, len(axes)) for one in (layer.kernel, layer.stride, layer.pad)), strict=True)
    return {
        axis: (windows(shape[axis], kernel, stride, pad, pad, layer.rounding), pad, pad)
        for axis, (kernel, stride, pad) in zip(axes, sizes, strict=True)
    }


def windows(length, kernel, stride, front, tail, rounding):
    """Return the (start, stop) of every window along an axis, in cells of the image."""
    free = length + front + tail - kernel
    count = (-(-free // stride) if rounding == "ceil" else free // stride) + 1
    found = [(number * stride - front, number * stride - front + kernel) for number in range(count)]
    return [window for window in found if window[0] < length]


def pooled(pooling, x, spans, uniform=None):
    """Pool by loops over every window; `uniform` is what `Stochastic` draws in phase train."""
    y = np.zeros([len(spans[axis][0]) if axis in spans else length for axis, length in enumerate(x.shape)])
    for place in np.ndindex(*y.shape):
        cells, counts = [], {"kernel": 1, "padded": 1, "image": 1}
        for axis, index in enumerate(place):
            if axis not in spans:
                cells.append(slice(index, index + 1))
                continue
            found, front, tail = spans[axis]
            (start, stop), length = found[index], x.shape[axis]
            cells.append(slice(max(start, 0), min(stop, length)))
            counts["kernel"] *= stop - start
            counts["padded"] *= min(stop, length + tail) - max(start, -front)
            counts["image"] *= min(stop, length) - max(start, 0)
        part = x[tuple(cells)].ravel()
        if isinstance(pooling, Max):
            y[place] = part.max()
        elif isinstance(pooling, Mean):
            y[place] = part.sum() / counts[pooling.divide_by]
        else:
            y[place] = drawn(np.maximum(part, 0), None if uniform is None else float(uniform[place]))
    return y


def drawn(cells, uniform):
    """Return the first cell that takes the sum above its share, or the mean weighted by the cells."""
    if cells.sum() == 0:
        return 0
    if uniform is None:
        return (cells**2).sum() / cells.sum()
    return cells[np.argmax(np.cumsum(cells) > uniform * cells.sum())]


def pooled_in_torch(pooling, x, spans):
    """Pool by picking the cells of every window out of the padded image."""
    import torch

    padded, shape = x, x.shape
    sizes = torch.ones((), dtype=x.dtype)
    for axis, (found, front, tail) in spans.items():
        behind = max(0, found[-1][1] - shape[axis])
        border = [0, 0] * (len(shape) - axis - 1) + [front, behind]
        space = torch.full((), float("-inf") if isinstance(pooling, Max) else 0.0, dtype=x.dtype)
        padded = torch.nn.functional.pad(padded, [0, 0] * (padded.ndim - len(shape)) + border, value=float(space))
        kernel = found[0][1] - found[0][0]
        places = torch.tensor([start + front + cell for start, _ in found for cell in range(kernel)])
        picked = padded.index_select(axis, places).unflatten(axis, (len(found), kernel))
        padded = picked.movedim(axis + 1, -1)
        low, high = {"kernel": (-99, 99), "padded": (-front, shape[axis] + tail), "image": (0, shape[axis])}[
            getattr(pooling, "divide_by", "kernel")
        ]
        along = torch.tensor([min(stop, high) - max(start, low) for start, stop in found], dtype=x.dtype)
        sizes = sizes * along.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    cells = tuple(range(len(shape), padded.ndim))
    return padded.amax(cells) if isinstance(pooling, Max) else padded.sum(cells) / sizes


FUNCTIONS = st.sampled_from([Max(), *(Mean(divide_by=one) for one in ("padded", "kernel", "image"))])


def pooling_examples(functions):
    """Draw uses of Pooling with windows that fit into the image."""

    def example(images, channels, directions, kernel, stride, pad, extra, rounding, pooling, whole):
        kernel, stride, pad = (one[:directions] for one in (kernel, stride, pad))
        pad = tuple(min(p, k - 1) for p, k in zip(pad, kernel, strict=True))
        image = [max(1, k - 2 * p) + more for k, p, more in zip(kernel, pad, extra, strict=False)]
        fields = {"rounding": rounding, "pooling": pooling}
        fields |= {"whole": True} if whole == 0 else {"kernel": kernel, "stride": stride, "pad": pad}
        return Example(fields, [(images, channels, *image)])

    few, three = st.integers(1, 2), st.tuples(*[st.integers(1, 4)] * 2, st.integers(1, 2))
    more = st.tuples(*[st.integers(0, 3)] * 3)
    rounding = st.sampled_from(["ceil", "floor"])
    return st.builds(
        example, few, few, st.integers(1, 3), three, three, more, more, rounding, functions, st.integers(0, 4)
    )


class TestPooling(Agreement):
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
        yield Example({"whole": True, "pooling": "Mean"}, [(2, 3, 3, 4), (1, 2, 2, 2)], label="whole images")

    def strategy(self):
        return pooling_examples(FUNCTIONS)

    def in_torch(self, layer, inputs, parameters):
        return [pooled_in_torch(layer.pooling, x, spans_of(layer, x.shape)) for x in inputs]

    def reference(self, layer, inputs, parameters):
        tops = [pooled(layer.pooling, x, spans_of(layer, x.shape)) for x in inputs]
        return [np.tanh(y) for y in tops] if repr(layer.neuron) == "Tanh()" else tops


def places(x, spans):
    """Find by loops over every window where in its image the maximum is, the first of equal ones, or of NaNs."""
    found = np.zeros([len(spans[axis][0]) if axis in spans else length for axis, length in enumerate(x.shape)], int)
    for place in np.ndindex(*found.shape):
        cells = [
            range(*np.clip(spans[axis][0][index], 0, x.shape[axis])) if axis in spans else [index]
            for axis, index in enumerate(place)
        ]
        order = list(itertools.product(*cells))
        values = np.array([x[cell] for cell in order])
        best = order[np.argmax(values)]
        found[place] = np.ravel_multi_index([best[axis] for axis in spans], [x.shape[axis] for axis in spans])
    return found


class TestMasks(Agreement):
    """Of max pooling: as many tops again. No kernel makes them."""

    layer = PoolingLayer

    def examples(self):
        yield Example({"kernel": 2, "stride": 2}, [(2, 2, 4, 4)], tops=2, label="mask")
        fields = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)}
        yield Example(fields, [(2, 2, 4, 3), (3, 1, 5, 5)], tops=4, label="two, padded")
        yield Example({"kernel": 3, "stride": 2, "pad": 2, "axes": [1]}, [(2, 5, 3)], tops=2, label="channels")
        yield Example({"whole": True}, [(2, 3, 3, 4)], tops=2, label="whole images")

    def strategy(self):
        return pooling_examples(st.just(Max())).map(lambda example: replace(example, tops=2))

    def in_torch(self, layer, inputs, parameters):
        import torch

        spans = [spans_of(layer, x.shape) for x in inputs]
        tops = [pooled_in_torch(layer.pooling, x, its) for x, its in zip(inputs, spans, strict=True)]
        masks = [torch.tensor(places(x.detach().numpy(), its)) for x, its in zip(inputs, spans, strict=True)]
        return [*tops, *masks]

    def reference(self, layer, inputs, parameters):
        spans = [spans_of(layer, x.shape) for x in inputs]
        tops = [pooled(layer.pooling, x, its) for x, its in zip(inputs, spans, strict=True)]
        return [*tops, *(places(x, its) for x, its in zip(inputs, spans, strict=True))]


def masked(x, backend="numpy", **fields):
    """Return both tops of a max pooling with a mask."""
    layers = [
        InputLayer(tops="x", shape=x.shape[1:], batch_size=len(x)),
        PoolingLayer(bottoms="x", tops=["y", "mask"], **fields),
    ]
    with Net("masked", layers, backend=backend, keep=["y", "mask"]) as net:
        net.write("x", x)
        net.forward()
        return net.blob("y"), net.blob("mask")


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize(("directions", "fields"), [(1, {"kernel": 3}), (2, {"pad": 1}), (3, {"stride": 2, "pad": 1})])
def test_a_mask_is_what_torch_returns_as_indices(directions, fields, backend):
    torch = pytest.importorskip("torch")
    fields = {"kernel": 2, "stride": 1, "pad": 0, **fields}
    x = np.random.default_rng(0).integers(0, 4, (2, 3, *(5, 6, 4)[:directions])).astype(np.float32)  # with ties
    y, mask = masked(x, backend, rounding="floor", **fields)
    pool = getattr(torch.nn.functional, f"max_pool{directions}d")
    theirs = pool(torch.tensor(x), *fields.values(), return_indices=True)
    assert np.array_equal(y, theirs[0].numpy()) and np.array_equal(mask, theirs[1].numpy())


@pytest.mark.parametrize("backend", backends())
def test_a_mask_where_all_is_alike_or_not_finite(backend):
    inf, nan = float("inf"), float("nan")
    x = np.array([[-inf, -inf, -inf, -inf], [1, 1, 1, 1], [0, nan, 1, nan], [nan, inf, inf, 0]]).reshape(1, 4, 2, 2)
    assert masked(x, backend, whole=True)[1].ravel().tolist() == [0, 0, 1, 0]
    padded = masked(x, backend, kernel=2, stride=2, pad=1)[1].reshape(4, 4)
    assert padded.tolist() == [[0, 1, 2, 3]] * 4  # of a window with one pixel that, and none of the padding


@pytest.mark.parametrize("backend", backends())
def test_a_mask_of_one_window_whatever_the_stride(backend):
    y, mask = masked(np.arange(9).reshape(1, 1, 3, 3), backend, kernel=2, stride=1 << 70)
    assert (y.ravel().tolist(), mask.ravel().tolist()) == ([4], [4])


@pytest.mark.parametrize("backend", backends())
def test_a_mask_needs_no_gradient_and_gives_none(backend):
    """It may feed nobody, or a layer with gradients, and a ReLU below stays below: it would make numbers equal."""

    def gradient(*above, tops=("y",)):
        layers = [
            InputLayer(tops="x", shape=(1, 4, 4)),
            ActivationLayer(bottoms="x", tops="r", neuron="ReLU"),
            PoolingLayer(bottoms="r", tops=tops, kernel=2, stride=2),
            *above,
        ]
        with Net("n", layers, backend=backend, input_gradients=["x"], keep=tops) as net:
            net.write("x", np.arange(-8, 8).reshape(1, 1, 4, 4))
            net.forward()
            net.backward()
            if "mask" in tops:
                assert net.blob("mask").ravel().tolist() == [0, 2, 13, 15]
            return net.gradient("x")

    expected = gradient(SumLossLayer(bottoms="y"))
    assert np.array_equal(gradient(SumLossLayer(bottoms="y"), tops=["y", "mask"]), expected)
    both = [ConcatLayer(bottoms=["y", "mask"], tops="both"), SumLossLayer(bottoms="both")]
    assert np.array_equal(gradient(*both, tops=["y", "mask"]), expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tops": ["a", "b", "c"]}, "tops="),
        ({"tops": ["a", "b"], "pooling": "Mean"}, r"p: tops=\('a', 'b'\), but only pooling='Max' has masks, not Mean"),
        ({"tops": ["a", "b"], "neuron": "ReLU"}, "p: neuron=ReLU"),
    ],
)
def test_what_can_have_no_masks(fields, message):
    with pytest.raises(ConfigError, match=message):
        PoolingLayer(name="p", bottoms="x", kernel=2, **fields)


class TestStochasticPooling(Agreement):
    layer = PoolingLayer
    is_random = True

    def examples(self):
        yield Example({"kernel": 2, "stride": 2, "pooling": "Stochastic"}, [(3, 4, 6, 6)])
        fields = {"kernel": 3, "stride": 2, "pad": 1, "pooling": "Stochastic"}
        yield Example(fields, [(3, 3, 7, 6), (2, 3, 5, 8)], label="overlap, padding, two bottoms")

    def strategy(self):
        return pooling_examples(st.just(Stochastic()))

    def reference(self, layer, inputs, parameters):
        tops = []
        for place, x in enumerate(inputs):
            spans = spans_of(layer, x.shape)
            shape = [len(spans[axis][0]) if axis in spans else length for axis, length in enumerate(x.shape)]
            uniform = np.empty(shape, np.float32)
            self.random.uniform(uniform, draw=place)
            tops.append(pooled(layer.pooling, x, spans, uniform if self.phase == "train" else None))
        return tops


class TestChannelPooling(Agreement):
    layer = ChannelPoolingLayer

    def examples(self):
        yield Example({"kernel": 2, "stride": 2}, [(2, 4, 3, 2), (3, 6)], label="maxout, two")
        mean = Mean(divide_by="kernel")
        yield Example({"kernel": 3, "stride": 2, "pad": (2, 1), "pooling": mean}, [(2, 5, 3)], label="mean, padding")
        yield Example({"kernel": 3, "stride": 2, "axis": -1}, [(2, 2, 2, 2, 2, 6)], label="the last of six axes")

    def strategy(self):
        def example(shape, axis, kernel, stride, pad, pooling):
            fields = {"kernel": kernel, "stride": stride, "pad": tuple(min(one, kernel - 1) for one in pad)}
            axis = 1 + axis % (len(shape) - 1)
            shape[axis] += kernel - 1
            return Example({**fields, "axis": axis, "pooling": pooling}, [tuple(shape)])

        shape = st.lists(st.integers(1, 3), min_size=2, max_size=6)
        few, two = st.integers(1, 4), st.tuples(*[st.integers(0, 3)] * 2)
        return st.builds(example, shape, st.integers(0, 4), few, few, two, FUNCTIONS)

    def in_torch(self, layer, inputs, parameters):
        return [pooled_in_torch(layer.pooling, x, spans_of(layer, x.shape)) for x in inputs]

    def reference(self, layer, inputs, parameters):
        return [pooled(layer.pooling, x, spans_of(layer, x.shape)) for x in inputs]


def pyramid(layer, shape):
    """Yield the spans of each level of a pyramid, in Caffe's words: kernel and stride, pad."""
    for level in range(layer.pyramid_height):
        spans = {}
        for axis, length in enumerate(shape[2:], 2):
            kernel = math.ceil(length / 2**level)
            pad = (kernel * 2**level - length + 1) // 2
            spans[axis] = (windows(length, kernel, kernel, pad, pad, "ceil"), pad, pad)
        yield spans


class TestSPP(Agreement):
    layer = SPPLayer

    def examples(self):
        yield Example({"pyramid_height": 3}, [(2, 2, 7, 8), (3, 1, 4, 12)], label="max, two")
        yield Example({"pyramid_height": 2, "pooling": "Mean"}, [(2, 2, 3, 5)], label="mean, padding")
        yield Example({"pyramid_height": 1}, [(2, 3, 4)], label="one level, one axis")

    def strategy(self):
        def example(height, images, channels, image, pooling):
            lengths = {1: image, 2: [one + 1 for one in image], 3: [(4, 6, 7, 8, 10)[one % 5] for one in image]}
            return Example({"pyramid_height": height, "pooling": pooling}, [(images, channels, *lengths[height])])

        few, image = st.integers(1, 3), st.lists(st.integers(1, 6), min_size=1, max_size=2)
        return st.builds(example, few, few, few, image, FUNCTIONS)

    def in_torch(self, layer, inputs, parameters):
        import torch

        return [
            torch.cat([pooled_in_torch(layer.pooling, x, spans).flatten(1) for spans in pyramid(layer, x.shape)], 1)
            for x in inputs
        ]

    def reference(self, layer, inputs, parameters):
        levels = [[pooled(layer.pooling, x, spans) for spans in pyramid(layer, x.shape)] for x in inputs]
        return [np.concatenate([one.reshape(len(one), -1) for one in its], axis=1) for its in levels]


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
    for suite, fields in ((TestPooling(), {"axes": [1]}), (TestChannelPooling(), {})):
        example = Example(
            {"kernel": 3, "stride": 2, "pad": 2, "pooling": by_kernel, **fields}, [np.arange(1.0, 6)[None]]
        )
        with suite.trial(example, "numpy", "float64") as channels:
            channels.forward()
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


def test_a_neuron_on_a_pooling_whose_bottom_wants_no_gradient():
    """Mocha.jl's fails in backward."""
    example = Example({"kernel": 2, "neuron": "Tanh"}, [(2, 1, 3, 3), (2, 1, 3, 3)], wanted=[1])
    found = Trial(TestPooling().make, example, backend="numpy", dtype="float64")
    found.forward()
    assert list(found.gradients()) == ["input 1"]


def test_stochastic_pooling_draws_cells_as_often_as_they_are_large():
    x = np.tile([[1.0, 0.0], [2.0, 5.0]], (50, 50))[None, None]
    y = trial(x, kernel=2, stride=2, pooling=Stochastic()).results()[0]
    shares = [np.mean(y == cell) for cell in (1, 0, 2, 5)]
    assert shares == pytest.approx([1 / 8, 0, 2 / 8, 5 / 8], abs=0.04)
    assert y.mean() == pytest.approx(30 / 8, abs=0.15)  # what the other phases give


def test_a_window_with_nothing_above_zero_has_no_winner():
    found = trial(np.full((1, 1, 2, 2), -1.0), kernel=2, pooling=Stochastic())
    assert_close(found.results()[0], np.zeros((1, 1, 1, 1)), tolerance=0.0)
    assert_close(found.gradients()["input 0"], np.zeros((1, 1, 2, 2)), tolerance=0.0)


def test_stochastic_pooling_in_a_phase_of_an_algorithm_has_the_gradient_of_the_mean():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 6))
    x[0, 0, :3, :3] = -1  # a window with nothing above 0
    found = trial(x, kernel=3, stride=2, pooling=Stochastic())
    net = found.net
    net.compile(net.in_phase("positive", [*net.steps("forward"), *net.steps("backward")]))()
    given = torch.tensor(x, requires_grad=True)
    padded = torch.nn.functional.pad(given.clamp(min=0), (0, 1, 0, 0))
    cells = torch.nn.functional.unfold(padded, 3, stride=2).reshape(2, 3, 9, -1)
    y = (cells**2).sum(2) / cells.sum(2).clamp(min=1e-9)
    assert_close(net.blob("top0").reshape(2, 3, -1), y.detach().numpy())
    y.backward(torch.tensor(net.gradient("top0").reshape(2, 3, -1).copy()))
    assert_close(net.gradient("source0"), given.grad.numpy())


def test_a_pyramid_has_as_many_numbers_for_images_of_any_size():
    for image in ((4, 4), (7, 11), (13, 24)):
        example = Example({"pyramid_height": 3}, [(2, 5, *image)])
        with TestSPP().trial(example, "numpy", "float32", allocate=False) as planned:
            assert [one.shape for one in planned.op.outputs] == [(2, 5 * (1 + 4 + 16))]


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
        ({"kernel": 2}, (4,), "has no axes after the channels"),
        ({"kernel": 2, "axes": [4]}, (1, 5, 5), "has no axes"),
        ({"kernel": 2, "axes": [2, 2]}, (1, 5, 5), r"axes=\(2, 2\)"),
        ({"kernel": (0, 2)}, (1, 5, 5), r"kernel=\(0, 2\), but every number must be above 0"),
        ({"kernel": 2, "rounding": "round"}, (1, 5, 5), "one of 'ceil', 'floor'"),
        ({"kernel": 2, "pooling": "Median"}, (1, 5, 5), "no pooling 'Median'"),
        ({"whole": True, "stride": 2}, (1, 5, 5), r"stride=\(2,\), but with whole=True the window is the image"),
        ({"layer": ChannelPoolingLayer, "kernel": 0}, (5,), "kernel=0, but it must be above 0"),
        ({"layer": ChannelPoolingLayer, "axis": 0}, (5,), "axis=0, but it must be different from 0"),
        ({"layer": ChannelPoolingLayer, "axis": -3}, (5, 2), "axis=-3, but the bottom .* has the axes 1 to 2"),
        ({"layer": ChannelPoolingLayer, "pad": (0, 1)}, (5,), "pad=1 must be below kernel=1"),
        ({"layer": ChannelPoolingLayer, "pad": (0, 1, 2)}, (5,), r"a whole number, or two: \(front, tail\)"),
        ({"layer": ChannelPoolingLayer, "kernel": 6}, (5,), "kernel=6 is larger than the padded image, 5 along axis 1"),
        ({"layer": SPPLayer}, (2, 4, 4), "pyramid_height is missing"),
        (
            {"layer": SPPLayer, "pyramid_height": 3},
            (2, 8, 5),
            "pyramid_height=3 cuts axis 3 of length 5 into 4 windows",
        ),
        ({"layer": SPPLayer, "pyramid_height": 1}, (2,), "has no axes after the channels"),
    ],
)
def test_bad_fields(fields, shape, message):
    kind = {"layer": PoolingLayer, **fields}["layer"]
    fields = {name: value for name, value in fields.items() if name != "layer"}
    source = InputLayer(tops=["x"], shape=shape, batch_size=2)
    with pytest.raises(ConfigError, match=f"pool: .*{message}"):
        Net("n", [source, kind(name="pool", bottoms="x", tops="y", **fields)], backend="numpy")
