"""Reduction: one number for all from an axis on."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example, Trial
from nacre_layers.shapes.reduction import ReductionLayer

OPERATIONS = ("sum", "asum", "sumsq", "mean")


class TestReduction(Agreement):
    layer = ReductionLayer

    def examples(self):
        for operation in OPERATIONS:
            yield Example({"operation": operation, "coefficient": 1.5}, [(2, 3, 2)], label=operation)
        yield Example({"axis": -1}, [(2, 3, 4), (3, 2)], label="two bottoms, last axis")

    def strategy(self):
        def build(shape, axis, from_behind, operation, coefficient):
            axis = 1 + axis % (len(shape) - 1) - len(shape) * from_behind
            return Example({"operation": operation, "axis": axis, "coefficient": coefficient}, [tuple(shape)])

        return st.builds(
            build,
            st.lists(st.integers(1, 4), min_size=2, max_size=4),
            st.integers(0, 3),
            st.booleans(),
            st.sampled_from(OPERATIONS),
            st.sampled_from([1.0, -0.5, 3.0]),
        )

    def in_torch(self, layer, inputs, parameters):
        flat = [x.flatten(layer.axis % x.ndim) for x in inputs]
        found = {
            "sum": lambda x: x.sum(-1),
            "asum": lambda x: x.norm(p=1, dim=-1),
            "sumsq": lambda x: (x * x).sum(-1),
            "mean": lambda x: x.mean(-1),
        }
        return [layer.coefficient * found[layer.operation](x) for x in flat]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            before = x.shape[: layer.axis % x.ndim]
            rows = x.reshape(int(np.prod(before)), -1).tolist()
            change = {"asum": abs, "sumsq": lambda number: number**2}.get(layer.operation, float)
            sums = [sum(map(change, row)) / (len(row) if layer.operation == "mean" else 1) for row in rows]
            tops.append(layer.coefficient * np.array(sums).reshape(before))
        return tops


def test_the_gradient_of_the_absolute_value_of_0_is_0():
    example = Example({"operation": "asum"}, [np.array([[0.0, -2.0, 3.0]])])
    trial = Trial(TestReduction().make, example, backend="numpy", dtype="float64")
    assert trial.forward() != 0
    (weight,) = trial.probe_weights()
    assert trial.gradients()["input 0"].tolist() == [[0.0, -weight[0], weight[0]]]


def test_sums_do_not_read_their_bottoms_again():
    for operation, reads in zip(OPERATIONS, ("", "inputs", "inputs", ""), strict=True):
        layers = [InputLayer(tops="x", shape=3), ReductionLayer(bottoms="x", tops="y", operation=operation)]
        assert Net("n", layers, backend="numpy").node_ops["y"].state.reads == reads


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"operation": "max"}, "y: operation='max', but it must be one of 'sum', 'asum', 'sumsq', 'mean'"),
        ({"coefficient": float("nan")}, "y: coefficient=nan, but it must be finite"),
        ({"axis": 0}, "y: axis=0, but it must be different from 0"),
        ({"axis": 2}, r"y: axis=2, but the bottom of shape \(1, 3\) has the axes 1 to 1"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        Net("n", [InputLayer(tops="x", shape=3), ReductionLayer(bottoms="x", tops="y", **fields)], backend="numpy")
