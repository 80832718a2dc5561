"""Parameter: a learned blob."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, Net, Solver
from nacre.testing.trial import Example
from nacre_layers.linear.parameter import ParameterLayer
from nacre_solvers import SGD
from small_layers import SquareLossLayer


class TestParameter(Agreement):
    layer = ParameterLayer

    def examples(self):
        yield Example({"shape": [2, 3]})
        yield Example({"shape": [4]}, label="a vector")

    def strategy(self):
        return st.builds(lambda shape: Example({"shape": shape}), st.lists(st.integers(1, 4), min_size=1, max_size=4))

    def in_torch(self, layer, inputs, parameters):
        return [parameters["weight"] * 1]

    def reference(self, layer, inputs, parameters):
        return [parameters["weight"]]


def test_it_is_learned_in_a_net_without_a_source():
    layers = [
        ParameterLayer(tops="w", shape=[2, 2], weight_init=0.5, weight_regu=None),
        SquareLossLayer(bottoms="w"),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64")
    with Solver(SGD(), max_iter=100, lr_policy=0.2).start(net) as training:
        training.run()
    np.testing.assert_allclose(net.parameters["w/weight"].value, np.cos([[0, 1], [2, 3]]), atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bottoms": "x"}, "w: bottoms=.*, but exactly 0 must be given"),
        ({"shape": [2, 0]}, r"w: shape=\(2, 0\), but every number must be above 0"),
        ({"shape": []}, r"w: shape=\(\), .*shape = 1"),
        ({"tops": ["w", "v"]}, "w: tops=.*, but exactly 1 must be given"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        ParameterLayer(**{"name": "w", "tops": "w", "shape": 2, **fields})
