"""ConfusionMatrix, PrecisionRecall and IoU: what was taken for what, as scikit-learn counts it."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from forging import trials
from losses import scores_and_labels
from nacre import ConfigError, DataError
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers import ConfusionMatrixLayer, IoULayer, PrecisionRecallLayer
from passes import over_a_pass, state_after

EXAMPLES = [
    ({}, [(5, 3), np.array([0, 2, 1, 2, 0])], ""),
    ({"axis": -1, "ignore_label": -1}, [(2, 3, 4), np.array([[0, 1, 3], [2, -1, -1]])], "sequences"),
    ({}, [(2, 4, 2, 3), np.arange(12).reshape(2, 1, 2, 3) % 4], "images"),
]


def counts(layer, scores, labels):
    """Return how often each label was taken for each class, counted one by one."""
    rows = np.moveaxis(scores, layer.axis, -1)
    rows = rows.reshape(-1, rows.shape[-1])
    matrix = np.zeros((rows.shape[1],) * 2)
    for row, label in zip(rows, np.asarray(labels).reshape(-1), strict=True):
        if label != layer.ignore_label:
            matrix[int(label), max(range(len(row)), key=lambda c: row[c])] += 1
    return matrix


def ratio(one, other):
    return one / other if other else 0.0


def f1s(matrix):
    for c in range(len(matrix)):
        precision, recall = (ratio(matrix[c, c], matrix.sum(axis)[c]) for axis in (0, 1))
        yield precision, recall, ratio(2 * precision * recall, precision + recall)


class TestConfusionMatrix(LayerTests):
    layer = ConfusionMatrixLayer
    max_examples = trials(50, 200)

    def examples(self):
        for fields, arrays, label in EXAMPLES:
            yield Example(fields, arrays, label=label)

    def strategy(self):
        return scores_and_labels()

    def reference(self, layer, inputs, parameters):
        matrix = counts(layer, *inputs)
        pairs = {f"{row}_as_{column}": matrix[row, column] for row, column in np.ndindex(matrix.shape)}
        return {"accuracy": ratio(np.trace(matrix), matrix.sum()), **pairs, "records": matrix.sum()}


class TestPrecisionRecall(LayerTests):
    layer = PrecisionRecallLayer
    max_examples = trials(50, 200)

    def examples(self):
        for (fields, arrays, label), average in zip(EXAMPLES, ("macro", "weighted", "micro"), strict=True):
            yield Example({**fields, "average": average, "per_class": bool(label)}, arrays, label=label)

    def strategy(self):
        return scores_and_labels(average=st.sampled_from(["macro", "micro", "weighted"]), per_class=st.booleans())

    def reference(self, layer, inputs, parameters):
        matrix = counts(layer, *inputs)
        each, names = list(f1s(matrix)), ("precision", "recall", "f1")
        if layer.average == "micro":
            found = dict.fromkeys(names, ratio(np.trace(matrix), matrix.sum()))
        else:
            weights = matrix.sum(1) if layer.average == "weighted" and matrix.any() else np.ones(len(matrix))
            found = {name: np.average([one[n] for one in each], weights=weights) for n, name in enumerate(names)}
        if layer.per_class:
            found |= {f"{name}_{c}": one[n] for n, name in enumerate(names) for c, one in enumerate(each)}
        return {**found, "records": matrix.sum()}


class TestIoU(LayerTests):
    layer = IoULayer
    max_examples = trials(50, 200)

    def examples(self):
        for fields, arrays, label in EXAMPLES:
            yield Example({**fields, "per_class": not label}, arrays, label=label)

    def strategy(self):
        return scores_and_labels()

    def reference(self, layer, inputs, parameters):
        matrix = counts(layer, *inputs)
        both = matrix.sum(0) + matrix.sum(1)
        each = [ratio(matrix[c, c], both[c] - matrix[c, c]) for c in range(len(matrix))]
        found = {"iou": np.mean(each)}
        if layer.per_class:
            found |= {f"iou_{c}": one for c, one in enumerate(each)}
        return {**found, "records": matrix.sum()}


def some(seed=0, count=50, classes=5):
    """Return scores and labels; no label is of the last class, and nothing is taken for the first."""
    random = np.random.default_rng(seed)
    scores, labels = random.standard_normal((count, classes)), random.integers(0, classes - 1, count)
    scores[np.arange(count), labels] += 1
    scores[:, 0] -= 9
    return scores, labels


@pytest.mark.parametrize("seed", range(5))
def test_they_are_those_of_scikit_learn(seed):
    metrics = pytest.importorskip("sklearn.metrics")
    scores, labels = some(seed)
    predicted, known = scores.argmax(1), {"labels": range(5)}
    found = over_a_pass(ConfusionMatrixLayer, scores, labels)
    matrix = metrics.confusion_matrix(labels, predicted, **known)
    assert [found[f"{row}_as_{column}"] for row, column in np.ndindex(5, 5)] == matrix.reshape(-1).tolist()
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels, predicted), abs=1e-12)
    for average in ("macro", "micro", "weighted"):
        found = over_a_pass(PrecisionRecallLayer, scores, labels, average=average, per_class=True)
        scored = metrics.precision_recall_fscore_support
        expected = scored(labels, predicted, **known, average=average, zero_division=0)[:3]
        assert [found[name] for name in ("precision", "recall", "f1")] == pytest.approx(expected, abs=1e-12)
        each = scored(labels, predicted, **known, zero_division=0)[:3]
        for name, values in zip(("precision", "recall", "f1"), each, strict=True):
            assert [found[f"{name}_{c}"] for c in range(5)] == pytest.approx(values.tolist(), abs=1e-12)
    found = over_a_pass(IoULayer, scores, labels, per_class=True)
    expected = metrics.jaccard_score(labels, predicted, **known, average="macro", zero_division=0)
    assert found["iou"] == pytest.approx(expected, abs=1e-12)
    each = metrics.jaccard_score(labels, predicted, **known, average=None, zero_division=0)
    assert [found[f"iou_{c}"] for c in range(5)] == pytest.approx(each.tolist(), abs=1e-12)


@pytest.mark.parametrize("layer", [ConfusionMatrixLayer, PrecisionRecallLayer, IoULayer])
def test_ignored_labels_do_not_count_and_what_is_nan_is_told(layer):
    scores, labels = some()
    labels[::3] = 255
    used = labels != 255
    assert over_a_pass(layer, scores, labels, ignore_label=255) == over_a_pass(layer, scores[used], labels[used])
    scores[0] = math.nan  # of a label that is ignored
    assert over_a_pass(layer, scores, labels, ignore_label=255)["records"] == used.sum()
    scores[1, 2] = math.nan
    found = state_after(layer, 8, scores, labels, ignore_label=255).dump_statistics()
    assert found.pop("records") == used.sum() and all(map(math.isnan, found.values()))


def test_too_many_classes_for_a_statistic_of_each_pair():
    with pytest.raises(ConfigError, match="m: there are 101 classes, but a statistic for each pair needs 100 at most"):
        state_after(ConfusionMatrixLayer, 1, np.zeros((1, 101)), np.array([0]))


@pytest.mark.parametrize("layer", [ConfusionMatrixLayer, PrecisionRecallLayer, IoULayer])
def test_what_is_wrong(layer):
    with pytest.raises(DataError, match="m: label 7 of record 1 of the batch is not a whole number from 0 to 2"):
        state_after(layer, 2, np.zeros((2, 3)), np.array([0, 7]))
    with pytest.raises(ConfigError, match=r"m: labels have the shape \(2, 2\)"):
        state_after(layer, 2, np.zeros((2, 3)), np.zeros((2, 2), int))
    with pytest.raises(ConfigError, match=r"bottoms=.*exactly 2"):
        layer(bottoms=["x"])
