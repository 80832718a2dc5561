"""InnerProduct: y = x Wᵀ + b; and TiedInnerProduct: y = x W + b with another one's W."""

from math import prod

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from joined_batches import refuses_a_batch_that_is_not_full
from nacre import ConfigError, InputLayer, Net, TopologyError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example, ProbeLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.linear.tied_inner_product import TiedInnerProductLayer


def multiplied(layer, x, weight, bias, axis=1):
    """Multiply by loops over every number of the result; `weight` is (output_dim, features)."""
    y = np.zeros((*x.shape[:axis], layer.output_dim))
    for place in np.ndindex(*y.shape):
        y[place] = sum(x[place[:-1]].ravel() * weight[place[-1]]) + bias[place[-1]]
    return np.tanh(y) if repr(layer.neuron) == "Tanh()" else y


class TestInnerProduct(Agreement):
    layer = InnerProductLayer

    def examples(self):
        yield Example({"output_dim": 3}, [(4, 5)])
        yield Example({"output_dim": 2}, [(3, 2, 2, 3), (2, 12), (5, 4, 3)], label="three bottoms of other batches")
        yield Example({"output_dim": 3, "bias": False}, [(4, 5)], label="no bias")
        yield Example({"output_dim": 4, "neuron": "Tanh"}, [(3, 4), (3, 4)], label="neuron")
        yield Example({"output_dim": 2, "axis": 2}, [(2, 3, 2, 2), (2, 1, 4)], label="axes before are kept")
        yield Example({"output_dim": 2, "axis": -1, "transpose": True}, [(2, 3, 4)] * 2, label="transposed")
        yield Example({"output_dim": 2, "axis": 0}, [(3, 2, 2)], label="a batch is one row")
        yield Example({"output_dim": 3, "axis": 0}, [(4,)], label="a batch of single numbers is one row")

    def strategy(self):
        def example(batch, shape, back, out, bias, transpose, bottoms):
            axis = 1 + back % len(shape)
            axis -= (len(shape) + 1) * (back >= 3)  # the same one, counted from the end
            axis *= back < 6
            fields = {"output_dim": out, "bias": bias, "transpose": transpose, "axis": axis}
            return Example(fields, [(batch + place * (axis != 0), *shape) for place in range(bottoms)])

        shape = st.lists(st.integers(1, 4), min_size=1, max_size=3)
        few = st.integers(1, 4)
        return st.builds(example, few, shape, st.integers(0, 6), few, st.booleans(), st.booleans(), st.integers(1, 2))

    def in_torch(self, layer, inputs, parameters):
        weight = parameters["weight"].T if layer.transpose else parameters["weight"]
        flat = [x.flatten(layer.axis) for x in inputs]
        return [x @ weight.T + parameters.get("bias", 0) for x in flat]

    def reference(self, layer, inputs, parameters):
        weight = parameters["weight"].T if layer.transpose else parameters["weight"]
        bias = parameters.get("bias", np.zeros(layer.output_dim))
        axes = [range(x.ndim)[layer.axis] for x in inputs]
        return [multiplied(layer, x, weight, bias, axis) for x, axis in zip(inputs, axes, strict=True)]


def planned(shape, **fields):
    layers = [
        InputLayer(tops=["x"], shape=shape, batch_size=2),
        InnerProductLayer(name="ip", bottoms=["x"], tops=["y"], **{"output_dim": 3, **fields}),
    ]
    return Net("n", layers, backend="numpy", seed=5)


def test_bottoms_must_have_equally_many_features():
    sources = [InputLayer(tops=["a"], shape=3, batch_size=2), InputLayer(tops=["b"], shape=4, batch_size=2)]
    layer = InnerProductLayer(name="ip", bottoms=["a", "b"], tops=["c", "d"], output_dim=2)
    with pytest.raises(ConfigError, match="ip: bottom 'b' has 4 features per image, but 'a' has 3"):
        Net("n", [*sources, layer], backend="numpy")


@pytest.mark.parametrize(
    "fields", [{}, {"output_dim": 0}, {"output_dim": 2.5}, {"output_dim": 2, "tops": ["a", "b"]}, {"axis": 1.5}]
)
def test_bad_fields(fields):
    with pytest.raises(ConfigError, match="ip: "):
        InnerProductLayer(**{"name": "ip", "bottoms": ["x"], "tops": ["a"], **fields})


@pytest.mark.parametrize("axis", [3, -3])
def test_the_batch_is_no_feature(axis):
    with pytest.raises(ConfigError, match=f"ip: axis={axis}, but bottom 'x' .* 1 to 2 "):
        planned((4, 5), axis=axis)


def test_a_batch_is_one_row_only_where_all_its_records_count():
    source = InputLayer(tops="x", shape=2, batch_size=3)
    refuses_a_batch_that_is_not_full(
        [source, InnerProductLayer(name="ip", bottoms="x", tops="y", axis=0, output_dim=4)], "ip"
    )


def test_the_first_values_are_the_same_where_the_weight_lies_transposed():
    plain, turned = (planned(4, transpose=one).parameters["ip/weight"].value for one in (False, True))
    assert plain.shape == (3, 4)
    assert np.array_equal(turned, plain.T)


def test_defaults():
    layer = InnerProductLayer(bottoms=["x"], tops=["y"], output_dim=2)
    assert repr([layer.weight_init, layer.bias_init, layer.weight_regu, layer.bias_regu]) == (
        "[Xavier(), Constant(), L2(), None]"
    )
    assert (layer.weight_lr, layer.bias_lr, layer.weight_cons, layer.bias_cons) == (1.0, 1.0, None, None)


class TestTiedInnerProduct(Agreement):
    layer = TiedInnerProductLayer

    def examples(self):
        yield Example({"output_dim": 3, "tied": "owner"}, [(4, 5)])
        yield Example(
            {"output_dim": 3, "tied": "owner", "neuron": "Tanh"}, [(3, 4), (2, 2, 2)], label="two bottoms, neuron"
        )
        yield Example({"output_dim": 2, "tied": "owner", "bias": False}, [(4, 3)], label="no bias")

    def strategy(self):
        return st.builds(
            lambda batch, features, out, bias: Example(
                {"output_dim": out, "tied": "owner", "bias": bias}, [(batch, *features)]
            ),
            st.integers(1, 5),
            st.lists(st.integers(1, 4), min_size=1, max_size=3),
            st.integers(1, 4),
            st.booleans(),
        )

    def beside(self, example):
        width, features = example.fields["output_dim"], prod(example.arrays()[0].shape[1:])
        return [
            InputLayer(name="code", tops=["code"], shape=width),
            InnerProductLayer(name="owner", bottoms=["code"], tops=["coded"], output_dim=features, bias=False),
            ProbeLayer(name="elsewhere", bottoms=["coded"]),  # of zeros: the weight learns nothing from it
        ]

    def in_torch(self, layer, inputs, parameters):
        return [x.flatten(1) @ parameters["weight"] + parameters.get("bias", 0) for x in inputs]

    def reference(self, layer, inputs, parameters):
        bias = parameters.get("bias", np.zeros(layer.output_dim))
        return [multiplied(layer, x, parameters["weight"].T, bias) for x in inputs]


def autoencoder(**fields):
    return [
        InputLayer(name="in", tops=["x"], shape=5, batch_size=3),
        InnerProductLayer(name="encode", bottoms=["x"], tops=["code"], output_dim=2),
        TiedInnerProductLayer(
            name="decode", bottoms=["code"], tops=["again"], **{"tied": "encode", "output_dim": 5, **fields}
        ),
        ProbeLayer(name="loss", bottoms=["again"]),
    ]


def gradient_of_the_weight(*, learns, step=1e-5):
    """Return backward's gradient and central differences, which hold the decoder's weight fixed unless it learns."""
    net = Net("n", autoencoder(learns=learns), backend="numpy", dtype="float64")
    x = np.random.default_rng(0).standard_normal((3, 5))
    net.write("x", x)
    net.forward()
    net.backward()
    weight, biases = (
        net.parameters["encode/weight"].value,
        [net.parameters[f"{one}/bias"].value for one in ("encode", "decode")],
    )
    slopes = net.node_ops["loss"].state.weights[0]

    def loss(encoder):
        return np.sum(((x @ encoder.T + biases[0]) @ (encoder if learns else weight) + biases[1]) * slopes)

    expected = np.zeros_like(weight)
    for place in np.ndindex(*weight.shape):
        move = np.zeros_like(weight)
        move[place] = step
        expected[place] = (loss(weight + move) - loss(weight - move)) / (2 * step)
    return net.parameters["encode/weight"].gradient, expected


@pytest.mark.parametrize("learns", [True, False])
def test_the_weight_gets_the_gradients_of_both_layers_or_of_its_own(learns):
    found, expected = gradient_of_the_weight(learns=learns)
    assert_close(found, expected, tolerance=1e-7)


def test_a_tied_layer_has_no_weight_of_its_own():
    net = Net("n", autoencoder(), backend="numpy")
    assert set(net.parameters) == {"decode/bias", "encode/weight", "encode/bias"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tied": "coder"}, "layer 'decode' is tied to parameter 'coder/weight'"),
        ({"output_dim": 4}, r"tied to 'encode/weight' of shape \(2, 5\), but needs \(2, 4\)"),
    ],
)
def test_tied_to_nothing_or_to_another_shape(fields, message):
    with pytest.raises(TopologyError, match=message):
        Net("n", autoencoder(**fields), backend="numpy")


def test_what_it_is_tied_to_must_be_said():
    with pytest.raises(ConfigError, match="decode: tied is missing: name of the InnerProduct"):
        TiedInnerProductLayer(name="decode", bottoms="code", tops="again", output_dim=4)
