"""ClassSoftmaxLoss: the cross-entropy of labels in classes."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import NORMALIZE, WEIGHT, divisor, loss_and_gradients
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.class_softmax_loss import ClassSoftmaxLossLayer, class_starts
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer


def classes_of(layer):
    """Return for each label the labels of its class, and the number of the class."""
    starts = layer.first_labels()
    ends = [*starts[1:], layer.n_label]
    members = [range(first, last) for first, last in zip(starts, ends, strict=True)]
    return [(number, one) for number, one in enumerate(members) for _ in one]


def probability(scores, place, among):
    return math.exp(scores[place]) / sum(math.exp(scores[other]) for other in among)


class TestClassSoftmaxLoss(Agreement):
    layer = ClassSoftmaxLossLayer

    def examples(self):
        yield Example({"n_label": 5, "n_class": 2}, [(4, 3), np.array([0, 4, 1, 4])])
        text = np.array([[0, 8, 8], [2, -1, 5]])
        fields = {"n_label": 9, "starts": [0, 1, 4], "ignore_label": -1, "weight": 0.3, "normalize": "batch"}
        yield Example({**fields, "bias": False}, [(2, 3, 4), text], wanted=[0], label="text, no bias")
        yield Example(
            {"n_label": 3, "n_class": 1}, [(2, 2, 2, 3), np.ones((2, 2, 2, 1))], wanted=[0], label="one class"
        )
        yield Example({"n_label": 4, "n_class": 4}, [(3, 2), np.array([1, 3, 3])], label="a class for each")

    def strategy(self):
        @st.composite
        def build(draw):
            shape = (draw(st.integers(1, 4)), *draw(st.lists(st.integers(1, 3), max_size=2)))
            count = draw(st.integers(1, 8))
            starts = sorted(draw(st.sets(st.integers(1, count - 1)))) if count > 1 else []
            random = np.random.default_rng(draw(st.integers(0, 2**16)))
            labels = random.integers(0, count, shape)
            fields = {"n_label": count, "starts": [0, *starts], "bias": draw(st.booleans())}
            fields |= {"weight": draw(WEIGHT), "normalize": draw(NORMALIZE)}
            if draw(st.booleans()):
                fields["ignore_label"] = 77
                labels[random.random(shape) < 0.3] = 77
            return Example(fields, [(*shape, draw(st.integers(1, 4))), labels], wanted=[0])

        return build()

    def in_torch(self, layer, inputs, parameters):
        import torch

        x, labels = inputs
        rows, labels = x.reshape(-1, x.shape[-1]), labels.reshape(-1).long()
        scores = rows @ parameters["weight"].T + parameters.get("bias", 0)
        class_scores = rows @ parameters["class_weight"].T + parameters.get("class_bias", 0)
        total, count, classes = 0 * (scores.sum() + class_scores.sum()), 0, classes_of(layer)
        for row, label in enumerate(labels.tolist()):
            if label != layer.ignore_label:
                number, members = classes[label]
                total = total + class_scores[row].log_softmax(0)[number]
                total = total + scores[row, members.start : members.stop].log_softmax(0)[label - members.start]
                count += 1
        assert torch.is_tensor(total)
        return -layer.weight / divisor(layer, count, len(labels), len(x)) * total

    def reference(self, layer, inputs, parameters):
        x, labels = inputs[0].reshape(-1, inputs[0].shape[-1]), inputs[1].reshape(-1).astype(int)
        scores = x @ parameters["weight"].T + parameters.get("bias", 0)
        class_scores = x @ parameters["class_weight"].T + parameters.get("class_bias", 0)
        classes, logs = classes_of(layer), []
        for row, label in enumerate(labels):
            if label != layer.ignore_label:
                number, members = classes[label]
                likely = probability(class_scores[row], number, range(class_scores.shape[1]))
                logs.append(math.log(likely * probability(scores[row], label, members)))
        loss = -layer.weight * sum(logs) / divisor(layer, len(logs), len(labels), len(inputs[0]))
        mean = -sum(logs) / max(len(logs), 1)
        statistics = {"perplexity": math.exp(mean), "bits": mean / math.log(2), "records": float(len(logs))}
        return loss, statistics


def loss_net(x, labels, **fields):
    x, labels = np.asarray(x, float), np.asarray(labels)
    dtype = "" if labels.dtype.kind == "f" else str(labels.dtype)
    layers = [
        InputLayer(tops="x", shape=x.shape[1:], batch_size=len(x)),
        InputLayer(tops="label", shape=labels.shape[1:], batch_size=len(labels), dtype=dtype),
        ClassSoftmaxLossLayer(name="loss", bottoms=["x", "label"], **fields),
    ]
    net = Net("n", layers, backend="numpy", dtype="float64", input_gradients=["x"])
    net.write("x", x)
    net.write("label", labels)
    return net


def test_probabilities_of_all_labels_add_up_to_1():
    x = np.random.default_rng(0).standard_normal((1, 3))
    total = 0.0
    for label in range(7):
        net = loss_net(x, [label], n_label=7, n_class=3)
        total += math.exp(-net.forward())
    assert_close(total, 1.0, tolerance=1e-12)


def test_one_class_is_a_softmax():
    random = np.random.default_rng(1)
    x, labels = random.standard_normal((5, 3)), np.array([0, 3, 3, 1, 2])
    net = loss_net(x, labels, n_label=4, n_class=1)
    weight, bias = (net.parameters[f"loss/{name}"].value for name in ("weight", "bias"))
    loss, gradient, _ = loss_and_gradients(SoftmaxLossLayer, x @ weight.T + bias, labels)
    assert_close(net.forward(), loss, tolerance=1e-12)
    net.backward()
    assert_close(net.gradient("x"), gradient @ weight, tolerance=1e-12)


def test_labels_whose_class_is_not_in_the_batch_have_no_gradient():
    """Also after a batch that had them."""
    x = np.ones((2, 3))
    net = loss_net(x, [0, 5], n_label=6, starts=[0, 2, 4])
    for labels, without in (([0, 5], [2, 3]), ([3, 3], [0, 1, 4, 5])):
        net.write("x", x)
        net.write("label", labels)
        net.forward()
        net.backward()
        for name in ("weight", "bias"):
            gradient = np.asarray(net.parameters[f"loss/{name}"].gradient).reshape(6, -1)
            assert not gradient[without].any() and gradient[np.setdiff1d(range(6), without)].all()


def test_rows_that_do_not_count():
    net = loss_net(np.ones((3, 2)), [0, 1, 9], n_label=4, n_class=2)
    net.write("x", np.ones((2, 2)))
    net.write("label", [0, 1])
    net.forward()
    net.backward()
    assert net.statistics()["loss"]["records"] == 2
    assert net.gradient("x")[:2].any(1).all() and not net.gradient("x")[2].any()


def test_nothing_but_ignored_labels():
    net = loss_net(np.ones((2, 2)), [-1, -1], n_label=4, ignore_label=-1)
    assert net.forward() == 0
    net.backward()
    assert not net.gradient("x").any()
    assert not any(np.asarray(one.gradient).any() for one in net.parameters.values())


@pytest.mark.parametrize(("label", "told"), [(4, "4"), (-1, "-1"), (0.5, "0.5"), (np.nan, "nan")])
def test_a_label_out_of_range(label, told):
    net = loss_net(np.ones((2, 3, 2)), np.array([[0, 1, 2], [3, label, 0]]), n_label=4)
    with pytest.raises(DataError, match=rf"loss: label {told} of record 1 .*from 0 to 3\n.*n_label"):
        net.forward()


# Classes


def test_classes_are_about_as_frequent():
    assert class_starts([4, 2, 2, 2, 1, 1, 1, 1, 1, 1], 4) == (0, 2, 4, 7)
    assert class_starts([1] * 6, 3) == (0, 3, 5)
    assert class_starts([97, 1, 1, 1], 3) == (0, 1, 2)  # a frequent word is a class
    assert class_starts([5, 4], 1) == (0,)
    for counts in ([], [0, 0], [3, -1, 2], [1, float("nan")], [float("inf")]):
        with pytest.raises(ConfigError, match="class_starts: counts must be numbers from 0 on"):
            class_starts(counts, 2)


def test_classes_by_zipfs_law():
    layer = ClassSoftmaxLossLayer(bottoms=["x", "label"], n_label=10_000)
    starts = layer.first_labels()
    assert 90 < len(starts) <= 100
    mass = np.add.reduceat(1 / np.arange(1, 10_001), starts) / np.sum(1 / np.arange(1, 10_001))
    widths = np.diff([*starts, 10_000])
    assert (widths[:20] == 1).all() and (np.abs(mass[60:] - 0.01) < 0.005).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"starts": [1, 2]}, r"starts=\[1, 2\], but it must begin with 0, and rise, below n_label=5"),
        ({"starts": [0, 2, 2]}, r"starts=\[0, 2, 2\]"),
        ({"starts": [0, 5]}, r"starts=\[0, 5\]"),
        ({"starts": [0, 2], "n_class": 2}, "n_class and starts are both given"),
        ({"n_class": 6}, "n_class=6, but there are only 5 labels"),
        ({"n_class": 0}, "n_class=0, but it must be above 0"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=f"loss: .*{message}|loss: {message}"):
        loss_net(np.ones((2, 3)), [0, 1], **{"n_label": 5, **fields})


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 3)])
def test_labels_of_another_shape(shape):
    with pytest.raises(
        ConfigError, match=r"loss: labels have the shape .*, but \(2,\) is needed for features \(2, 3\)"
    ):
        loss_net(np.ones((2, 3)), np.zeros(shape), n_label=5)
