"""MatMul: the product of the matrices in two blobs."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.linear.mat_mul import MatMulLayer


class TestMatMul(Agreement):
    layer = MatMulLayer

    def examples(self):
        yield Example({}, [(2, 3, 4), (2, 4, 5)], tops=1, label="plain")
        yield Example({"transpose_b": True}, [(3, 2, 3, 4), (3, 2, 5, 4)], tops=1, label="scores of attention")
        yield Example({"transpose_a": True}, [(2, 4, 3), (2, 4, 2)], tops=1, label="first transposed")
        yield Example(
            {"transpose_a": True, "transpose_b": True}, [(2, 4, 3), (2, 5, 4)], tops=1, label="both transposed"
        )
        yield Example({}, [(2, 3, 2), np.arange(12).reshape(2, 2, 3)], tops=1, label="whole numbers")

    def strategy(self):
        def build(before, rows, inner, columns, first, second):
            shapes = [inner, rows] if first else [rows, inner], [columns, inner] if second else [inner, columns]
            return Example(
                {"transpose_a": first, "transpose_b": second}, [(*before, *shape) for shape in shapes], tops=1
            )

        sizes = [st.integers(1, 4)] * 3
        return st.builds(
            build, st.lists(st.integers(1, 3), min_size=1, max_size=3), *sizes, st.booleans(), st.booleans()
        )

    def in_torch(self, layer, inputs, parameters):
        a, b = (x.double() for x in inputs)
        return [(a.mT if layer.transpose_a else a) @ (b.mT if layer.transpose_b else b)]

    def reference(self, layer, inputs, parameters):
        a, b = inputs
        a = np.moveaxis(a, -1, -2) if layer.transpose_a else a
        b = np.moveaxis(b, -1, -2) if layer.transpose_b else b
        y = np.zeros((*a.shape[:-1], b.shape[-1]))
        for place in np.ndindex(*y.shape):
            *before, row, column = place
            y[place] = sum(x * w for x, w in zip(a[(*before, row)], b[(*before, slice(None), column)], strict=True))
        return [y]


@pytest.mark.parametrize(
    ("first", "second", "fields", "message"),
    [
        ([3], [3, 2], {}, r"y: bottom 'a' of shape \(4, 3\) must be \(records, \.\.\., rows, columns\)"),
        (
            [3, 2],
            [3, 2],
            {},
            r"y: bottom 'b' of shape \(4, 3, 2\) does not fit 'a' of shape \(4, 3, 2\): .* 3 x 2 and 3 x 2",
        ),
        ([3, 2], [2, 5], {"transpose_a": True}, r"does not fit .* with transpose_a: .* 2 x 3 and 2 x 5"),
        ([2, 3, 2], [3, 2, 5], {}, "the axes before the last two must be equal"),
        ([2, 3, 2], [2, 5], {}, "the axes before the last two must be equal"),
    ],
)
def test_matrices_without_a_product(first, second, fields, message):
    sources = [InputLayer(tops=name, shape=shape, batch_size=4) for name, shape in (("a", first), ("b", second))]
    with pytest.raises(ConfigError, match=message):
        Net("n", [*sources, MatMulLayer(bottoms=["a", "b"], tops="y", **fields)])


@pytest.mark.parametrize("transposed", [False, True])
def test_the_summary_counts_multiplications(transposed):
    shapes = {"a": [3, 5] if transposed else [5, 3], "b": [3, 2]}
    sources = [InputLayer(tops=name, shape=shape, batch_size=4) for name, shape in shapes.items()]
    layer = MatMulLayer(bottoms=["a", "b"], tops="y", transpose_a=transposed)
    made = Net("n", [*sources, layer], allocate=False).summary()
    assert made.layers[-1].multiplications == 4 * 5 * 3 * 2
