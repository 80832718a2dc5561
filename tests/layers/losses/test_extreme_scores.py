"""Losses of scores that are far apart, or infinite: on every backend what float64 and PyTorch give, and no plateau."""

import math

import numpy as np
import pytest

from nacre.testing.trial import Example, Trial, backends, layer_of, offered_kernels
from nacre_layers.losses.binary_cross_entropy_loss import BinaryCrossEntropyLossLayer
from nacre_layers.losses.infogain_loss import InfogainLossLayer
from nacre_layers.losses.sigmoid_cross_entropy_loss import SigmoidCrossEntropyLossLayer
from nacre_layers.losses.softlabel_softmax_loss import SoftlabelSoftmaxLossLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer

TYPES = [(backend, dtype) for backend in backends() for dtype in ("float64", "float32")]
everywhere = pytest.mark.parametrize(("backend", "dtype"), TYPES)
FAR = [[0, 1000], [1000, 0], [3e4, -3e4], [1e30, -1e30], [-88, 88], [-1e-3, 1e-3], [1e4, 1e4 - 1]]
INFINITE = [[0, -np.inf], [-np.inf, 2], [-np.inf, -1e30]]
ROWS = np.array(FAR + INFINITE)
LABELS = [0] * len(FAR) + [0, 1, 0]


def check(layer, backend, dtype, inputs, expected, slopes, **fields):
    """Check the loss and the gradient of the first bottom: by the layer's own state, and by every kernel."""
    example = Example(fields, list(inputs), wanted=[0])
    for kernel in (None, *offered_kernels(layer, "layer", backend)):
        make = lambda one: layer_of(layer, one)  # noqa: E731
        trial = Trial(make, example, backend=backend, dtype=dtype, kernel=kernel)
        with np.errstate(all="ignore"):
            loss, gradient = trial.forward(), trial.gradients()["input 0"]
        trial.shutdown()
        np.testing.assert_allclose(loss, expected, rtol=1e-6, atol=1e-37)
        if slopes is not None:
            np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-37)


def rounded(x, dtype):
    """Return numbers as a type has them, in float64."""
    return np.asarray(x).astype(dtype).astype(float)


def log_softmax(x):
    """In float64; exact also where an exponential is 0."""
    top = x.max(axis=1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(axis=1, keepdims=True))


@everywhere
@pytest.mark.parametrize("row", range(len(ROWS)))
def test_softmax_loss(backend, dtype, row):
    x, label = rounded(ROWS[[row, row]], dtype), np.array([LABELS[row], 1 - LABELS[row]])
    log = log_softmax(x)
    for picked in ([0], [1], [0, 1]):
        slope = np.exp(log[picked])
        slope[range(len(picked)), label[picked]] = np.expm1(log[picked, label[picked]])
        loss = -log[picked, label[picked]].mean()
        check(SoftmaxLossLayer, backend, dtype, [x[picked], label[picked]], loss, slope / len(picked))


@everywhere
@pytest.mark.parametrize("apart", [80.0, 90.0, 700.0, 710.0, 1e6])
def test_a_diverging_training_shows_in_its_loss(backend, dtype, apart):
    """Beyond -log of the smallest number of a type, which is 87.34 in float32 and 708.4 in float64."""
    check(SoftmaxLossLayer, backend, dtype, [np.array([[0, apart]]), np.array([0])], apart, None)


@everywhere
def test_against_torch(backend, dtype):
    torch = pytest.importorskip("torch")
    inf, nan = np.inf, np.nan
    for row in [*ROWS.tolist(), [inf, 0], [inf, inf], [-inf, -inf], [inf, -inf], [nan, 0]]:
        for label in (0, 1):
            x = torch.tensor(rounded([row], dtype), requires_grad=True)
            loss = torch.nn.functional.cross_entropy(x, torch.tensor([label]))
            loss.backward()
            inputs = [np.array([row]), np.array([label])]
            check(SoftmaxLossLayer, backend, dtype, inputs, loss.item(), x.grad.numpy())


@everywhere
def test_what_is_ignored_counts_nothing_whatever_its_scores(backend, dtype):
    x = np.array([[0, 1000.0], [-np.inf, -np.inf], [np.nan, 1], [-np.inf, 0]])
    cases = [
        ({"ignore_label": 255}, [0, 255, 255, 255], 1),
        ({"ignore_label": 255, "normalize": "full"}, [0, 255, 255, 255], 4),
        ({"weights": [1, 0], "normalize_weights": "no"}, [0, 1, 1, 1], 4),
    ]
    slopes = np.array([[-1, 1], [0, 0], [0, 0], [0, 0]])
    for fields, labels, divisor in cases:
        inputs = [x, np.array(labels)]
        check(SoftmaxLossLayer, backend, dtype, inputs, 1000 / divisor, slopes / divisor, **fields)


@everywhere
def test_weights_of_classes(backend, dtype):
    inputs = [np.array([[0, 1000.0], [0, 1000]]), np.array([0, 1])]
    fields = {"weights": [2, 0.5], "normalize_weights": "no", "normalize": "none"}
    check(SoftmaxLossLayer, backend, dtype, inputs, 2000.0, [[-2, 2], [0, 0]], **fields)


@everywhere
def test_distributions_and_matrices(backend, dtype):
    """A class of probability 0 may be impossible: 0 log 0 is 0."""
    x = np.array([[0, 1000.0], [-np.inf, 3]])
    inputs = [x, np.array([[0.25, 0.75], [0, 1]])]
    check(SoftlabelSoftmaxLossLayer, backend, dtype, inputs, 125.0, [[-0.125, 0.125], [0, 0]])
    inputs, slopes = [x, np.array([0, 1])], [[-0.5, 0.5], [0, 0]]
    check(InfogainLossLayer, backend, dtype, inputs, 500.0, slopes, matrix=[[1, 0], [0, 1]])


@everywhere
@pytest.mark.parametrize("target", [0.0, 0.25, 1.0])
def test_sigmoid_cross_entropy(backend, dtype, target):
    for x in rounded([-1e30, -1000, -88, -20, -1e-3, 1e-3, 20, 88, 1000, 1e30], dtype):
        loss = (1 - target) * max(x, 0) + target * max(-x, 0) + math.log1p(math.exp(-abs(x)))
        share = 1 / (1 + math.exp(-x)) if x > -700 else 0.0
        slopes = [[share - target]] if target < 1 or x < 0 else None  # else there are few digits left
        check(SigmoidCrossEntropyLossLayer, backend, dtype, [np.array([[x]]), np.array([[target]])], loss, slopes)


@everywhere
def test_ignored_targets_count_nothing_whatever_their_scores(backend, dtype):
    inputs = [np.array([[np.nan, 1000.0], [np.inf, -np.inf]]), np.array([[255, 0.0], [255, 255]])]
    fields = {"ignore_label": 255, "normalize": "valid"}
    check(SigmoidCrossEntropyLossLayer, backend, dtype, inputs, 1000.0, [[0, 1], [0, 0]], **fields)


@everywhere
def test_probabilities_near_zero_and_one(backend, dtype):
    """1 - p is 1 for all p below the last place of 1, but its logarithm is -p."""
    for p in rounded([0.0, 1e-30, 1e-12, 0.3, 0.75, 1 - 2**-20, 1.0], dtype):
        for target in (0.0, 1.0):
            exact = -math.log(max(p, 1e-20)) if target else -math.log1p(-p) if p < 1 else -math.log(1e-20)
            inputs = [np.array([[p]]), np.array([[target]])]
            check(BinaryCrossEntropyLossLayer, backend, dtype, inputs, exact, None)
