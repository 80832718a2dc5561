"""InnerProduct: y = x Wᵀ + b."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing import Example, Trial, assert_close
from nacre_layers import InnerProductLayer


class TestInnerProduct(Agreement):
    layer = InnerProductLayer

    def examples(self):
        yield Example({"output_dim": 3}, [(4, 5)])
        yield Example({"output_dim": 2}, [(3, 2, 2, 3), (2, 12), (5, 4, 3)], label="three bottoms of other batches")
        yield Example({"output_dim": 3, "bias": False}, [(4, 5)], label="no bias")
        yield Example({"output_dim": 4, "neuron": "Tanh"}, [(3, 4), (3, 4)], label="neuron")

    def strategy(self):
        return st.builds(
            lambda batch, shape, out, bias: Example({"output_dim": out, "bias": bias}, [(batch, *shape)]),
            st.integers(1, 5),
            st.lists(st.integers(1, 4), min_size=1, max_size=3),
            st.integers(1, 4),
            st.booleans(),
        )

    def in_torch(self, layer, inputs, parameters):
        return [x.flatten(1) @ parameters["weight"].T + parameters.get("bias", 0) for x in inputs]

    def reference(self, layer, inputs, parameters):
        weight, bias = parameters["weight"], parameters.get("bias", np.zeros(layer.output_dim))
        tops = []
        for x in inputs:
            y = np.zeros((len(x), layer.output_dim))
            for n, row in enumerate(x.reshape(len(x), -1)):
                for out in range(layer.output_dim):
                    y[n, out] = sum(row * weight[out]) + bias[out]
            tops.append(np.tanh(y) if repr(layer.neuron) == "Tanh()" else y)
        return tops


def test_against_torch():
    torch = pytest.importorskip("torch")
    example = Example({"output_dim": 3}, [(4, 2, 3)])
    trial = Trial(TestInnerProduct().make, example, backend="numpy", dtype="float64")
    trial.forward()
    x = torch.tensor(trial.arrays[0], requires_grad=True)
    weight, bias = (torch.tensor(trial.parameters()[name].copy(), requires_grad=True) for name in ("weight", "bias"))
    y = torch.nn.functional.linear(x.flatten(1), weight, bias)
    assert_close(trial.results()[0], y.detach().numpy())
    gradients = trial.gradients()
    y.backward(torch.tensor(trial.net.gradient("top0").copy()))
    for name, tensor in (("input 0", x), ("weight", weight), ("bias", bias)):
        assert_close(gradients[name], tensor.grad.numpy(), name)


def test_bottoms_must_have_equally_many_features():
    sources = [InputLayer(tops=["a"], shape=3, batch_size=2), InputLayer(tops=["b"], shape=4, batch_size=2)]
    layer = InnerProductLayer(name="ip", bottoms=["a", "b"], tops=["c", "d"], output_dim=2)
    with pytest.raises(ConfigError, match="ip: bottom 'b' has 4 features an image, but 'a' has 3"):
        Net("n", [*sources, layer], backend="numpy")


@pytest.mark.parametrize("fields", [{}, {"output_dim": 0}, {"output_dim": 2.5}, {"output_dim": 2, "tops": ["a", "b"]}])
def test_bad_fields(fields):
    with pytest.raises(ConfigError, match="ip: "):
        InnerProductLayer(**{"name": "ip", "bottoms": ["x"], "tops": ["a"], **fields})


def test_defaults():
    layer = InnerProductLayer(bottoms=["x"], tops=["y"], output_dim=2)
    assert repr([layer.weight_init, layer.bias_init, layer.weight_regu, layer.bias_regu]) == (
        "[Xavier(), Constant(), L2(), None]"
    )
    assert (layer.weight_lr, layer.bias_lr, layer.weight_cons, layer.bias_cons) == (1.0, 1.0, None, None)
