"""Scale and Bias: a blob times, or plus, one of fewer axes, which is learned or a second bottom."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_near
from nacre.testing.trial import Example
from nacre_layers.linear.bias import BiasLayer
from nacre_layers.linear.scale import ScaleLayer


class Operand:
    """What the tests of both have in common; `operand` is the name of the parameter, or of the second bottom."""

    def strategy(self):
        @st.composite
        def examples(draw):
            shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
            second = draw(st.booleans())
            axis = draw(st.integers(int(not second), len(shape) - second))
            n_axes = draw(st.integers(int(second), len(shape) - axis))
            fields = {"axis": axis - len(shape) if axis < len(shape) and draw(st.booleans()) else axis}
            if second:
                lengths = [draw(st.sampled_from([1, length])) for length in shape[axis : axis + n_axes]]
                return Example(fields, [shape, tuple(lengths)], tops=1)
            fields["n_axes"] = -1 if axis + n_axes == len(shape) and draw(st.booleans()) else n_axes
            if self.layer is ScaleLayer:
                fields["bias"] = draw(st.booleans())
            return Example(fields, [shape], tops=1)

        return examples()

    def operands(self, layer, inputs, parameters):
        """Return what x is multiplied by and what is added to it, with an axis for each of x's."""
        axis = 2 - len(layer.bottoms) if layer.axis is None else layer.axis
        axis += inputs[0].ndim * (axis < 0)
        found = {**parameters, **({self.operand: inputs[1]} if len(inputs) > 1 else {})}
        for name, one in found.items():
            found[name] = one.reshape((1,) * axis + tuple(one.shape) + (1,) * (inputs[0].ndim - axis - one.ndim))
        return found.get("scale"), found.get("bias")

    def _check_coarse(self, actual, exact, what):
        """An operand's gradient is a sum of up to 256 numbers about 1, of which little may be left."""
        assert_near(actual, exact, what, self.coarse * max(1.0, 1 / (float(np.linalg.norm(exact)) or 1.0)))

    def in_torch(self, layer, inputs, parameters):
        scale, bias = self.operands(layer, inputs, parameters)
        y = inputs[0] if scale is None else inputs[0] * scale
        return [y if bias is None else y + bias]

    def reference(self, layer, inputs, parameters):
        y = np.zeros_like(inputs[0])
        for place in np.ndindex(*y.shape):
            scale, bias = (
                missing if one is None else one[tuple(i % n for i, n in zip(place, one.shape, strict=True))]
                for missing, one in zip((1, 0), self.operands(layer, inputs, parameters), strict=True)
            )
            y[place] = inputs[0][place] * scale + bias
        return [np.tanh(y) if repr(layer.neuron) == "Tanh()" else y]


class TestScale(Operand, Agreement):
    layer = ScaleLayer
    operand = "scale"

    def examples(self):
        yield Example({"bias": True}, [(3, 4)], tops=1, label="a number for each channel")
        yield Example({"n_axes": -1, "neuron": "Tanh"}, [(2, 3, 2)], tops=1, label="all axes, neuron")
        yield Example({"n_axes": 0, "bias": True}, [(2, 3)], tops=1, label="one number")
        yield Example({"axis": -1}, [(2, 3, 4)], tops=1, label="last axis")
        yield Example({}, [(2, 3, 2, 2), (2, 3)], tops=1, label="a gate of each image and channel")
        yield Example({}, [(2, 3, 2, 2), (2, 3, 1, 1)], tops=1, label="the same after global pooling")


class TestBias(Operand, Agreement):
    layer = BiasLayer
    operand = "bias"

    def examples(self):
        yield Example({"neuron": "Tanh"}, [(3, 4, 2)], tops=1, label="a number for each channel")
        yield Example({"n_axes": 0}, [(2, 3)], tops=1, label="one number")
        yield Example({"axis": 1}, [(4, 3, 2), (1, 2)], tops=1, label="a second bottom")


def test_a_fresh_scale_and_a_fresh_bias_change_nothing():
    layers = [
        InputLayer(tops=["x"], shape=(3, 2), batch_size=2),
        ScaleLayer(bottoms=["x"], tops=["y"], bias=True),
        BiasLayer(bottoms=["y"], tops=["z"]),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64")
    x = np.random.default_rng(0).standard_normal((2, 3, 2))
    net.write("x", x)
    net.forward()
    assert (net.blob("z") == x).all()
    shapes = {name: handle.shape for name, handle in net.parameters.items()}
    assert shapes == {"y/scale": (3,), "y/bias": (3,), "z/bias": (3,)}


@pytest.mark.parametrize(
    ("layer", "fields", "message"),
    [
        (ScaleLayer, {"bottoms": ["a", "b", "c"]}, "y: bottoms=.*, but one or two must be given"),
        (BiasLayer, {"bottoms": []}, "y: bottoms=.*, but at least 1 must be given"),
        (BiasLayer, {"n_axes": -2}, "y: n_axes=-2, but it must be -1 or more"),
        (ScaleLayer, {"bottoms": ["a", "b"], "bias": True}, "y: bias=True, but the scale is a second bottom"),
        (BiasLayer, {"bottoms": ["a", "b"], "n_axes": 2}, "y: n_axes=2, but with a second bottom nothing is learned"),
        (ScaleLayer, {"bottoms": ["a", "b"], "scale_init": 2}, r"y: scale_init=Constant\(value=2.0\), but with"),
        (ScaleLayer, {"bottoms": ["a", "b"], "scale_lr": 0.5}, "y: scale_lr=0.5, but with a second bottom"),
        (BiasLayer, {"bottoms": ["a", "b"], "bias_regu": "L2"}, "y: bias_regu=L2.*, but with a second bottom"),
        (BiasLayer, {"bottoms": ["a", "b"], "param_key": "k"}, "y: param_key='k', but with a second bottom"),
        (ScaleLayer, {"axis": 0}, r"y: axis=0, but it must be from 1 to 3 for bottom 'a' of shape \(1, 2, 4\)"),
        (BiasLayer, {"axis": 4}, r"y: axis=4, but it must be from 1 to 3 for bottom 'a' of shape \(1, 2, 4\)"),
        (
            BiasLayer,
            {"axis": 2, "n_axes": 2},
            "y: n_axes=2, but .* has 1 axes from axis 2",
        ),
        (ScaleLayer, {"bottoms": ["a", "b"]}, r"y: bottom 'b' of shape \(1, 3\) does not fit 'a' of shape \(1, 2, 4\)"),
        (ScaleLayer, {"bottoms": ["b", "a"]}, r"y: bottom 'a' of shape \(1, 2, 4\) does not fit 'b' of shape \(1, 3\)"),
    ],
)
def test_what_does_not_fit(layer, fields, message):
    def make():
        sources = [InputLayer(tops=["a"], shape=(2, 4)), InputLayer(tops=["b"], shape=3)]
        return Net("n", [*sources, layer(**{"bottoms": ["a"], "tops": ["y"], **fields})], backend="numpy")

    with pytest.raises(ConfigError, match=message):
        make()
