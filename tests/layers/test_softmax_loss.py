"""SoftmaxLoss: cross-entropy of softmax probabilities and labels."""

import math

import numpy as np
import pytest

from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing import Example, LayerTests, assert_close
from nacre_layers import SoftmaxLossLayer


class TestSoftmaxLoss(LayerTests):
    layer = SoftmaxLossLayer

    def examples(self):
        yield Example({}, [(4, 3), np.array([0, 2, 1, 2])])
        yield Example({"weight": 0.3}, [(4, 3), np.array([[0.0], [2], [1], [2]])], wanted=[0], label="floating labels")
        spatial = np.arange(2 * 2 * 3).reshape(2, 1, 2, 3) % 4
        yield Example({}, [(2, 4, 2, 3), spatial.astype("uint8")], label="images")
        yield Example({"axis": -1}, [(3, 2, 4), np.array([[0, 1], [2, 3], [3, 0]], "int32")], label="last axis")

    def reference(self, layer, inputs, parameters):
        x = np.moveaxis(inputs[0], layer.axis, -1)
        rows = x.reshape(-1, x.shape[-1])
        losses = [
            -math.log(math.exp(row[int(label)]) / sum(math.exp(value) for value in row))
            for row, label in zip(rows, inputs[1].reshape(-1), strict=True)
        ]
        return layer.weight * sum(losses) / len(losses)


def loss_net(scores, labels, **fields):
    scores, labels = np.asarray(scores, float), np.asarray(labels)
    dtype = "" if labels.dtype.kind == "f" else str(labels.dtype)
    layers = [
        InputLayer(name="in", tops=["x"], shape=scores.shape[1:], batch_size=len(scores)),
        InputLayer(name="labels", tops=["label"], shape=labels.shape[1:], batch_size=len(labels), dtype=dtype),
        SoftmaxLossLayer(name="loss", bottoms=["x", "label"], **fields),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64", input_gradients=["x"])
    net.write("x", scores)
    net.write("label", labels)
    return net


def test_golden_numbers():
    net = loss_net([[1, 2, 3]], [2])
    assert_close(net.forward(), 0.407605964, tolerance=1e-9)
    net.backward()
    assert_close(net.gradient("x"), [[0.09003057, 0.24472847, -0.33475904]], tolerance=1e-8)
    net = loss_net([[1, 2, 3], [1, 1, 1]], [2, 0])
    assert_close(net.forward(), 0.753109127, tolerance=1e-9)
    net.backward()
    expected = [[0.04501529, 0.12236424, -0.16737952], [-0.33333333, 0.16666667, 0.16666667]]
    assert_close(net.gradient("x"), expected, tolerance=1e-8)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "float64"])
def test_labels_of_any_type_and_shape(shape, dtype):
    scores = np.random.default_rng(0).standard_normal((3, 4))
    labels = np.array([3, 0, 1])
    assert loss_net(scores, labels.reshape(shape).astype(dtype)).forward() == loss_net(scores, labels).forward()


def test_spatial_labels_may_lack_the_axis():
    scores = np.random.default_rng(0).standard_normal((2, 3, 2, 2))
    labels = np.arange(8).reshape(2, 1, 2, 2) % 3
    assert loss_net(scores, labels).forward() == loss_net(scores, labels[:, 0]).forward()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3], "label 3 of record 1"),
        ([-1, 0], "label -1 of record 0"),
        ([0.0, np.nan], "label nan of record 1"),
        ([0.5, 1.0], "label 0.5 of record 0"),
        ([0.0, np.inf], "label inf of record 1"),
    ],
)
def test_bad_labels_name_the_record(labels, message):
    with pytest.raises(DataError, match=f"loss: {message} of the batch is not a whole number from 0 to 2"):
        loss_net(np.zeros((2, 3)), labels).forward()


def test_bad_labels_of_images_name_the_record():
    labels = np.zeros((2, 1, 2, 2), int)
    labels[1, 0, 0, 1] = 5
    with pytest.raises(DataError, match="loss: label 5 of record 1 of the batch"):
        loss_net(np.zeros((2, 3, 2, 2)), labels).forward()


def test_a_bad_label_in_a_row_that_does_not_count_is_no_error():
    net = loss_net(np.zeros((2, 3)), [0, 9])
    for name in ("x", "label"):
        net.write(name, {"x": np.zeros((1, 3)), "label": [1]}[name])
    assert_close(net.forward(), math.log(3))


@pytest.mark.parametrize("shape", [(2,), (3, 2), (3, 4), (3, 1, 1)])
def test_labels_of_another_shape(shape):
    with pytest.raises(ConfigError, match=r"loss: labels have the shape .*, but \(3, 1\) is needed"):
        loss_net(np.zeros((3, 4)), np.zeros(shape))


def test_a_certain_miss_has_a_finite_loss():
    net = loss_net([[1e4, -1e4]], [1])
    assert 600 < net.forward() < math.inf
    net.backward()
    assert_close(net.gradient("x"), [[1, -1]])


def test_against_torch():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(1)
    scores, labels = random.standard_normal((3, 5, 2, 4)), random.integers(0, 5, (3, 1, 2, 4))
    net = loss_net(scores, labels, weight=2.0)
    x = torch.tensor(scores, requires_grad=True)
    loss = 2 * torch.nn.functional.cross_entropy(x, torch.tensor(labels[:, 0]))
    assert_close(net.forward(), loss.item())
    net.backward()
    loss.backward()
    assert_close(net.gradient("x"), x.grad.numpy())


def test_losses_add_up():
    scores, labels = np.random.default_rng(0).standard_normal((3, 4)), np.array([3, 0, 1])
    layers = [
        InputLayer(name="in", tops=["x"], shape=4, batch_size=3),
        InputLayer(name="labels", tops=["label"], batch_size=3, dtype="int64"),
        SoftmaxLossLayer(name="one", bottoms=["x", "label"]),
        SoftmaxLossLayer(name="half", bottoms=["x", "label"], weight=0.5),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64", input_gradients=["x"], insert_splits=True)
    net.write("x", scores)
    net.write("label", labels)
    alone = loss_net(scores, labels)
    assert_close(net.forward(), 1.5 * alone.forward())
    net.backward()
    alone.backward()
    assert_close(net.gradient("x"), 1.5 * alone.gradient("x"))
