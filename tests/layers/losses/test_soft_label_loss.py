"""SoftlabelSoftmaxLoss and InfogainLoss: cross-entropy with a weight for each class."""

import re

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import NORMALIZE, WEIGHT, loss_and_gradients, places, scores_and_labels
from nacre import ConfigError, DataError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.infogain_loss import InfogainLossLayer
from nacre_layers.losses.softlabel_softmax_loss import SoftlabelSoftmaxLossLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer


def log_softmax(row):
    return [x - np.log(sum(np.exp(other) for other in row)) for x in row]


@st.composite
def soft_labels(draw):
    before, behind = (draw(st.lists(st.integers(1, 3), min_size=least, max_size=2)) for least in (1, 0))
    shape = (*before, draw(st.integers(2, 4)), *behind)
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    axis = len(before) - draw(st.sampled_from([0, len(shape)]))
    labels = random.uniform(0.1, 1, shape)
    if draw(st.booleans()):
        labels /= labels.sum(axis=axis, keepdims=True)
    return Example({"axis": axis, "weight": draw(WEIGHT)}, [shape, labels])


class TestSoftlabelSoftmaxLoss(Agreement):
    layer = SoftlabelSoftmaxLossLayer

    def examples(self):
        yield Example({}, [(4, 3), (4, 3)])
        yield Example({"weight": 0.3, "axis": -1}, [(2, 2, 4), (2, 2, 4)], label="last axis")

    def strategy(self):
        return soft_labels()

    def in_torch(self, layer, inputs, parameters):
        from torch.nn.functional import cross_entropy

        x, labels = (one.movedim(layer.axis, -1).flatten(0, -2) for one in inputs)
        return layer.weight * cross_entropy(x, labels)

    def reference(self, layer, inputs, parameters):
        x, labels = (np.moveaxis(one, layer.axis, -1).reshape(-1, one.shape[layer.axis]) for one in inputs)
        total = sum(np.dot(q, log_softmax(row)) for row, q in zip(x, labels, strict=True))
        return -layer.weight * total / len(x)


def test_one_hot_labels_give_the_softmax_loss():
    scores, labels = np.random.default_rng(0).standard_normal((3, 4, 2)), np.array([[3, 0], [1, 1], [2, 0]])
    onehot = np.moveaxis(np.eye(4)[labels], -1, 1)
    expected = loss_and_gradients(SoftmaxLossLayer, scores, labels)
    loss, gradient, _ = loss_and_gradients(SoftlabelSoftmaxLossLayer, scores, onehot)
    assert_close(loss, expected[0])
    assert_close(gradient, expected[1])


def test_scores_far_apart_are_exact():
    loss, gradient, _ = loss_and_gradients(
        SoftlabelSoftmaxLossLayer, np.array([[1e4, -1e4]]), np.array([[0.5, 0.5]]), dtype="float32"
    )
    assert loss == 1e4
    assert_close(gradient, [[0.5, -0.5]], tolerance=1e-6)


def test_bottoms_of_other_shapes():
    with pytest.raises(ConfigError, match=r"tested: .*'bottom1' .*\(3, 5\) .*'bottom0'"):
        loss_and_gradients(SoftlabelSoftmaxLossLayer, (3, 4), (3, 5))


@st.composite
def gains(draw):
    example = draw(scores_and_labels(weight=WEIGHT, normalize=NORMALIZE))
    classes = example.inputs[0][example.fields["axis"]]
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    ones = draw(st.sampled_from([(), (1,), (1, 1)]))  # Caffe's matrix is (1, 1, K, K)
    matrix = random.uniform(-0.2, 1, (*ones, classes, classes))
    if draw(st.booleans()):  # no example of the kit's, which cuts every bottom to fewer rows
        return Example(example.fields, [*example.inputs, matrix], wanted=[0, 2])
    return Example({**example.fields, "matrix": matrix.tolist()}, example.inputs, wanted=[0])


class TestInfogainLoss(Agreement):
    layer = InfogainLossLayer

    def examples(self):
        matrix = [[1, 0.5, 0], [0.2, 2, 0], [0, 0, 3]]
        yield Example({"matrix": matrix, "weight": 0.3}, [(4, 3), np.array([0, 2, 1, 2])])
        images = np.arange(8).reshape(2, 1, 2, 2) % 3
        yield Example({"matrix": matrix, "ignore_label": 1}, [(2, 3, 2, 2), images], label="images, a label ignored")

    def strategy(self):
        return gains()

    def in_torch(self, layer, inputs, parameters):
        import torch

        rows, used, divisor = places(layer, inputs[0].detach().numpy(), inputs[1].numpy())
        log = inputs[0].movedim(layer.axis, -1).reshape(rows.shape).log_softmax(-1)
        matrix = inputs[2] if len(inputs) > 2 else torch.tensor(layer.matrix, dtype=torch.float64)
        matrix = matrix.reshape(matrix.shape[-2:])
        parts = [matrix[label] @ log[place] for place, label in used]
        return -layer.weight / divisor * (sum(parts) + 0 * log.sum() + 0 * matrix.sum())

    def reference(self, layer, inputs, parameters):
        rows, used, divisor = places(layer, *inputs[:2])
        matrix = np.array(inputs[2] if len(inputs) > 2 else layer.matrix)
        matrix = matrix.reshape(matrix.shape[-2:])
        logs = [(log_softmax(rows[place]), matrix[label]) for place, label in used]
        return -layer.weight / divisor * sum(np.dot(log, gains) for log, gains in logs)


def test_the_identity_gives_the_softmax_loss():
    scores, labels = np.random.default_rng(0).standard_normal((3, 4)), np.array([3, 0, 1])
    expected = loss_and_gradients(SoftmaxLossLayer, scores, labels)
    loss, gradient, _ = loss_and_gradients(InfogainLossLayer, scores, labels, matrix=np.eye(4))
    assert_close(loss, expected[0])
    assert_close(gradient, expected[1])


@pytest.mark.parametrize("shape", [(3, 3), (1, 1, 3, 3)])
@pytest.mark.parametrize("ending", ["csv", "h5", "npy", "npz"])
def test_the_matrix_may_be_in_a_file(tmp_path, ending, shape):
    import h5py

    matrix, source = np.random.default_rng(0).uniform(0, 1, shape), tmp_path / f"gains.{ending}"
    if ending == "h5":
        with h5py.File(source, "w") as file:
            file["matrix"] = matrix
    elif ending == "csv":
        np.savetxt(source, matrix.reshape(3, 3), "%.17g", ",")
    elif ending == "npz":
        np.savez(source, matrix=matrix)
    else:
        np.save(source, matrix)
    scores, labels = np.random.default_rng(1).standard_normal((2, 3)), np.array([1, 2])
    told = loss_and_gradients(InfogainLossLayer, scores, labels, matrix=matrix.reshape(3, 3))
    read = loss_and_gradients(InfogainLossLayer, scores, labels, source=source)
    assert read[0] == told[0]


@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 3)])
def test_a_file_with_a_matrix_of_another_shape(tmp_path, shape):
    np.save(tmp_path / "gains.npy", np.ones(shape))
    with pytest.raises(ConfigError, match=re.escape(f"tested: the matrix has the shape {shape}")):
        loss_and_gradients(InfogainLossLayer, (2, 3), np.array([1, 2]), source=tmp_path / "gains.npy")


def test_a_file_without_a_matrix(tmp_path):
    np.savez(tmp_path / "gains.npz", matrices=np.eye(3))
    with pytest.raises(DataError, match=r"tested: source: .*gains\.npz: it has no array 'matrix'"):
        loss_and_gradients(InfogainLossLayer, (2, 3), np.array([1, 2]), source=tmp_path / "gains.npz")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"gains\.h5: no such file"):
        loss_and_gradients(InfogainLossLayer, (2, 3), np.array([1, 2]), source=tmp_path / "gains.h5")


@pytest.mark.parametrize(
    ("bottoms", "fields"),
    [
        (["x", "label"], {}),
        (["x", "label"], {"matrix": [[1]], "source": "a.h5"}),
        (["x", "label"], {"source": ["a.h5", "b.h5"]}),
        (["x", "label", "gains"], {"matrix": [[1]]}),
    ],
)
def test_it_needs_one_matrix(bottoms, fields):
    with pytest.raises(ConfigError, match=r"one matrix .*`matrix`.*`source`"):
        InfogainLossLayer(name="loss", bottoms=bottoms, **fields)


def test_it_has_two_or_three_bottoms():
    with pytest.raises(ConfigError, match=r"loss: bottoms=.*, but 2 or 3 are needed"):
        InfogainLossLayer(name="loss", bottoms=["x", "label", "gains", "more"])


def test_a_third_bottom_of_another_shape():
    with pytest.raises(ConfigError, match=r"tested: .*\(3, 2\), .*\(3, 3\)"):
        loss_and_gradients(InfogainLossLayer, (2, 3), np.array([1, 2]), (3, 2))


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 3), (3, 3, 1), (9,)])
def test_a_matrix_of_another_shape(shape):
    told = re.escape(f"tested: the matrix has the shape {shape}, but (3, 3) is needed")
    with pytest.raises(ConfigError, match=told):
        loss_and_gradients(InfogainLossLayer, (2, 3), np.array([1, 2]), matrix=np.ones(shape))
