"""RandomMask: at random, some elements become 0, and the others stay as they are."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.gradients import check_net_gradients
from nacre.testing.trial import Example
from nacre_layers.elementwise.random_mask import RandomMaskLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.split import SplitLayer


class TestRandomMask(Agreement):
    layer = RandomMaskLayer
    is_random = True

    def examples(self):
        yield Example({}, [(5, 40)])
        yield Example({"ratio": 0.2}, [(4, 30), (2, 3, 5, 5)], label="two bottoms")

    def strategy(self):
        shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
        fields = st.sampled_from([0, 0.3, 0.9]).map(lambda ratio: {"ratio": ratio})
        return st.builds(Example, fields, st.lists(shapes, min_size=1, max_size=3))

    def reference(self, layer, inputs, parameters):
        if self.phase != "train":
            return inputs
        tops = []
        for draw, x in enumerate(inputs):
            uniform = np.empty(x.shape, np.float32)
            self.random.uniform(uniform, draw)
            y = np.zeros(x.shape)
            for place in np.ndindex(*x.shape):
                if uniform[place] >= layer.ratio:
                    y[place] = x[place]
            tops.append(y)
        return tops


def net_of(*layers, **options):
    sources = [
        InputLayer(name="in", tops=["x"], shape=6, batch_size=40),
        InputLayer(name="labels", tops=["label"], batch_size=40, dtype="int64"),
    ]
    net = Net("n", [*sources, *layers], backend="numpy", dtype="float64", **options)
    net.write("x", np.random.default_rng(0).standard_normal((40, 6)))
    net.write("label", np.arange(40) % 3)
    return net


def test_every_bottom_has_a_mask_of_its_own():
    split = SplitLayer(name="split", bottoms=["x"], tops=["a", "b"])
    net = net_of(split, RandomMaskLayer(name="mask", bottoms=["a", "b"]), keep="all")
    net.forward()
    a, b, x = (net.blob(name) for name in ("a", "b", "x"))
    for masked in (a, b):
        assert_close(masked[masked != 0], x[masked != 0], tolerance=0.0)
        assert 0.4 < np.mean(masked == 0) < 0.6
    assert 0.15 < np.mean((a == 0) & (b == 0)) < 0.35


@pytest.mark.parametrize("neuron", ["Sigmoid", "Tanh", "ELU", "GELU"])
def test_in_place_over_a_neuron_the_gradients_are_right(neuron):
    """Mocha.jl's neurons read what the layers in place above them have overwritten."""
    layers = [
        InnerProductLayer(bottoms=["x"], tops=["a"], output_dim=5, neuron=neuron, weight_init="Gaussian"),
        SplitLayer(name="split", bottoms=["a"], tops=["clean", "noisy"]),
        RandomMaskLayer(name="mask", bottoms=["noisy"]),
        ConcatLayer(bottoms=["clean", "noisy"], tops=["both"]),
        InnerProductLayer(bottoms=["both"], tops=["y"], output_dim=3, weight_init="Gaussian"),
        SoftmaxLossLayer(bottoms=["y", "label"]),
    ]
    assert max(error for _, error in check_net_gradients(net_of(*layers))) < 1e-6


@pytest.mark.parametrize("ratio", [1.0, -0.1, float("nan")])
def test_bad_ratio(ratio):
    with pytest.raises(ConfigError, match="ratio="):
        RandomMaskLayer(bottoms=["x"], ratio=ratio)
