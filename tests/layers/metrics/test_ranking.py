"""ROCAUC and AveragePrecision: how scores rank what is true, as scikit-learn measures it."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from forging import trials
from nacre import ConfigError
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers import AveragePrecisionLayer, ROCAUCLayer
from passes import over_a_pass, state_after


def by_class(layer, scores, labels):
    """Yield the scores of each class, and whether each is true."""
    if scores.size == labels.size:
        scores, labels = (np.reshape(one, (len(one), -1)) for one in (scores, labels > layer.threshold))
        yield from zip(scores.T, labels.T, strict=True)
        return
    labels = np.asarray(labels).reshape(-1)
    used = labels != layer.ignore_label
    for number in range(scores.shape[1]):
        yield scores[used, number], labels[used] == number


def auc(scores, true):
    pairs = [(one > other) + (one == other) / 2 for one in scores[true] for other in scores[~true]]
    return sum(pairs) / len(pairs) if pairs else math.nan


def precision(scores, true):
    found, before = 0.0, 0
    for score in sorted({*scores.tolist()}, reverse=True):
        hits = np.count_nonzero(true & (scores >= score))
        found += (hits - before) * hits / np.count_nonzero(scores >= score)
        before = hits
    return found / before if before else 0.0


def statistics(layer, name, measure, inputs):
    each = [measure(*both) for both in by_class(layer, *inputs)]
    found = {name: np.mean(each)}
    if layer.per_class:
        found |= {f"{name}_{c}": one for c, one in enumerate(each)}
    _, true = next(by_class(layer, *inputs))
    return {**found, "records": float(len(true))}


@st.composite
def rankings(draw):
    """Draw scores with ties, and labels of which some are true and some not."""
    count, classes = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    labels = random.integers(0, 2, (count, classes))
    labels[:2] = [[0], [1]]
    return Example({"per_class": draw(st.booleans())}, [random.integers(0, 4, (count, classes)) / 2, labels])


class Ranking:
    max_examples = trials(50, 200)

    def examples(self):
        random = np.random.default_rng(0)
        yield Example({}, [(6, 1), np.array([0, 1, 1, 0, 1, 0])])
        yield Example({"threshold": 0.0}, [(4,), np.array([1.0, -1.0, 1.0, -1.0])], label="one axis")
        labels = np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
        yield Example({"per_class": True}, [random.integers(0, 3, (4, 2)) / 2, labels], label="many labels, ties")
        yield Example({"ignore_label": 9}, [(5, 3), np.array([0, 2, 9, 1, 1])], label="classes")

    def strategy(self):
        return rankings()


class TestROCAUC(Ranking, LayerTests):
    layer = ROCAUCLayer

    def test_batch_of_one(self, backend, dtype, example):
        with pytest.warns(UserWarning, match="all labels of a class are"):
            super().test_batch_of_one(backend, dtype, example)

    def reference(self, layer, inputs, parameters):
        return statistics(layer, "roc_auc", auc, inputs)


class TestAveragePrecision(Ranking, LayerTests):
    layer = AveragePrecisionLayer

    def reference(self, layer, inputs, parameters):
        return statistics(layer, "average_precision", precision, inputs)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ties", [False, True])
def test_they_are_those_of_scikit_learn(seed, ties):
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, (40, 3))
    scores = random.standard_normal((40, 3)) + labels
    if ties:
        scores = scores.round(0)
    for layer, name, score in (
        (ROCAUCLayer, "roc_auc", metrics.roc_auc_score),
        (AveragePrecisionLayer, "average_precision", metrics.average_precision_score),
    ):
        found = over_a_pass(layer, scores, labels, per_class=True)
        assert found[name] == pytest.approx(score(labels, scores, average="macro"), abs=1e-12)
        each = score(labels, scores, average=None)
        assert [found[f"{name}_{c}"] for c in range(3)] == pytest.approx(each.tolist(), abs=1e-12)
        found = over_a_pass(layer, scores[:, 0], labels[:, :1])
        assert found == {name: pytest.approx(score(labels[:, 0], scores[:, 0]), abs=1e-12), "records": 40}
    numbers = random.integers(0, 3, 40)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    found = over_a_pass(ROCAUCLayer, shares, numbers)["roc_auc"]
    assert found == pytest.approx(metrics.roc_auc_score(numbers, shares, multi_class="ovr"), abs=1e-12)


def test_two_classes_have_the_area_of_one():
    """The probabilities of a softmax over two classes say the same as one probability."""
    random = np.random.default_rng(0)
    one, labels = random.random(30), random.integers(0, 2, 30)
    both = over_a_pass(ROCAUCLayer, np.stack([1 - one, one], 1), labels)["roc_auc"]
    assert both == pytest.approx(over_a_pass(ROCAUCLayer, one, labels)["roc_auc"], abs=1e-12)


@pytest.mark.parametrize("label", [0, 1])
def test_the_area_of_one_class_is_told_to_be_nan(label):
    state = state_after(ROCAUCLayer, 3, np.array([0.2, 0.5, 0.1]), np.full(3, label))
    with pytest.warns(UserWarning, match=f"m: all labels of a class are {'true' if label else 'false'}"):
        assert math.isnan(state.dump_statistics()["roc_auc"])
    precision_state = state_after(AveragePrecisionLayer, 3, np.array([0.2, 0.5, 0.1]), np.full(3, label))
    assert precision_state.dump_statistics()["average_precision"] == label


def test_infinite_scores_are_equal_to_each_other_and_nan_is_told():
    scores, labels = np.array([math.inf, math.inf, -math.inf, 0.0]), np.array([1, 0, 0, 1])
    assert over_a_pass(ROCAUCLayer, scores, labels)["roc_auc"] == (0.5 + 1 + 0 + 1) / 4
    scores[0] = math.nan
    for layer, name in ((ROCAUCLayer, "roc_auc"), (AveragePrecisionLayer, "average_precision")):
        found = state_after(layer, 4, scores, labels).dump_statistics()
        assert math.isnan(found[name]) and found["records"] == 4


def test_what_is_wrong():
    with pytest.raises(ConfigError, match=r"m: labels have the shape \(2, 4\)"):
        state_after(ROCAUCLayer, 2, np.zeros((2, 3)), np.zeros((2, 4), int))
    with pytest.raises(ConfigError, match="m: axis=1, but the bottom of shape"):
        state_after(ROCAUCLayer, 2, np.zeros(2), np.zeros((2, 4), int))
