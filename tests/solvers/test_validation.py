"""ValidationPerformance: every record once, and nothing of the training moves."""

from typing import Any

import numpy as np
import pytest

from nacre import BlobError, ConfigError, DataError, Net, Solver
from nacre_data import MemoryDataLayer, RandomNormalLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_solvers import SGD, DecayOnValidation, EarlyStopping, ValidationPerformance
from resuming import saved
from toy_training import Reports, pulled_net, records, toy_layers, toy_net, weights


def solver(*callbacks: Any, **fields: Any) -> Solver:
    return Solver(SGD(), **{"max_iter": 20, "lr_policy": 0.1, "momentum_policy": 0.9, "callbacks": callbacks, **fields})


def test_every_record_counts_once_and_as_another_net_sees_it() -> None:
    reports = Reports()
    net = toy_net()
    training = solver(ValidationPerformance(every_n_iter=8, phase="test")).solve(net, reports=[reports])
    assert [report["iteration"] for report in reports["validation"]] == [8, 16, 20]
    last = reports["validation"][-1]
    image, label = records(23, seed=1)
    scores = net.predict(image, "ip4")
    shifted = scores - scores.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(23), label]
    accuracy = float((scores.argmax(axis=1) == label).mean())
    assert last["phase"] == "test"
    assert last["loss"] == pytest.approx(losses.mean(), abs=1e-12)
    assert last["statistics"] == {"accuracy": {"accuracy": accuracy, "records": 23.0}}
    assert training.statistics == {"test": last["statistics"]}
    assert training.history["test"]["iteration"].tolist() == [8, 16, 20]


def test_the_training_is_the_same_with_and_without() -> None:
    with_it, without = toy_net(), toy_net()
    solver(ValidationPerformance(every_n_iter=3), ValidationPerformance(every_n_epoch=2, phase="test")).solve(with_it)
    solver().solve(without)
    assert weights(with_it) == weights(without)


def test_the_last_iteration_is_not_validated_twice() -> None:
    reports = Reports()
    solver(ValidationPerformance(every_n_iter=10)).solve(toy_net(), reports=[reports])
    assert [report["iteration"] for report in reports["validation"]] == [10, 20]


def test_after_a_signal_there_is_no_time_for_it() -> None:
    reports = Reports()
    training = solver(ValidationPerformance()).start(toy_net(), [reports])
    training.interrupted, training.stopped = True, "SIGTERM"
    training.run()
    assert reports["validation"] == []


def test_what_was_found_survives_a_restart() -> None:
    callback = ValidationPerformance(every_n_iter=4, best="accuracy/accuracy", higher_better=True)
    training = solver(callback, max_iter=12).solve(toy_net())
    snapshot = saved(training)
    reports = Reports()
    resumed = solver(callback, max_iter=12).solve(toy_net(), resume=snapshot, reports=[reports])
    for name, values in training.history["validation"].items():
        assert resumed.history["validation"][name].tolist() == values.tolist()
    assert resumed.statistics == training.statistics
    assert reports["validation"] == []  # the last iteration was validated then


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"best": "accuracy/accuracy"}, lambda history: history["accuracy/accuracy"]),
        ({"best": "loss", "higher_better": False}, lambda history: history["loss"]),
        ({"best": "loss"}, lambda history: history["loss"]),
    ],
)
def test_the_score(fields: dict[str, Any], value: Any) -> None:
    training = solver(ValidationPerformance(**fields)).solve(toy_net())
    assert training.score is not None
    assert training.score.iteration == 20
    assert training.score.value == value(training.history["validation"])[-1]
    assert training.score.higher_better is (fields["best"] == "accuracy/accuracy")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"phase": "train"}, "it must be one of 'validation', 'test'"),
        ({"best": "accuracy"}, "best='accuracy', "),
        ({"best": "loss", "higher_better": True}, "needs higher_better=False"),
        ({"best": "accuracy/records"}, "best='accuracy/records' needs higher_better"),
        (
            {"best": "acuracy/accuracy", "higher_better": True},
            "no layer 'acuracy' has statistics in phase 'validation' .did you mean",
        ),
        (
            {"best": "accuracy/acuracy", "higher_better": True},
            "has the statistics accuracy, records .did you mean 'accuracy'",
        ),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        solver(ValidationPerformance(**fields), max_iter=2).start(toy_net())


@pytest.mark.parametrize(
    ("net", "fields"), [(toy_net, {"best": "accuracy/acuracy", "higher_better": True}), (pulled_net, {})]
)
def test_after_a_refusal_no_net_is_left_open(net: Any, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made, derive = list[Net](), Net.derive

    def kept(*arguments: Any, **options: Any) -> Net:
        made.append(derive(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(Net, "derive", kept)
    with pytest.raises(ConfigError):
        solver(ValidationPerformance(**fields), max_iter=2).start(net())
    (validated,) = made
    with pytest.raises(BlobError, match="is shut down"):
        validated.blob("data")


@pytest.mark.parametrize("first", [True, False])
def test_who_listens_is_checked_before_anything_is_trained(first: bool) -> None:
    callbacks = [ValidationPerformance(), EarlyStopping(statistic="accuracy/acuracy", higher_better=True)]
    training = solver(*(callbacks if first else callbacks[::-1])).start(toy_net())
    told = "EarlyStopping: statistic='accuracy/acuracy', but layer 'accuracy' has the statistics accuracy, records"
    with pytest.raises(ConfigError, match=told):
        training.run()
    assert training.iteration == 0


def test_records_that_are_not_finite_are_told_once() -> None:
    layers = toy_layers()
    image, label = records(23, seed=1)
    image[[3, 20], 0] = np.nan, np.inf
    layers[1] = MemoryDataLayer(
        name="check", tops=["data", "label"], data=[image, label], batch_size=10, exclude=["train", "predict"]
    )
    reports = Reports()
    net = Net("bad", layers, backend="numpy", dtype="float64")
    with np.errstate(invalid="ignore"):
        solver(ValidationPerformance(every_n_iter=5)).solve(net, reports=[reports])
    (warning,) = [report["message"] for report in reports["warning"]]
    told = "validation: blob 'data' of layer 'check': 2 of 23 records"
    assert warning.startswith(told)


def test_a_net_without_a_source_in_that_phase() -> None:
    net = Net("no check", [layer for layer in toy_layers() if layer.name != "check"], backend="numpy")
    with pytest.raises(ConfigError, match=r"'validation': .*'data' of layer 'train', absent in .*\n  add a source"):
        solver(ValidationPerformance()).solve(net)


def test_a_net_whose_records_have_another_shape() -> None:
    layers = toy_layers()
    image, label = records(23, seed=1)
    layers[1] = MemoryDataLayer(
        name="check", tops=["data", "label"], data=[image[:, :5], label], batch_size=10, exclude=["train", "predict"]
    )
    net = Net("other records", layers, backend="numpy", dtype="float64")
    told = r"'data' .*\(6,\) from layer 'train', but \(5,\) from layer 'check'\n  use"
    with pytest.raises(ConfigError, match=told):
        solver(ValidationPerformance()).solve(net)


def test_a_label_that_is_none_says_whose_batch_it_is_in() -> None:
    layers = toy_layers()
    image, label = records(23, seed=1)
    label[14] = 3
    layers[1] = MemoryDataLayer(
        name="check", tops=["data", "label"], data=[image, label], batch_size=10, exclude=["train", "predict"]
    )
    net = Net("bad label", layers, backend="numpy", dtype="float64")
    with pytest.raises(DataError, match=r"phase 'validation', batch 1 of layer 'check': .* label 3 of record 4 of the"):
        solver(ValidationPerformance()).solve(net)


def test_a_net_that_lacks_a_blob_in_that_phase() -> None:
    layers = [layer for layer in toy_layers() if layer.name != "ip4"]
    layers.insert(-2, InnerProductLayer(bottoms="ip3", tops="ip4", output_dim=3, exclude=["validation"]))
    net = Net("no scores", layers, backend="numpy")
    with pytest.raises(ConfigError, match=r"'validation': .*'ip4'"):
        solver(ValidationPerformance()).solve(net)


def test_a_net_whose_source_has_no_end() -> None:
    with pytest.raises(ConfigError, match="'validation' are endless"):
        solver(ValidationPerformance()).start(pulled_net())


def test_a_resumed_training_validates_with_the_same_noise() -> None:
    """The noise of a validation depended on how many this process had made, and the rate on what it found."""

    def net() -> Net:
        x = np.random.default_rng(0).normal(size=(20, 3))
        return Net(
            "noisy",
            [
                MemoryDataLayer(
                    name="data", tops=["x", "y"], data=[x, x.sum(1, keepdims=True)], batch_size=5, shuffle=True
                ),
                RandomNormalLayer(name="eps", tops=["noise"], batch_size=5, output_dims=3),
                ElementWiseLayer(name="add", bottoms=["x", "noise"], tops="noisy", operation="Add"),
                InnerProductLayer(name="ip", bottoms=["noisy"], tops=["ip"], output_dim=1),
                SquareLossLayer(name="loss", bottoms=["ip", "y"]),
            ],
            backend="numpy",
        )

    def train(max_iter: int, **resume: Any) -> tuple[Any, bytes]:
        policy = DecayOnValidation(base=0.1, gamma=0.7)
        with net() as made:
            validation = ValidationPerformance(every_n_iter=2)
            training = solver(validation, lr_policy=policy, max_iter=max_iter).solve(made, quiet=True, **resume)
            return training, weights(made)

    whole, expected = train(40)
    assert whole.lr < 0.1
    begun, _ = train(16)
    resumed, found = train(40, resume=saved(begun))
    assert (found, resumed.lr) == (expected, whole.lr)
    assert resumed.history["validation"]["loss"].tolist() == whole.history["validation"]["loss"].tolist()
