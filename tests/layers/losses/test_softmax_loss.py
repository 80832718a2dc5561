"""SoftmaxLoss: cross-entropy of softmax probabilities and labels."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import NORMALIZE, WEIGHT, class_weights, loss_and_gradients, places, scores_and_labels
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer


class TestSoftmaxLoss(Agreement):
    layer = SoftmaxLossLayer

    def examples(self):
        yield Example({}, [(4, 3), np.array([0, 2, 1, 2])])
        yield Example({"weight": 0.3}, [(4, 3), np.array([[0.0], [2], [1], [2]])], wanted=[0], label="floating labels")
        spatial = np.arange(2 * 2 * 3).reshape(2, 1, 2, 3) % 4
        yield Example({}, [(2, 4, 2, 3), spatial.astype("uint8")], label="images")
        last = np.array([[0, 1], [2, 255], [3, 0]], "int32")
        yield Example(
            {"axis": -1, "ignore_label": 255, "weights": [1, 2, 0, 1]}, [(3, 2, 4), last], label="last axis, options"
        )

    def strategy(self):
        return scores_and_labels(weighted=True, weight=WEIGHT, normalize=NORMALIZE)

    def in_torch(self, layer, inputs, parameters):
        import torch

        x, labels = inputs
        rows, used, divisor = places(layer, x.detach().numpy(), labels.numpy())
        log = x.movedim(layer.axis, -1).reshape(rows.shape).log_softmax(-1)
        weights = torch.tensor(class_weights(layer, tuple(x.shape)))
        parts = [weights[place, label] * log[place, label] for place, label in used]
        return -layer.weight / divisor * (sum(parts) + 0 * x.sum())

    def reference(self, layer, inputs, parameters):
        rows, used, divisor = places(layer, *inputs)
        weights = class_weights(layer, inputs[0].shape)
        losses = [
            -weights[place][label] * math.log(math.exp(rows[place][label]) / sum(math.exp(one) for one in rows[place]))
            for place, label in used
        ]
        return layer.weight * sum(losses) / divisor


class TestLabelSmoothing(Agreement):
    layer = SoftmaxLossLayer

    def examples(self):
        smooth = {"label_smoothing": 0.1}
        yield Example(smooth, [(4, 3), np.array([0, 2, 1, 2])])
        last = np.array([[0, 1], [2, 255], [3, 0]], "int32")
        options = {"axis": -1, "ignore_label": 255, "weights": [1, 2, 0, 1], "weight": 0.3}
        yield Example({"label_smoothing": 0.4, **options}, [(3, 2, 4), last], label="last axis, options")
        yield Example(smooth, [(3, 4), np.array([1.0, 0, 3])], wanted=[0], label="floating labels")

    def strategy(self):
        smoothing = st.sampled_from([0.05, 0.3, 0.9])
        return scores_and_labels(weighted=True, weight=WEIGHT, normalize=NORMALIZE, label_smoothing=smoothing)

    def in_torch(self, layer, inputs, parameters):
        import torch

        x, labels = inputs
        rows, used, divisor = places(layer, x.detach().numpy(), labels.numpy())
        log = x.movedim(layer.axis, -1).reshape(rows.shape).log_softmax(-1)
        weights = torch.tensor(class_weights(layer, tuple(x.shape)))
        parts = []
        for place, label in used:
            target = torch.full_like(log[place], layer.label_smoothing / rows.shape[1])
            target[label] += 1 - layer.label_smoothing
            parts.append((target * weights[place] * log[place]).sum())
        return -layer.weight / divisor * (sum(parts) + 0 * x.sum())

    def reference(self, layer, inputs, parameters):
        rows, used, divisor = places(layer, *inputs)
        weights, total = class_weights(layer, inputs[0].shape), 0.0
        for place, label in used:
            sums = math.log(sum(math.exp(one) for one in rows[place]))
            for index, score in enumerate(rows[place]):
                share = layer.label_smoothing / len(rows[place]) + (1 - layer.label_smoothing) * (index == label)
                total -= weights[place][index] * share * (score - sums)
        return layer.weight * total / divisor


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
        ([0.0, 1e30], r"label 1e\+30 of record 1"),
        ([0, 12345678], "label 12345678 of record 1"),
        ([0, -(2**62) - 1], "label -4611686018427387905 of record 1"),
    ],
)
def test_bad_labels_name_the_record(labels, message):
    with pytest.raises(DataError, match=f"loss: {message} .*from 0 to 2"):
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


def test_one_hot_labels_are_told_where_to_go():
    with pytest.raises(ConfigError, match=r"\(3, 1\) .*\n.*SoftlabelSoftmaxLoss"):
        loss_net(np.zeros((3, 4)), np.zeros((3, 4)))


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


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 3.0, 1.5]])
def test_label_smoothing_against_torch(weights):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(1)
    scores, labels = random.standard_normal((3, 5, 2)), random.integers(0, 5, (3, 2))
    x = torch.tensor(scores, requires_grad=True)
    fields = {"weight": None if weights is None else torch.tensor(weights, dtype=torch.float64), "ignore_index": 2}
    loss = torch.nn.functional.cross_entropy(x, torch.tensor(labels), **fields, label_smoothing=0.2, reduction="sum")
    net = loss_net(
        scores,
        labels,
        label_smoothing=0.2,
        ignore_label=2,
        normalize="none",
        weights=weights or [],
        normalize_weights="no",
    )
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


def test_golden_numbers_with_weights():
    fields = {"weights": [1, 2, 3], "normalize_weights": "local"}
    loss, gradient, _ = loss_and_gradients(SoftmaxLossLayer, np.array([[1.0, 2, 3]]), np.array([2]), **fields)
    assert_close(loss, 0.611408947, tolerance=1e-9)
    assert_close(gradient, [[0.13504586, 0.36709271, -0.50213857]], tolerance=1e-8)


@pytest.mark.parametrize("how", ["local", "global", "no"])
@pytest.mark.parametrize("shape", [(3,), (3, 2, 2), (2, 3, 2, 2)])
def test_equal_weights_are_none_unless_taken_as_they_are(how, shape):
    scores, labels = np.random.default_rng(0).standard_normal((2, 3, 2, 2)), np.arange(8).reshape(2, 2, 2) % 3
    plain = loss_and_gradients(SoftmaxLossLayer, scores, labels)
    weighted = loss_and_gradients(SoftmaxLossLayer, scores, labels, weights=np.full(shape, 5.0), normalize_weights=how)
    factor = 5 if how == "no" else 1
    assert_close(weighted[0], factor * plain[0])
    assert_close(weighted[1], factor * plain[1])


def test_against_torch_with_weights_and_ignored_labels():
    """PyTorch divides by the weights of the labels, so its sum is compared."""
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(2)
    scores, labels = random.standard_normal((4, 5, 3)), random.integers(0, 5, (4, 3))
    weights = random.uniform(0.5, 2, 5)
    x = torch.tensor(scores, requires_grad=True)
    fields = {"weight": torch.tensor(weights), "ignore_index": 2, "reduction": "sum"}
    expected = torch.nn.functional.cross_entropy(x, torch.tensor(labels), **fields)
    expected.backward()
    fields = {"weights": weights, "normalize_weights": "no", "ignore_label": 2, "normalize": "none"}
    loss, gradient, _ = loss_and_gradients(SoftmaxLossLayer, scores, labels, **fields)
    assert_close(loss, expected.item())
    assert_close(gradient, x.grad.numpy())


@pytest.mark.parametrize(("normalize", "divisor"), [("valid", 5), ("full", 8), ("batch", 2), ("none", 1)])
def test_what_the_sum_is_divided_by(normalize, divisor):
    scores, labels = np.zeros((2, 4, 2, 2)), np.array([0, 1, 255, 3, 255, 255, 1, 2]).reshape(2, 2, 2)
    fields = {"normalize": normalize, "ignore_label": 255}
    loss, gradient, _ = loss_and_gradients(SoftmaxLossLayer, scores, labels, **fields)
    assert_close(loss, 5 * math.log(4) / divisor)
    assert_close(gradient[0, :, 0, 0], np.array([-0.75, 0.25, 0.25, 0.25]) / divisor)
    assert not gradient[0, :, 1, 0].any(), "an ignored label has no gradient"


def test_a_batch_of_ignored_labels_has_no_loss():
    loss, gradient, _ = loss_and_gradients(SoftmaxLossLayer, (2, 3), np.array([-1, -1]), ignore_label=-1)
    assert loss == 0
    assert not gradient.any()


def test_a_label_that_is_not_quite_the_ignored_one_is_told():
    with pytest.raises(DataError, match=r"tested: label 255 of record 1"):
        loss_and_gradients(SoftmaxLossLayer, (2, 3), np.array([-1, 255]), ignore_label=-1)


def test_labels_have_a_gradient_of_zero():
    _, _, gradient = loss_and_gradients(SoftmaxLossLayer, (2, 3), np.array([1.0, 2.0]))
    assert_close(gradient, np.zeros(2))


def test_the_loss_of_many_labels_is_accurate_in_float32():
    """Mocha's kernels add up losses in float32, one by one, so that the sum drowns its own terms."""
    scores, labels = np.zeros((1, 2, 1 << 20)), np.zeros((1, 1 << 20), int)
    scores[0, 0] = np.random.default_rng(0).uniform(-2, 2, 1 << 20)
    scores = scores.astype(np.float32)
    coarse, _, _ = loss_and_gradients(SoftmaxLossLayer, scores, labels, dtype="float32")
    exact = np.log1p(np.exp(-scores[0, 0].astype(float))).mean()
    assert abs(coarse - exact) < 1e-6 * exact


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": [1, -2, 3]}, r"loss: weights=\(1.0, -2.0, 3.0\), but every number must be 0 or more"),
        ({"weights": ["a"]}, "weights=.*, but it must be a list of finite numbers"),
        ({"weights": 3.0}, "weights=3.0, but it must be a list of finite numbers"),
        ({"weights": [[1, 2], [3]]}, "weights=.*, but it must be a list of finite numbers"),
        ({"weights": [1, math.nan]}, "weights=.*, but it must be a list of finite numbers"),
        ({"weights": [[]]}, "weights=.*, but it must be a list of finite numbers"),
        ({"normalize_weights": "some"}, "normalize_weights='some', but it must be one of 'local', 'global', 'no'"),
        ({"label_smoothing": 1}, r"label_smoothing=1\.0, but it must be 0 or more, and below 1"),
        ({"normalize": "some"}, "normalize='some', but it must be one of 'valid', 'full', 'batch', 'none'"),
        ({"ignore_label": 1.5}, "ignore_label=1.5, but it must be a whole number"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        SoftmaxLossLayer(name="loss", bottoms=["x", "label"], **fields)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"weights have the shape \(2,\), but \(3,\) or \(3, 2\) or \(4, 3, 2\) is needed for scores"),
        ([0, 0, 0], r"weights add up to 0 over axes \(1,\), so normalize_weights='local' cannot scale them"),
    ],
)
def test_weights_that_do_not_fit(weights, message):
    with pytest.raises(ConfigError, match=f"loss: {message}"):
        loss_net(np.zeros((4, 3, 2)), np.zeros((4, 2), int), weights=weights)
