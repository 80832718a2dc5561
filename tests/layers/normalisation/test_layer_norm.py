"""LayerNorm, GroupNorm and RMSNorm: records, or groups of their channels, brought to one size."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.normalisation.group_norm import GroupNormLayer
from nacre_layers.normalisation.layer_norm import LayerNormLayer
from nacre_layers.normalisation.mvn import MVNLayer
from nacre_layers.normalisation.rms_norm import RMSNormLayer

LEARNED = {"scale": st.booleans(), "bias": st.booleans(), "epsilon": st.floats(1e-5, 1)}


def standardised(values, epsilon):
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return [(value - mean) / np.sqrt(variance + epsilon) for value in values]


class TestLayerNorm(Agreement):
    layer = LayerNormLayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({"axis": 2, "epsilon": 0.1, "neuron": "Tanh"}, [(2, 3, 2, 3)], label="axis, neuron")
        yield Example({"axis": -1, "scale": False, "bias": False}, [(2, 3, 4)], label="last axis, no parameters")
        yield Example({}, [(2, 5, 13)], label="long rows")

    def strategy(self):
        fields = st.fixed_dictionaries({"axis": st.sampled_from([1, 2, -1]), **LEARNED})
        shape = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(3, 5)) | st.tuples(*[st.integers(3, 4)] * 4)
        return st.builds(lambda one, shape: Example(one, [shape]), fields, shape)

    def in_torch(self, layer, inputs, parameters):
        import torch

        axis = layer.axis % inputs[0].ndim
        learned = (parameters.get(name) for name in ("scale", "bias"))
        return [torch.nn.functional.layer_norm(inputs[0], inputs[0].shape[axis:], *learned, eps=layer.epsilon)]

    def reference(self, layer, inputs, parameters):
        x = inputs[0]
        axis = layer.axis % x.ndim
        y = np.zeros_like(x)
        for place in np.ndindex(*x.shape[:axis]):
            normal = np.reshape(standardised(x[place].ravel(), layer.epsilon), x.shape[axis:])
            y[place] = normal * parameters.get("scale", 1) + parameters.get("bias", 0)
        return [np.tanh(y) if repr(layer.neuron) == "Tanh()" else y]


class TestGroupNorm(Agreement):
    layer = GroupNormLayer

    def examples(self):
        yield Example({"n_group": 2}, [(3, 8)])
        yield Example({"n_group": 3, "epsilon": 0.1, "neuron": "Tanh"}, [(2, 3, 2, 3)], label="one channel a group")
        yield Example({"n_group": 1, "scale": False, "bias": False}, [(2, 3, 4)], label="one group, no parameters")
        yield Example({"n_group": 2}, [(2, 4, 5, 13)], label="long rows")

    def strategy(self):
        def example(fields, groups, channels, batch, behind):
            return Example({"n_group": groups, **fields}, [(batch, groups * channels, *behind)])

        counts = [st.integers(1, 3)] * 3
        behind = st.lists(st.integers(3, 4), min_size=1, max_size=2)  # the gradient of two numbers is rounding noise
        return st.builds(example, st.fixed_dictionaries(LEARNED), *counts, behind)

    def in_torch(self, layer, inputs, parameters):
        import torch

        x = torch.nn.functional.group_norm(inputs[0], layer.n_group, eps=layer.epsilon)
        scale, bias = (parameters.get(name, torch.tensor(one)) for name, one in (("scale", 1.0), ("bias", 0.0)))
        wide = (-1, *[1] * (x.ndim - 2))
        return [x * scale.reshape(wide) + bias.reshape(wide)]

    def reference(self, layer, inputs, parameters):
        x = inputs[0]
        y = np.zeros_like(x)
        size = x.shape[1] // layer.n_group
        for n, group in np.ndindex(len(x), layer.n_group):
            part = slice(group * size, (group + 1) * size)
            y[n, part] = np.reshape(standardised(x[n, part].ravel(), layer.epsilon), x[n, part].shape)
        for channel in range(x.shape[1]):
            if layer.scale:
                y[:, channel] *= parameters["scale"][channel]
            if layer.bias:
                y[:, channel] += parameters["bias"][channel]
        return [np.tanh(y) if repr(layer.neuron) == "Tanh()" else y]


class TestRMSNorm(Agreement):
    layer = RMSNormLayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({"axis": 2, "epsilon": 0.1, "neuron": "Tanh"}, [(2, 3, 2, 3)], label="axis, neuron")
        yield Example({"axis": -1, "scale": False}, [(2, 3, 4)], label="last axis, no scale")
        yield Example({}, [(2, 5, 13)], label="long rows")

    def strategy(self):
        fields = st.fixed_dictionaries(
            {"axis": st.sampled_from([1, 2, -1]), "scale": st.booleans(), "epsilon": st.floats(1e-5, 1)}
        )
        shape = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(3, 5)) | st.tuples(*[st.integers(3, 4)] * 4)
        return st.builds(lambda one, shape: Example(one, [shape]), fields, shape)

    def in_torch(self, layer, inputs, parameters):
        import torch

        axis = layer.axis % inputs[0].ndim
        shape = inputs[0].shape[axis:]
        return [torch.nn.functional.rms_norm(inputs[0], shape, parameters.get("scale"), layer.epsilon)]

    def reference(self, layer, inputs, parameters):
        x = inputs[0]
        axis = layer.axis % x.ndim
        y = np.zeros_like(x)
        for place in np.ndindex(*x.shape[:axis]):
            row = x[place].ravel()
            mean = sum(value**2 for value in row) / len(row)
            y[place] = x[place] / np.sqrt(mean + layer.epsilon) * parameters.get("scale", 1)
        return [np.tanh(y) if repr(layer.neuron) == "Tanh()" else y]


def net(layer):
    return Net("n", [InputLayer(tops=["x"], shape=(6, 2)), layer], backend="numpy")


def test_the_parameters_have_the_shape_of_what_is_normalised_together():
    handles = net(LayerNormLayer(name="norm", bottoms=["x"], tops=["y"])).parameters
    assert {name: handle.shape for name, handle in handles.items()} == {"norm/scale": (6, 2), "norm/bias": (6, 2)}
    handles = net(RMSNormLayer(name="norm", bottoms=["x"], tops=["y"], axis=-1)).parameters
    assert {name: handle.shape for name, handle in handles.items()} == {"norm/scale": (2,)}
    handles = net(GroupNormLayer(name="norm", bottoms=["x"], tops=["y"], n_group=2)).parameters
    assert {name: handle.shape for name, handle in handles.items()} == {"norm/scale": (6,), "norm/bias": (6,)}


@pytest.mark.parametrize("cls", [LayerNormLayer, GroupNormLayer, BatchNormLayer, MVNLayer, RMSNormLayer])
def test_a_step_allocates_nothing_and_keeps_its_digits_beside_a_large_mean(cls):
    x = 1000 + np.random.default_rng(0).standard_normal((8, 32, 16, 16))
    fields = {"bottoms": ["x"], "tops": ["y"], "epsilon": 1e-5}
    sources = [InputLayer(name="source", tops=["x"], shape=x.shape[1:], batch_size=len(x))]
    tops = []
    for dtype in ("float32", "float64"):
        made = Net("n", [*sources, cls(**fields)], backend="numpy", dtype=dtype)
        made.write("x", x)
        made.forward()
        tracemalloc.start()
        try:
            made.forward()
            assert tracemalloc.get_traced_memory()[1] < 8000
        finally:
            tracemalloc.stop()
        tops.append(made.blob("y"))
    assert_close(*tops, tolerance=1e-3)  # of 1000, float32 has lost four digits


@pytest.mark.parametrize(
    ("cls", "fields", "words"),
    [
        (LayerNormLayer, {"axis": 3}, r"norm: axis=3, but the bottom of shape \(1, 6, 2\) has the axes 1 to 2"),
        (LayerNormLayer, {"axis": 0}, "norm: axis=0, but it must be different from 0"),
        (LayerNormLayer, {"epsilon": 0.0}, "norm: epsilon=0.0, but it must be above 0"),
        (RMSNormLayer, {"axis": 3}, r"norm: axis=3, but the bottom of shape \(1, 6, 2\) has the axes 1 to 2"),
        (RMSNormLayer, {"epsilon": 0.0}, r"norm: epsilon=0\.0, but it must be above 0"),
        (GroupNormLayer, {"n_group": 4}, "norm: n_group=4 does not divide the 6 channels"),
        (GroupNormLayer, {"n_group": 0}, "norm: n_group=0, but it must be above 0"),
        (GroupNormLayer, {"scale_lr": -1.0}, "norm: scale_lr=-1.0, but it must be 0 or more"),
    ],
)
def test_bad_fields(cls, fields, words):
    with pytest.raises(ConfigError, match=words):
        net(cls(name="norm", bottoms=["x"], tops=["y"], **fields))
