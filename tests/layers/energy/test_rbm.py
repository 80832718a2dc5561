"""RBMVisible and RBMHidden, each alone: means, loss and statistics."""

from math import prod

import numpy as np
from hypothesis import strategies as st

from agreement import Agreement
from nacre import InputLayer
from nacre.testing import Example
from nacre_layers import RBMHiddenLayer, RBMVisibleLayer

UNITS = ["binary", "gaussian"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class TestRBMHidden(Agreement):
    layer = RBMHiddenLayer

    def examples(self):
        yield Example({"output_dim": 3}, [(4, 5)])
        yield Example({"output_dim": 2, "units": "gaussian"}, [(3, 1, 2, 2)], label="gaussian")
        yield Example({"output_dim": 3, "bias": False}, [(2, 4)], label="no bias")

    def strategy(self):
        return st.builds(
            lambda batch, features, out, units, bias: Example(
                {"output_dim": out, "units": units, "bias": bias}, [(batch, *features)]
            ),
            st.integers(1, 5),
            st.lists(st.integers(1, 4), min_size=1, max_size=3),
            st.integers(1, 4),
            st.sampled_from(UNITS),
            st.booleans(),
        )

    def in_torch(self, layer, inputs, parameters):
        import torch

        h = torch.nn.functional.linear(inputs[0].flatten(1), parameters["weight"], parameters.get("bias"))
        return [torch.sigmoid(h) if layer.units == "binary" else h]

    def reference(self, layer, inputs, parameters):
        rows = inputs[0].reshape(len(inputs[0]), -1)
        h = np.array([[sum(w * x) for w in parameters["weight"]] for x in rows]) + parameters.get("bias", 0)
        return [sigmoid(h) if layer.units == "binary" else h]


class TestRBMVisible(Agreement):
    layer = RBMVisibleLayer

    def examples(self):
        yield Example({"tops": ["top0"], "tied": "owner"}, [(4, 5), (4, 3)])
        yield Example(
            {"tops": ["top0"], "tied": "owner", "units": "gaussian"}, [(3, 1, 2, 2), (3, 2)], label="gaussian"
        )
        yield Example({"tops": ["top0"], "tied": "owner", "bias": False}, [(2, 4), (2, 2)], label="no bias")

    def strategy(self):
        return st.builds(
            lambda batch, features, hidden, units, bias: Example(
                {"tops": ["top0"], "tied": "owner", "units": units, "bias": bias}, [(batch, *features), (batch, hidden)]
            ),
            st.integers(1, 5),
            st.lists(st.integers(1, 4), min_size=1, max_size=3),
            st.integers(1, 4),
            st.sampled_from(UNITS),
            st.booleans(),
        )

    def beside(self, example):
        data, hidden = (prod(one.shape[1:]) for one in example.arrays())
        return [
            InputLayer(name="code", tops=["code"], shape=data),
            RBMHiddenLayer(name="owner", bottoms=["code"], tops=["coded"], output_dim=hidden, bias=False),
        ]

    def in_torch(self, layer, inputs, parameters):
        import torch

        v = inputs[1] @ parameters["weight"] + parameters.get("bias", 0)
        return [torch.sigmoid(v) if layer.units == "binary" else v]

    def reference(self, layer, inputs, parameters):
        weight = parameters["weight"]
        v = np.array([[sum(h * w) for w in weight.T] for h in inputs[1]]) + parameters.get("bias", 0)
        v = sigmoid(v) if layer.units == "binary" else v
        error = np.mean([sum((x.ravel() - y) ** 2) for x, y in zip(inputs[0], v, strict=True)])
        return [v], float(error), {"reconstruction_error": float(error)}
