"""Activation layers: a neuron as a layer of its own."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net, registry
from nacre.config import load
from nacre.files import toml_text
from nacre.testing.close import assert_close
from nacre.testing.gradients import check_net_gradients
from nacre.testing.trial import Example
from nacre_layers import NEURONS
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ELU
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.split import SplitLayer


def neuron(name, *others):
    """Draw the fields of a layer with a neuron, as it is unless told, or with other fields of its own."""
    return st.sampled_from([{"neuron": {"type": name, **fields}} for fields in ({}, *others)])


class Elementwise:
    """What the tests below have in common: the neuron is `function` of a number, and `torch_function` of a tensor."""

    def examples(self):
        yield Example({"neuron": self.named}, [(3, 4)])

    def strategy(self):
        shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
        return st.builds(Example, self.fields, st.lists(shapes, min_size=1, max_size=2))

    def in_torch(self, layer, inputs, parameters):
        import torch

        return [self.torch_function(torch, x, layer.neuron) for x in inputs]

    def reference(self, layer, inputs, parameters):
        return [np.vectorize(lambda x: self.function(x, layer.neuron))(x) for x in inputs]


class TestActivation(Elementwise, Agreement):
    layer = ActivationLayer
    fields = st.fixed_dictionaries({"neuron": st.sampled_from(["Identity", "Tanh", {"type": "ReLU", "epsilon": 0.25}])})

    def examples(self):
        yield Example({"neuron": "Tanh"}, [(3, 4)])
        yield Example({"neuron": {"type": "ReLU", "epsilon": 0.25}}, [(2, 3, 2, 2), (4, 3)], label="two bottoms")
        yield Example({"neuron": "GELU"}, [(3, 4), (3, 2)], label="a gradient that reads the bottom")
        yield Example({"neuron": "Identity"}, [(3, 4)], label="identity")

    def torch_function(self, torch, x, neuron):
        name = type(neuron).__name__
        return {"Tanh": torch.tanh, "ReLU": lambda x: x.clamp_min(neuron.epsilon), "Identity": lambda x: x}[name](x)

    def function(self, x, neuron):
        functions = {
            "Tanh": math.tanh,
            "ReLU": lambda x: max(x, 0.25),
            "Identity": float,
            "GELU": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
        }
        return functions[type(neuron).__name__](x)


class TestIdentity(Elementwise, Agreement):
    layer = ActivationLayer
    named = "Identity"
    fields = neuron("Identity")

    def torch_function(self, torch, x, neuron):
        return x

    def function(self, x, neuron):
        return float(x)


class TestReLU(Elementwise, Agreement):
    layer = ActivationLayer
    named = "ReLU"
    fields = neuron("ReLU")

    def examples(self):
        yield Example({"neuron": "ReLU"}, [(3, 4)])
        yield Example({"neuron": "ReLU"}, [(2, 3, 4, 4), (1, 5)], label="two bottoms")

    def torch_function(self, torch, x, neuron):
        return torch.relu(x)

    def function(self, x, neuron):
        return x if x > 0 else 0.0


class TestSigmoid(Elementwise, Agreement):
    layer = ActivationLayer
    named = "Sigmoid"
    fields = neuron("Sigmoid")

    def torch_function(self, torch, x, neuron):
        return torch.sigmoid(x)

    def function(self, x, neuron):
        return 1 / (1 + math.exp(-x))


class TestTanh(Elementwise, Agreement):
    layer = ActivationLayer
    named = "Tanh"
    fields = neuron("Tanh")

    def torch_function(self, torch, x, neuron):
        return torch.tanh(x)

    def function(self, x, neuron):
        return (math.exp(x) - math.exp(-x)) / (math.exp(x) + math.exp(-x))


class TestSTanh(Elementwise, Agreement):
    layer = ActivationLayer
    named = "STanh"
    fields = neuron("STanh", {"outer": 0.5, "inner": 2})

    def torch_function(self, torch, x, neuron):
        return neuron.outer * torch.tanh(neuron.inner * x)

    def function(self, x, neuron):
        return neuron.outer * math.tanh(neuron.inner * x)


class TestLReLU(Elementwise, Agreement):
    layer = ActivationLayer
    named = "LReLU"
    fields = neuron("LReLU", {"slope": 0.2}, {"slope": 3})

    def torch_function(self, torch, x, neuron):
        return torch.nn.functional.leaky_relu(x, neuron.slope)

    def function(self, x, neuron):
        return x if x > 0 else neuron.slope * x


class TestELU(Elementwise, Agreement):
    layer = ActivationLayer
    named = "ELU"
    fields = neuron("ELU", {"alpha": 0.5})

    def torch_function(self, torch, x, neuron):
        return torch.nn.functional.elu(x, neuron.alpha)

    def function(self, x, neuron):
        return x if x > 0 else neuron.alpha * (math.exp(x) - 1)


class TestGELU(Elementwise, Agreement):
    layer = ActivationLayer
    named = "GELU"
    fields = neuron("GELU", {"approximate": "tanh"})

    def torch_function(self, torch, x, neuron):
        return torch.nn.functional.gelu(x, approximate=neuron.approximate)

    def function(self, x, neuron):
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return x / 2 * (1 + (math.tanh(inner) if neuron.approximate == "tanh" else math.erf(x / math.sqrt(2))))


class TestSiLU(Elementwise, Agreement):
    layer = ActivationLayer
    named = "SiLU"
    fields = neuron("SiLU", {"beta": 2.5})

    def torch_function(self, torch, x, neuron):
        return x * torch.sigmoid(neuron.beta * x)

    def function(self, x, neuron):
        return x / (1 + math.exp(-neuron.beta * x))


class TestSoftplus(Elementwise, Agreement):
    layer = ActivationLayer
    named = "Softplus"
    fields = neuron("Softplus", {"beta": 2.5})

    def torch_function(self, torch, x, neuron):
        return torch.nn.functional.softplus(x, neuron.beta)

    def function(self, x, neuron):
        return math.log(1 + math.exp(neuron.beta * x)) / neuron.beta


class TestBNLL(Elementwise, Agreement):
    layer = ActivationLayer
    named = "BNLL"
    fields = neuron("BNLL")

    def torch_function(self, torch, x, neuron):
        return torch.nn.functional.softplus(x)

    def function(self, x, neuron):
        return math.log(1 + math.exp(x))


class TestExponential(Elementwise, Agreement):
    layer = ActivationLayer
    named = "Exponential"
    fields = neuron("Exponential")

    def torch_function(self, torch, x, neuron):
        return torch.exp(x)

    def function(self, x, neuron):
        return math.exp(x)


@pytest.mark.parametrize("name", sorted(NEURONS))
def test_in_a_net_file_a_neuron_is_a_layer_with_its_fields(name, tmp_path):
    cls = registry().open("neuron", name)
    defaults = {field.name: field.default for field in cls.fields()}
    table = {"type": name, "name": "f", "bottoms": ["x"], "tops": ["y"], **defaults}
    (tmp_path / "net.toml").write_text(toml_text({"layer": [table]}))
    (layer,) = load(tmp_path / "net.toml").layers
    assert type(layer) is ActivationLayer
    assert type(layer.neuron) is cls
    assert {field: getattr(layer.neuron, field) for field in defaults} == defaults


def test_a_neuron_as_a_layer_does_what_its_fields_say(tmp_path):
    text = '[[layer]]\ntype = "ELU"\nbottoms = "x"\ntops = "y"\nalpha = 0.3\n'
    (tmp_path / "net.toml").write_text(text)
    (layer,) = load(tmp_path / "net.toml").layers
    assert (type(layer.neuron), layer.neuron.alpha) == (ELU, 0.3)
    (tmp_path / "net.toml").write_text(text + 'neuron = "Tanh"\n')
    with pytest.raises(ConfigError, match=r"y: .*'neuron'\n.* alpha, bottoms"):
        load(tmp_path / "net.toml")


def test_the_neuron_must_be_named():
    with pytest.raises(ConfigError, match="y: neuron is missing"):
        ActivationLayer(bottoms=["x"], tops=["y"])


@pytest.mark.parametrize("neuron", ["ReLU", "Sigmoid", "ELU", "GELU", "SiLU", "Softplus"])
def test_a_neuron_over_a_blob_that_others_read_leaves_it_alone(neuron):
    """A layer of its own, and that of an in-place neuron's layer: both readers of `a` see it as it was."""
    layers = [
        InputLayer(tops=["x"], shape=3, batch_size=4),
        InputLayer(tops=["label"], batch_size=4, dtype="int64"),
        InnerProductLayer(bottoms=["x"], tops=["a"], output_dim=3, weight_init="Gaussian", neuron="Tanh"),
        SplitLayer(name="split", bottoms=["a"], tops=["b", "c", "d"]),
        ActivationLayer(bottoms=["b"], tops=["e"], neuron=neuron),
        InnerProductLayer(bottoms=["c"], tops=["f"], output_dim=3, weight_init="Gaussian", neuron=neuron),
        ElementWiseLayer(bottoms=["d", "e", "f"], tops=["y"], operation="Multiply", neuron=neuron),
        SoftmaxLossLayer(bottoms=["y", "label"]),
    ]
    nets = [Net("n", layers, backend="numpy", dtype="float64", keep=keep) for keep in ((), "all")]
    for net in nets:
        net.write("x", np.random.default_rng(0).standard_normal((4, 3)))
        net.write("label", [0, 1, 2, 0])
    assert_close(nets[0].forward(), nets[1].forward(), tolerance=0.0)
    assert max(error for _, error in check_net_gradients(nets[0])) < 1e-6


def test_a_neuron_of_pooling_where_no_gradient_is_wanted():
    """In Mocha.jl a neuron on a layer whose bottom wants no gradient fails in backward."""
    layers = [
        InputLayer(tops=["x"], shape=(1, 4, 4), batch_size=2),
        InputLayer(tops=["label"], batch_size=2, dtype="int64"),
        PoolingLayer(bottoms=["x"], tops=["a"], kernel=2, stride=2, neuron="Sigmoid"),
        ActivationLayer(bottoms=["a"], tops=["b"], neuron="GELU"),
        InnerProductLayer(bottoms=["b"], tops=["y"], output_dim=3, weight_init="Gaussian"),
        SoftmaxLossLayer(bottoms=["y", "label"]),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64")
    net.write("x", np.random.default_rng(0).standard_normal((2, 1, 4, 4)))
    net.write("label", [0, 2])
    assert max(error for _, error in check_net_gradients(net)) < 1e-6


@pytest.mark.parametrize("name", ["ReLU", "Sigmoid"])
def test_whole_numbers_are_refused(name: str) -> None:
    layers = [
        InputLayer(tops="x", shape=(3,), dtype="int64"),
        ActivationLayer(name="act", bottoms="x", tops="y", neuron=name),
    ]
    with pytest.raises(ConfigError, match=r"act: 'y' holds whole numbers \(int64\), but the neuron"):
        Net("n", layers, backend="numpy")
