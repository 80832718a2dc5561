"""BinaryCrossEntropyLoss of probabilities, SigmoidCrossEntropyLoss of scores."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from losses import NORMALIZE, WEIGHT, divisor, loss_and_gradients, pairs
from nacre import ConfigError, DataError
from nacre.testing.close import assert_close
from nacre.testing.trial import Example
from nacre_layers.losses.binary_cross_entropy_loss import BinaryCrossEntropyLossLayer
from nacre_layers.losses.sigmoid_cross_entropy_loss import SigmoidCrossEntropyLossLayer


def cross_entropy(p, t):
    return -t * math.log(p) - (1 - t) * math.log(1 - p)


class TestBinaryCrossEntropyLoss(Agreement):
    layer = BinaryCrossEntropyLossLayer

    def examples(self):
        random = np.random.default_rng(0)
        yield Example({"weight": 0.3}, [random.uniform(0.1, 0.9, (4, 3)), random.uniform(0, 1, (4, 3))])
        yield Example({}, [random.uniform(0.1, 0.9, (3, 1)), np.array([1, 0, 1])], label="whole numbers")

    def strategy(self):
        def make(random, shape):
            targets = random.uniform(0, 1, shape)
            return [random.uniform(0.02, 0.98, shape), np.where(random.random(shape) < 0.5, targets.round(), targets)]

        return pairs(make, weight=WEIGHT)

    def in_torch(self, layer, inputs, parameters):
        p, t = inputs  # torch's own forbids targets beyond 0 and 1
        return -layer.weight / len(p) * (t * p.log() + (1 - t) * (1 - p).log()).sum()

    def reference(self, layer, inputs, parameters):
        pairs = zip(inputs[0].reshape(-1), inputs[1].reshape(-1), strict=True)
        return layer.weight / len(inputs[0]) * sum(cross_entropy(p, t) for p, t in pairs)


def test_golden_number():
    assert_close(
        loss_and_gradients(BinaryCrossEntropyLossLayer, np.array([[0.8]]), np.array([[1]]))[0],
        0.223143551,
        tolerance=1e-9,
    )


def test_against_torch():
    torch = pytest.importorskip("torch")
    p, t = np.random.default_rng(3).uniform(0.01, 0.99, (2, 5, 3))
    tensor = torch.tensor(p, requires_grad=True)
    expected = torch.nn.functional.binary_cross_entropy(tensor, torch.tensor(t), reduction="sum") / 5
    expected.backward()
    loss, gradient, _ = loss_and_gradients(BinaryCrossEntropyLossLayer, p, t)
    assert_close(loss, expected.item())
    assert_close(gradient, tensor.grad.numpy())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_certain_predictions_have_a_finite_loss_and_the_right_gradient(dtype):
    p, t = np.array([[0.0], [1], [0], [1]]), np.array([[0.0], [1], [1], [0]])
    loss, gradient, of_target = loss_and_gradients(BinaryCrossEntropyLossLayer, p, t, dtype=dtype)
    floor = -math.log(1e-20)
    assert_close(loss, 2 * floor / 4, tolerance=1e-6)
    assert_close(gradient[:2], [[0.25], [-0.25]], tolerance=1e-6)  # hits: a slope of 1, not of 0 / 0
    assert_close(gradient[2:] / 1e20, [[-0.25], [0.25]], tolerance=1e-6)
    assert_close(of_target, np.array([[1], [-1], [1], [-1]]) * floor / 4, tolerance=1e-6)


def test_the_target_may_have_a_gradient_and_the_prediction_none():
    """Mocha's gradient of the target fails where that of the prediction is not wanted."""
    _, _, alone = loss_and_gradients(BinaryCrossEntropyLossLayer, np.array([[1], [0]]), np.array([[0.2], [0.3]]))
    floor = -math.log(1e-20)
    assert_close(alone, [[-floor / 2], [floor / 2]])


@pytest.mark.parametrize("length", [1, 127, 128, 129, 300])
def test_any_length_writes_its_own_gradient_and_no_more(length):
    """Mocha's kernel writes behind the end where the length is no multiple of 128."""
    p, t = np.random.default_rng(length).uniform(0.1, 0.9, (2, 3, length))
    loss, gradient, of_target = loss_and_gradients(BinaryCrossEntropyLossLayer, p, t, rows=2)
    p, t = p[:2], t[:2]
    assert_close(loss, -(t * np.log(p) + (1 - t) * np.log(1 - p)).sum() / 2)
    assert_close(gradient[:2], (p - t) / (p * (1 - p)) / 2)
    assert_close(of_target[:2], np.log((1 - p) / p) / 2)
    assert not gradient[2].any()
    assert not of_target[2].any()


@pytest.mark.parametrize("layer", [BinaryCrossEntropyLossLayer, SigmoidCrossEntropyLossLayer])
def test_bad_fields(layer):
    with pytest.raises(ConfigError, match=r"bottoms=\('x',\), but 2 or 3 must be given"):
        layer(bottoms=["x"])
    with pytest.raises(ConfigError, match=r"tested: .*'bottom1' .*\(3, 5\) .*'bottom0'"):
        loss_and_gradients(layer, (3, 4), (3, 5))


class TestSigmoidCrossEntropyLoss(Agreement):
    layer = SigmoidCrossEntropyLossLayer

    def examples(self):
        targets = np.array([[1, 0, 255], [0, 1, 1], [255, 0, 0]], "uint8")
        yield Example({"weight": 0.3}, [(4, 3), np.random.default_rng(0).uniform(0, 1, (4, 3))])
        yield Example({"ignore_label": 255, "normalize": "valid"}, [(3, 3), targets], label="some are ignored")

    def strategy(self):
        def make(random, shape):
            targets = random.uniform(0, 1, shape)
            return [shape, np.where(random.random(shape) < 0.5, targets.round(), targets)]

        def ignoring(random, shape):
            targets = random.integers(0, 2, shape)
            targets[random.random(shape) < 0.3] = -1
            return [shape, targets]

        return pairs(make, weight=WEIGHT, normalize=NORMALIZE) | pairs(
            ignoring, weight=WEIGHT, normalize=NORMALIZE, ignore_label=st.sampled_from([-1])
        )

    def in_torch(self, layer, inputs, parameters):
        from torch.nn.functional import binary_cross_entropy_with_logits

        x, t = inputs[0], inputs[1].double()
        used = t != (1e9 if layer.ignore_label is None else layer.ignore_label)
        total = (binary_cross_entropy_with_logits(x, t, reduction="none") * used).sum()
        return layer.weight * total / divisor(layer, int(used.sum()), t.numel(), len(t))

    def reference(self, layer, inputs, parameters):
        pairs = zip(inputs[0].reshape(-1), inputs[1].reshape(-1).tolist(), strict=True)
        pairs = [(x, t) for x, t in pairs if t != layer.ignore_label]
        total = sum(cross_entropy(1 / (1 + math.exp(-x)), t) for x, t in pairs)
        return layer.weight * total / divisor(layer, len(pairs), inputs[1].size, len(inputs[1]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scores_far_from_zero_do_not_overflow(dtype):
    x, t = np.array([[1e4, -1e4, 1e4, -1e4]]), np.array([[1.0, 0, 0, 1]])
    loss, gradient, _ = loss_and_gradients(SigmoidCrossEntropyLossLayer, x, t, dtype=dtype)
    assert loss == 2e4
    assert_close(gradient, [[0, 0, 1, -1]])


def test_defaults():
    layer = SigmoidCrossEntropyLossLayer(bottoms=["x", "t"])
    assert (layer.weight, layer.normalize, layer.ignore_label) == (1.0, "batch", None)


@pytest.mark.parametrize("number", [-0.5, 1.5])
def test_what_is_no_probability_is_refused(number):
    scores = np.array([[0.5, number], [0.1, 0.2]])
    with pytest.raises(DataError, match=rf"tested: bottom 'bottom0' holds {number}") as caught:
        loss_and_gradients(BinaryCrossEntropyLossLayer, scores, np.ones((2, 2)))
    assert "SigmoidCrossEntropyLoss" in caught.value.remedy
