"""CalibrationError: how far probabilities are from the share of hits."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from forging import trials
from losses import scores_and_labels
from nacre import ConfigError, DataError
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers import CalibrationErrorLayer
from passes import over_a_pass, state_after


def shares(random, shape, axis):
    scores = random.random(shape)
    return scores / scores.sum(axis, keepdims=True)


class TestCalibrationError(LayerTests):
    layer = CalibrationErrorLayer
    max_examples = trials(50, 200)

    def examples(self):
        random = np.random.default_rng(0)
        yield Example({}, [shares(random, (6, 3), 1), np.array([0, 1, 2, 2, 1, 0])])
        labels = np.array([[0, 1, 3], [2, -1, -1]])
        yield Example({"axis": -1, "ignore_label": -1, "n_bin": 3}, [shares(random, (2, 3, 4), 2), labels], label="few")

    def strategy(self):
        return scores_and_labels(shares, n_bin=st.integers(1, 20))

    def reference(self, layer, inputs, parameters):
        rows = np.moveaxis(inputs[0], layer.axis, -1)
        rows = rows.reshape(-1, rows.shape[-1])
        bins = [[] for _ in range(layer.n_bin)]
        for row, label in zip(rows, np.asarray(inputs[1]).reshape(-1), strict=True):
            if label != layer.ignore_label:
                place = next(k for k in range(layer.n_bin) if row.max() <= np.linspace(0, 1, layer.n_bin + 1)[k + 1])
                bins[place].append((row.argmax() == label, row.max()))
        records = sum(map(len, bins))
        gaps = [abs(sum(hit for hit, _ in one) - sum(p for _, p in one)) for one in bins]
        return {"ece": sum(gaps) / records if records else 0.0, "records": float(records)}


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_distance_from_the_curve_of_scikit_learn(seed):
    curve = pytest.importorskip("sklearn.calibration").calibration_curve
    random = np.random.default_rng(seed)
    rows = shares(random, (60, 4), 1)
    labels = random.integers(0, 4, 60)
    hits, highest = rows.argmax(1) == labels, rows.max(1)
    right, said = curve(hits, highest, n_bins=10)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, 11)[1:-1], highest), minlength=10)
    expected = (np.abs(right - said) * counts[counts > 0]).sum() / 60
    found = over_a_pass(CalibrationErrorLayer, rows, labels, n_bin=10)
    assert found == {"ece": pytest.approx(expected, abs=1e-12), "records": 60}


def test_edges():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert over_a_pass(CalibrationErrorLayer, sure, np.array([0, 1]))["ece"] == 0
    assert over_a_pass(CalibrationErrorLayer, sure, np.array([1, 0]))["ece"] == 1
    sure[0] = math.nan
    found = state_after(CalibrationErrorLayer, 2, sure, np.array([0, 1])).dump_statistics()
    assert math.isnan(found["ece"]) and found["records"] == 2


def test_what_is_wrong():
    with pytest.raises(DataError, match=r"m: bottom 'x' holds 3, which is not a probability\n.*Softmax"):
        state_after(CalibrationErrorLayer, 1, np.array([[3.0, 0.5]]), np.array([0]))
    with pytest.raises(ConfigError, match="n_bin=0, but it must be from 1 to 1048576"):
        CalibrationErrorLayer(bottoms=["x", "label"], n_bin=0)
