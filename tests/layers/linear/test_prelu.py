"""PReLU: a rectifier whose slope below 0 is learned."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example, Trial
from nacre_layers.linear.prelu import PReLULayer


class TestPReLU(Agreement):
    layer = PReLULayer

    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({}, [(2, 3, 2, 2), (3, 3)], label="two bottoms of other axes")
        yield Example({"shared": True}, [(2, 3, 4), (2, 5)], label="one slope")
        yield Example({"axis": -1}, [(2, 3, 4)], label="last axis")

    def strategy(self):
        @st.composite
        def examples(draw):
            n_axes, shared = draw(st.integers(2, 4)), draw(st.booleans())
            shapes = [draw(st.lists(st.integers(1, 4), min_size=n_axes, max_size=n_axes)) for _ in range(2)]
            axis = draw(st.integers(1, n_axes - 1))
            if not shared:
                shapes[1][axis] = shapes[0][axis]
            fields = {"shared": shared, "axis": draw(st.sampled_from([axis, axis - n_axes]))}
            return Example(fields, [tuple(shape) for shape in shapes[: draw(st.integers(1, 2))]])

        return examples()

    def in_torch(self, layer, inputs, parameters):
        import torch

        slope = parameters["slope"]
        return [torch.nn.functional.prelu(x.movedim(layer.axis, 1), slope).movedim(1, layer.axis) for x in inputs]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            y = x.copy()
            for place in np.ndindex(*x.shape):
                if x[place] < 0:
                    y[place] = x[place] * parameters["slope"][0 if layer.shared else place[layer.axis]]
            tops.append(y)
        return tops


def test_the_slope_begins_at_a_quarter():
    trial = Trial(TestPReLU().make, Example({}, [np.array([[-4.0, 4, -2]])]), backend="numpy", dtype="float64")
    trial.forward()
    assert_close(trial.results()[0], [[-1, 4, -0.5]])
    assert_close(trial.parameters()["slope"], [0.25, 0.25, 0.25])


def test_bottoms_must_have_equally_many_channels():
    layers = [
        InputLayer(tops=["a"], shape=3),
        InputLayer(tops=["b"], shape=4),
        PReLULayer(name="p", bottoms=["a", "b"], tops=["c", "d"]),
    ]
    with pytest.raises(ConfigError, match="p: bottom 'b' has 4 channels, but 'a' has 3"):
        Net("n", layers, backend="numpy")


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"axis": 0}, "p: axis=0"), ({"slope_lr": -1}, "p: slope_lr=-1.0"), ({"tops": ["y", "z"]}, "p: tops=")],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        PReLULayer(**{"name": "p", "bottoms": ["x"], "tops": ["y"], **fields})


def test_the_axis_must_be_there():
    layers = [InputLayer(tops=["a"], shape=3), PReLULayer(name="p", bottoms=["a"], tops=["b"], axis=2)]
    with pytest.raises(ConfigError, match="p: axis=2, but"):
        Net("n", layers, backend="numpy")
