"""Label: SINGA's parser of labels, as a layer and as a transformer."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, DataError, Net
from nacre.testing.trial import Example
from nacre_data import LabelLayer, MemoryDataLayer


class TestLabel(Agreement):
    layer = LabelLayer

    def examples(self):
        yield Example({}, [np.array([[3], [0], [-1]])], label="whole numbers")
        yield Example({}, [np.array([3.0, 0, 2])], label="floating-point numbers")

    def strategy(self):
        numbers = st.lists(st.integers(-5, 1000), min_size=1, max_size=5)
        kinds, shapes = st.sampled_from(["int64", "float64"]), st.sampled_from([(-1,), (-1, 1)])
        return st.builds(
            lambda one, kind, shape: Example({}, [np.array(one, kind).reshape(shape)]), numbers, kinds, shapes
        )

    def reference(self, layer, inputs, parameters):
        return [np.array([int(number) for number in inputs[0].reshape(-1)])]


def labelled(values, **fields):
    source = MemoryDataLayer(name="d", tops=["x"], data=[values], batch_size=len(values), **fields)
    return [source] if fields else [source, LabelLayer(bottoms="x", tops="label")]


def test_its_top_counts_in_whole_numbers():
    with Net("n", labelled(np.array([[2.0], [7.0]])), backend="numpy") as net:
        net.forward()
        assert net.blob("label").dtype == np.int64
        assert net.blob("label").tolist() == [2, 7]


def test_as_a_transformer():
    with Net("n", labelled(np.array([[2.0], [7.0]]), transformers=[["x", "Label"]]), backend="numpy") as net:
        net.feed()
        assert net.blob("x").tolist() == [2, 7]


@pytest.mark.parametrize("bad", [0.5, np.nan, np.inf, 1e30])
@pytest.mark.parametrize("fields", [{}, {"transformers": [["x", "Label"]]}])
def test_what_is_no_whole_number_is_told(bad, fields):
    words = r"x: Label: .* in record 2 of the batch is no label"
    with Net("n", labelled(np.array([1.0, 2.0, bad]), **fields)) as net, pytest.raises(DataError, match=words):
        net.forward()


def test_records_of_several_numbers_are_refused():
    with pytest.raises(
        ConfigError, match=r"label: x: Label: records must hold one number, but they have the shape \(2"
    ):
        Net("n", labelled(np.zeros((3, 2))), backend="numpy")
