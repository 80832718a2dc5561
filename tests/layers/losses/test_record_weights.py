"""The third bottom of losses: a weight for each record."""

from typing import Any

import numpy as np
import pytest

from losses import loss_and_gradients
from nacre import ConfigError, Input, L, Net
from nacre.testing.close import assert_close
from nacre_layers import HingeLossLayer

RANDOM = np.random.default_rng(3)
SCORES, LABELS = RANDOM.normal(size=(5, 4)), np.array([0, 3, 1, 1, 2])
CHANCE = RANDOM.uniform(0.05, 0.95, (5, 2))
WEIGHTS = np.array([1.0, 0.0, 2.5, 0.5, 3.0])
CASES = {
    "SoftmaxLoss": (SCORES, LABELS, {}),
    "SoftmaxLoss of images": (RANDOM.normal(size=(5, 3, 2, 2)), RANDOM.integers(0, 3, (5, 1, 2, 2)), {"weight": 0.5}),
    "SoftmaxLoss of classes with weights": (SCORES, LABELS, {"weights": [1, 2, 3, 4], "normalize_weights": "no"}),
    "SoftmaxLoss with smooth labels": (SCORES, LABELS, {"label_smoothing": 0.2}),
    "SoftmaxLoss of images with smooth labels": (
        RANDOM.normal(size=(5, 3, 2, 2)),
        RANDOM.integers(0, 3, (5, 1, 2, 2)),
        {"label_smoothing": 0.1},
    ),
    "MultinomialLogisticLoss": (CHANCE, LABELS % 2, {"ignore_label": 0}),
    "SquareLoss": (SCORES, RANDOM.normal(size=(5, 4)), {"weight": 0.3}),
    "SigmoidCrossEntropyLoss": (SCORES, RANDOM.uniform(size=(5, 4)), {}),
    "BinaryCrossEntropyLoss": (CHANCE, RANDOM.uniform(size=(5, 2)), {}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", [(5,), (5, 1)])
@pytest.mark.parametrize("rows", [5, 3])
def test_the_loss_is_the_weighted_sum_of_those_of_the_records(name: str, form: tuple[int, ...], rows: int) -> None:
    one, other, fields = CASES[name]
    cls: Any = L[name.partition(" ")[0]]
    fields = {"normalize": "batch", **fields} if "normalize" in {field.name for field in cls.fields()} else fields
    weights = WEIGHTS.reshape(form)
    bottoms = [["a", "b", "w"], ["a", "b"]]
    loss, gradient, *_ = loss_and_gradients(cls, one, other, weights, rows=rows, bottoms=bottoms[0], **fields)
    alone = [
        loss_and_gradients(cls, one[at : at + 1], other[at : at + 1], bottoms=bottoms[1], **fields)
        for at in range(rows)
    ]
    assert_close(loss, sum(weight * found[0] for weight, found in zip(WEIGHTS, alone, strict=False)) / rows)
    if rows == 5:
        assert_close(gradient, np.concatenate([w * found[1] for w, found in zip(WEIGHTS, alone, strict=True)]) / rows)


def test_a_record_of_weight_0_may_hold_anything() -> None:
    scores = np.array([[-np.inf, 0.0], [1.0, 2.0]])
    with np.errstate(invalid="ignore"):
        loss, gradient, *_ = loss_and_gradients(L.SoftmaxLoss, scores, np.array([0, 1]), np.array([0.0, 1.0]))
    assert np.isfinite(loss)
    assert not gradient[0].any()


def test_weights_must_be_one_for_each_record() -> None:
    with pytest.raises(ConfigError, match=r"bottom 'bottom2' of shape \(5, 2\) must have one weight for each of the 5"):
        loss_and_gradients(L.SquareLoss, (5, 3), (5, 3), (5, 2))


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_every_backend_weighs(backend: str) -> None:
    x, label, weight = (
        Input(4, name="x", batch_size=5),
        Input(name="label", batch_size=5),
        Input(name="w", batch_size=5),
    )
    score = L.InnerProduct(output_dim=4, name="score")(x)
    net = Net("net", [L.SoftmaxLoss()(score, label, weight)], backend=backend)
    net.write("x", SCORES)
    net.write("label", LABELS)
    net.write("w", np.ones(5))
    plain = net.forward()
    net.write("w", np.full(5, 3.0))
    assert net.forward() == pytest.approx(3 * plain, rel=1e-5)


def test_which_losses_weigh() -> None:
    weighing = L.SquareLoss(bottoms=["a", "b"], name="loss", weight=2).weighing("w")
    assert weighing is not None
    assert (weighing.name, weighing.bottoms, weighing.weight) == ("loss", ("a", "b", "w"), 2)
    assert HingeLossLayer(bottoms=["a", "b"]).weighing("w") is None
