"""GLU: one half of the channels, through a gate that the other half opens."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.elementwise.glu import GLULayer


def logistic(x):
    return 1 / (1 + np.exp(-x))


GATES = {
    "Sigmoid()": logistic,
    "GELU()": lambda x: x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2,
    "SiLU()": lambda x: x * logistic(x),
    "Tanh()": np.tanh,
    "Softplus()": lambda x: np.log1p(np.exp(x)),
    "Identity()": lambda x: x,
}


class TestGLU(Agreement):
    layer = GLULayer

    def examples(self):
        yield Example({}, [(3, 4), (2, 2, 3, 2)], label="two bottoms")
        yield Example({"axis": -1, "gate": "SiLU"}, [(2, 3, 6)], label="SwiGLU, last axis")
        yield Example({"axis": 2, "gate": "Tanh"}, [(2, 3, 4, 2)], label="Tanh")
        yield Example({"gate": "Identity"}, [(2, 6)], label="a product")

    def strategy(self):
        def build(shape, axis, from_behind, gate):
            axis = 1 + axis % (len(shape) - 1)
            shape = [2 * length if place == axis else length for place, length in enumerate(shape)]
            return Example({"axis": axis - len(shape) * from_behind, "gate": gate}, [tuple(shape)])

        shapes = st.lists(st.integers(1, 4), min_size=2, max_size=4)
        gates = st.sampled_from(["Sigmoid", "SiLU", "GELU", "Tanh", "Softplus"])
        return st.builds(build, shapes, st.integers(0, 3), st.booleans(), gates)

    def in_torch(self, layer, inputs, parameters):
        import torch

        name = repr(layer.gate).removesuffix("()").lower()
        if name == "sigmoid":
            return [torch.nn.functional.glu(x, layer.axis) for x in inputs]
        gate = torch.tanh if name == "tanh" else getattr(torch.nn.functional, name)
        return [a * gate(b) for a, b in (x.chunk(2, layer.axis) for x in inputs)]

    def reference(self, layer, inputs, parameters):
        gate = GATES[repr(layer.gate)]
        return [a * gate(b) for a, b in (np.split(x, 2, layer.axis) for x in inputs)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"y: bottom 'x' of shape \(1, 3, 2\) has an odd length along axis 1, 3"),
        ({"axis": 3}, r"y: axis=3, but the bottom of shape \(1, 3, 2\) has the axes 1 to 2"),
        ({"axis": 0}, "y: axis=0, but it must be different from 0"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        Net("n", [InputLayer(tops="x", shape=[3, 2]), GLULayer(bottoms="x", tops="y", **fields)])
