"""GlobalPooling and AdaptivePooling: a top of one size for images of any."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.pooling.adaptive_pooling import AdaptivePoolingLayer
from nacre_layers.pooling.functions import Max, Stochastic
from nacre_layers.pooling.global_pooling import GlobalPoolingLayer
from nacre_layers.pooling.pooling import PoolingLayer


def cells_of(x, size):
    """Yield the index of each number of the top, and the cells of its windows in all images and channels."""
    for place in np.ndindex(*size):
        parts = [
            slice(index * length // count, -(-(index + 1) * length // count))
            for index, length, count in zip(place, x.shape[2:], size, strict=True)
        ]
        yield place, x[(..., *parts)].reshape(*x.shape[:2], -1)


def pooled(layer, x, size, uniform=None):
    y = np.zeros((*x.shape[:2], *size))
    for place, cells in cells_of(x, size):
        there = (..., *place)
        if isinstance(layer.pooling, Max):
            y[there] = cells.max(-1)
        elif isinstance(layer.pooling, Stochastic):
            cells = np.maximum(cells, 0)
            total = cells.sum(-1)
            if uniform is None:
                y[there] = (cells**2).sum(-1) / np.where(total == 0, 1, total)
            else:
                first = np.argmax(cells.cumsum(-1) > (uniform[there] * total)[..., None], -1)
                y[there] = np.take_along_axis(cells, first[..., None], -1)[..., 0]
        else:
            y[there] = cells.mean(-1)
    return np.tanh(y) if repr(layer.neuron) == "Tanh()" else y


def sizes(layer, x):
    return layer.size * (x.ndim - 2) if len(layer.size) == 1 else layer.size


class TestGlobalPooling(Agreement):
    layer = GlobalPoolingLayer

    def examples(self):
        yield Example({}, [(2, 3, 3, 4), (1, 2, 2, 2)], label="means")
        yield Example({"pooling": "Max", "neuron": "Tanh"}, [(2, 3, 3, 4)], label="max, neuron")
        yield Example({"pooling": "Max"}, [(2, 3, 5)], label="one axis")

    def strategy(self):
        shapes = st.lists(st.integers(1, 4), min_size=3, max_size=5).map(tuple)
        pooling = st.sampled_from(["Mean", "Max"])
        return st.builds(lambda shape, pooling: Example({"pooling": pooling}, [shape]), shapes, pooling)

    def in_torch(self, layer, inputs, parameters):
        which = "amax" if isinstance(layer.pooling, Max) else "mean"
        return [getattr(x, which)(tuple(range(2, x.ndim)), keepdim=True) for x in inputs]

    def reference(self, layer, inputs, parameters):
        return [pooled(layer, x, [1] * (x.ndim - 2)) for x in inputs]


class TestAdaptivePooling(Agreement):
    layer = AdaptivePoolingLayer

    def examples(self):
        yield Example({"size": 3}, [(2, 2, 7, 5), (2, 1, 3, 6)], label="means, two bottoms")
        yield Example({"size": [2, 3], "pooling": "Max", "neuron": "Tanh"}, [(2, 2, 5, 7)], label="max, neuron")
        yield Example({"size": 4, "pooling": "Max"}, [(2, 3, 3)], label="more windows than pixels")
        yield Example({"size": [2, 1, 2]}, [(2, 1, 3, 2, 4)], label="three axes")
        yield Example({"size": 2, "pooling": "Max"}, [np.arange(18).reshape(2, 1, 3, 3)], label="whole numbers")

    def strategy(self):
        def build(before, lengths, size, pooling):
            return Example({"size": size[: len(lengths)], "pooling": pooling}, [(*before, *lengths)])

        lengths, size = st.lists(st.integers(1, 7), min_size=1, max_size=3), st.tuples(*[st.integers(1, 5)] * 3)
        before = st.tuples(st.integers(1, 2), st.integers(1, 2))
        return st.builds(build, before, lengths, size, st.sampled_from(["Mean", "Max"]))

    def in_torch(self, layer, inputs, parameters):
        import torch

        kind = "max" if isinstance(layer.pooling, Max) else "avg"
        return [
            getattr(torch.nn.functional, f"adaptive_{kind}_pool{x.ndim - 2}d")(x, tuple(sizes(layer, x)))
            for x in inputs
        ]

    def reference(self, layer, inputs, parameters):
        return [pooled(layer, x, sizes(layer, x)) for x in inputs]


class TestStochasticAdaptivePooling(Agreement):
    layer = AdaptivePoolingLayer
    is_random = True

    def examples(self):
        yield Example({"size": 2, "pooling": "Stochastic"}, [(2, 3, 5, 3)])

    def strategy(self):
        size = st.tuples(st.integers(1, 3), st.integers(1, 3))
        shape = st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 5), st.integers(1, 5))
        return st.builds(lambda size, shape: Example({"size": size, "pooling": "Stochastic"}, [shape]), size, shape)

    def reference(self, layer, inputs, parameters):
        tops = []
        for number, x in enumerate(inputs):
            uniform = np.zeros((*x.shape[:2], *sizes(layer, x)), np.float32)
            self.random.uniform(uniform, draw=number)
            tops.append(pooled(layer, x, sizes(layer, x), uniform.astype(float) if self.phase == "train" else None))
        return tops


def run(backend, layer, x):
    with Net("n", [InputLayer(tops="x", shape=x.shape[1:], batch_size=len(x)), layer], backend=backend) as net:
        net.write("x", x)
        net.forward()
        return net.blob("y"), {name: op.kernel for name, op in net.node_ops.items()}["y"]


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
@pytest.mark.parametrize("pooling", ["Mean", "Max"])
def test_global_pooling_is_pooling_of_the_whole(backend, pooling):
    x = np.random.default_rng(0).normal(size=(2, 16, 5, 6)).astype("float32")
    one, kernel = run(backend, GlobalPoolingLayer(bottoms="x", tops="y", pooling=pooling), x)
    other, wanted = run(backend, PoolingLayer(bottoms="x", tops="y", pooling=pooling, whole=True), x)
    assert one.tobytes() == other.tobytes()
    assert kernel == wanted


def test_windows_of_pytorch():
    x = np.arange(5.0).reshape(1, 1, 5)
    assert run("numpy", AdaptivePoolingLayer(bottoms="x", tops="y", size=3), x)[0].tolist() == [[[0.5, 2, 3.5]]]
    assert run("numpy", AdaptivePoolingLayer(bottoms="x", tops="y", size=5), x)[0].tolist() == x.tolist()
    assert run("numpy", AdaptivePoolingLayer(bottoms="x", tops="y", size=7), x)[0].tolist() == [
        [[0, 0.5, 1.5, 2, 2.5, 3.5, 4]]
    ]


def test_a_nan_is_in_its_windows_only():
    x = np.zeros((1, 1, 5, 5))
    x[0, 0, 2, 2] = np.nan
    for pooling, count in (("Max", 1), ("Mean", 1)):
        y, _ = run("numpy", AdaptivePoolingLayer(bottoms="x", tops="y", size=5, pooling=pooling), x)
        assert np.isnan(y).sum() == count


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (0, "y: size=.*, but every number must be above 0"),
        ([1, 2, 3], r"y: size=\(1, 2, 3\), but there are 2 directions"),
    ],
)
def test_bad_sizes(size, message):
    with pytest.raises(ConfigError, match=message):
        run("numpy", AdaptivePoolingLayer(bottoms="x", tops="y", size=size), np.zeros((1, 2, 3, 2)))


@pytest.mark.parametrize("cls", [GlobalPoolingLayer, AdaptivePoolingLayer])
def test_a_bottom_without_images(cls):
    fields = {"size": 2} if cls is AdaptivePoolingLayer else {}
    with pytest.raises(ConfigError, match=r"y: the bottom of shape \(2, 3\) has no axes after the channels"):
        run("numpy", cls(bottoms="x", tops="y", **fields), np.zeros((2, 3)))
