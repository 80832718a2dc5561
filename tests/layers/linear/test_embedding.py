"""Embedding: a vector of its own for every word."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.trial import Example, Trial
from nacre_layers.linear.embedding import EmbeddingLayer


def words(shape, count, seed, dtype="int64"):
    return np.random.default_rng(seed).integers(0, count, shape).astype(dtype)


class TestEmbedding(Agreement):
    layer = EmbeddingLayer

    def examples(self):
        yield Example({"input_dim": 4, "output_dim": 3}, [words((3, 5), 4, 0)], label="words many times over")
        yield Example({"input_dim": 9, "output_dim": 2, "bias": False}, [words(3, 9, 1)], label="one a record, no bias")
        two = [words((2, 3), 5, 2, "uint8"), words((3, 1, 2), 5, 3, "float64")]
        yield Example({"input_dim": 5, "output_dim": 2}, two, wanted=(), label="two bottoms, of other types")

    def strategy(self):
        def build(shape, count, out, bias, seed):
            return Example({"input_dim": count, "output_dim": out, "bias": bias}, [words(shape, count, seed)])

        return st.builds(
            build,
            st.lists(st.integers(1, 4), min_size=1, max_size=3),
            st.integers(1, 6),
            st.integers(1, 4),
            st.booleans(),
            st.integers(0, 99),
        )

    def in_torch(self, layer, inputs, parameters):
        import torch

        found = [torch.nn.functional.embedding(x.long(), parameters["weight"]) for x in inputs]
        return [y + parameters.get("bias", 0) for y in found]

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            top = np.empty((*x.shape, layer.output_dim))
            for place in np.ndindex(x.shape):
                top[place] = parameters["weight"][int(x[place])] + parameters.get("bias", 0)
            tops.append(top)
        return tops


def test_the_gradient_of_a_repeated_word_adds_up():
    example = Example({"input_dim": 5, "output_dim": 2}, [np.array([[3, 0, 3], [3, 3, 0]])])
    trial = Trial(TestEmbedding().make, example, backend="numpy", dtype="float64")
    trial.forward()
    (dy,) = trial.probe_weights()
    gradients = trial.gradients()
    expected = np.zeros((5, 2))
    for word, vector in zip([3, 0, 3, 3, 3, 0], dy.reshape(6, 2), strict=True):
        expected[word] += vector
    np.testing.assert_allclose(gradients["weight"], expected, rtol=1e-12)
    np.testing.assert_allclose(gradients["bias"], dy.sum((0, 1)), rtol=1e-12)


def test_a_gradient_that_is_not_finite_reaches_its_own_word_only():
    example = Example({"input_dim": 4, "output_dim": 2, "bias": False}, [np.array([[3, 0, 3], [1, 3, 0]])])
    trial = Trial(TestEmbedding().make, example, backend="numpy", dtype="float64")
    trial.forward()
    trial.net.node_ops["probe"].state.weights[0][0, 2, 1] = np.nan  # of word 3
    wrong = np.isnan(trial.gradients()["weight"])
    np.testing.assert_array_equal(np.argwhere(wrong), [[3, 1]])


def net_of(**fields):
    layers = [
        InputLayer(tops="x", shape=2, batch_size=3),
        EmbeddingLayer(name="words", bottoms="x", tops="y", **{"input_dim": 4, "output_dim": 2, **fields}),
    ]
    return Net("n", layers, backend="numpy")


@pytest.mark.parametrize(("value", "told"), [(4, "4"), (-1, "-1"), (1.5, "1.5"), (np.nan, "nan")])
def test_a_number_out_of_range(value, told):
    net = net_of()
    net.write("x", [[0, 1], [2, value], [0, 0]])
    with pytest.raises(DataError, match=f"words: number {told} of record 1 .*from 0 to 3\n.*input_dim"):
        net.forward()


def test_rows_that_do_not_count_may_hold_anything():
    net = net_of()
    net.write("x", [[0, 1], [2, 3]])
    net.forward()
    net.node_ops["words"].input_arrays[0][2] = np.nan  # of the third row, which `write` has filled up
    net._passes.calls["forward"]()
    weight, bias = (net.parameters[f"words/{name}"].value for name in ("weight", "bias"))
    np.testing.assert_array_equal(net.blob("y"), weight[[[0, 1], [2, 3], [0, 0]]] + bias)


@pytest.mark.parametrize("field", ["input_dim", "output_dim"])
def test_bad_fields(field):
    with pytest.raises(ConfigError, match=f"words: {field}=0, but it must be above 0"):
        net_of(**{field: 0})
