"""What `training.history` holds, how much at most, and after a restart; and the rate that somebody sets."""

import copy
import json
from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, Solver
from nacre.training import history
from nacre.training.history import Curve, History, Row
from nacre_solvers import SGD, ByEpoch, DecayOnValidation, Step, TrainingSummary, ValidationPerformance
from resuming import saved
from toy_training import Reports, pulled_net, toy_net, weights


def solver(*callbacks: Any, **fields: Any) -> Solver:
    return Solver(SGD(), **{"max_iter": 20, "lr_policy": 0.1, "callbacks": callbacks, **fields})


def columns(training: Any) -> dict[str, dict[str, list[float]]]:
    return {phase: {name: one.tolist() for name, one in some.items()} for phase, some in training.history.items()}


def test_arrays_of_one_length_for_the_training_and_each_phase() -> None:
    reports = Reports()
    callbacks = TrainingSummary(every_n_iter=5), ValidationPerformance(every_n_iter=10)
    training = solver(*callbacks).solve(toy_net(), reports=[reports])
    found = columns(training)
    assert list(found) == ["train", "validation"]
    assert found["train"]["iteration"] == [5, 10, 15, 20]
    assert found["train"]["epoch"] == [1, 2, 3, 4]  # of 47 records, in batches of 10
    assert found["train"]["loss"] == [one["loss"] for one in reports["summary"]]
    assert list(found["validation"]) == ["iteration", "epoch", "loss", "accuracy/accuracy", "accuracy/records"]
    accuracies = [one["statistics"]["accuracy"]["accuracy"] for one in reports["validation"]]
    assert found["validation"]["accuracy/accuracy"] == accuracies
    assert all(isinstance(one, np.ndarray) and len(one) == 2 for one in training.history["validation"].values())


def test_what_it_has_not_is_told_and_it_is_a_plain_dict_otherwise() -> None:
    found = solver().solve(toy_net(), quiet=True).history
    with pytest.raises(KeyError, match=r"the history has no 'test'; it has train\n.*ValidationPerformance"):
        found["test"]
    assert found.get("test") is None and "test" not in found and isinstance(found, dict)
    for one in (found, copy.deepcopy(found)):
        with pytest.raises(
            KeyError, match=r"'train' of the history has no 'los' \(did you mean 'loss'\?\); it has iter"
        ):
            one["train"]["los"]
        assert {**one["train"]}.keys() == {"iteration", "epoch", "loss"}


def test_a_data_frame_takes_it() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(solver().solve(toy_net(), quiet=True).history["train"])
    assert list(frame.columns) == ["iteration", "epoch", "loss"]
    assert len(frame) == 20


def test_solve_summarises_a_hundredth_of_the_iterations_and_each_epoch() -> None:
    assert columns(solver(max_iter=300).solve(toy_net(), quiet=True))["train"]["iteration"] == list(range(3, 301, 3))
    by_epoch = columns(solver(max_iter=None, max_epoch=3).solve(toy_net(), quiet=True))["train"]
    assert (by_epoch["iteration"], by_epoch["epoch"]) == ([5, 10, 15], [1, 2, 3])


def test_a_long_curve_keeps_every_second_row_and_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 8)
    curve = Curve()
    for number in range(1, 1001):
        curve.add(Row(number, 0, float(number), {}))
        assert len(curve.rows) <= 8
        assert curve.rows[-1].iteration == number
    kept = [row.iteration for row in curve.rows]
    assert kept == [128, 256, 384, 512, 640, 768, 896, 1000]


def test_a_long_curve_goes_on_as_it_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 8)
    whole, again = History(), History()
    for number in range(1, 101):
        for one in (whole, again)[: 1 + (number > 37)]:
            one.add("train", number, 0, float(number), {})
        if number == 37:
            again.remember(whole.memory())
    assert again.memory() == whole.memory()


def test_numbers_that_are_not_finite_survive() -> None:
    first, again = History(), History()
    first.add("test", 3, 1, float("nan"), {"auc": {"auc": float("inf")}})
    first.add("test", 6, 2, 0.5, {"other": {"x": 1.0}})
    again.remember(first.memory())
    one, other = first.curves["test"].columns(), again.curves["test"].columns()
    assert {name: values.tolist() for name, values in one.items()}.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name])
    assert np.isnan(one["other/x"][0])


@pytest.mark.parametrize("split", [7, 10])
def test_a_resumed_training_continues_it(split: int) -> None:
    callbacks = TrainingSummary(every_n_iter=5), ValidationPerformance(every_n_iter=5)
    whole = columns(solver(*callbacks).solve(toy_net(), quiet=True))
    first = solver(*callbacks, max_iter=split).solve(toy_net(), quiet=True)
    reports = Reports()
    resumed = columns(solver(*callbacks).solve(toy_net(), resume=saved(first), reports=[reports]))
    for phase, expected in whole.items():
        at = [resumed[phase]["iteration"].index(one) for one in expected["iteration"]]
        for name, values in expected.items():
            found = [resumed[phase][name][one] for one in at]
            if (split, phase, name) == (7, "train", "loss"):  # the row in which it was interrupted: the rest of it
                found[1] = values[1]
            assert found == pytest.approx(values, rel=1e-9)


def test_an_earlier_versions_snapshot_has_its_validations() -> None:
    callback = ValidationPerformance(every_n_iter=10)
    snapshot = saved(solver(callback).solve(toy_net(), quiet=True))
    memory = {name: entry for name, entry in snapshot.state["memory"].items() if name != "history"}
    rows = [(10, 0.5, {"accuracy": {"accuracy": 0.25}})]
    snapshot.state["memory"] = {**memory, "callback.ValidationPerformance": {"history": json.dumps(rows)}}
    reports = Reports()
    training = solver(callback).solve(toy_net(), resume=snapshot, reports=[reports])
    assert columns(training)["validation"]["loss"][0] == 0.5
    assert not any("history" in one["message"] for one in reports["warning"])


# The rate


def test_a_rate_that_is_set_is_used_and_saved() -> None:
    with solver(lr_policy=Step(base=0.2, gamma=0.5, stepsize=2)).start(toy_net()) as training:
        assert training.lr == 0.2
        training.step()
        training.lr = 0.005
        training.step()
        assert training.net.scalars["rate"] == training.lr == 0.005
        snapshot = saved(training)
        training.lr = None
        assert training.lr == 0.1
    with solver(lr_policy=Step(base=0.2, gamma=0.5, stepsize=2)).start(toy_net()) as resumed:
        resumed.restore(snapshot)
        assert resumed.lr == 0.005
    with solver(lr_policy=0.3).start(toy_net(), [Reports()]) as anew:
        anew.restore(snapshot, reset_solver=True)
        assert anew.lr == 0.3


def test_a_policy_with_a_memory_keeps_it_beside_the_rate_that_is_set() -> None:
    callback = ValidationPerformance(every_n_iter=5)
    with solver(callback, lr_policy=DecayOnValidation(base=0.4)).start(toy_net()) as training:
        training.lr = 0.05
        snapshot = saved(training)
    with solver(callback, lr_policy=DecayOnValidation(base=0.7)).start(toy_net()) as resumed:
        with pytest.warns(UserWarning, match="lr_policy"):
            resumed.restore(snapshot)
        assert resumed.lr == 0.05
        resumed.lr = None
        assert resumed.lr == 0.4


@pytest.mark.parametrize("rate", ["fast", -1, float("nan"), float("inf"), True, SGD()])
def test_a_rate_must_be_a_number(rate: Any) -> None:
    with solver().start(pulled_net()) as training, pytest.raises(ConfigError, match=r"lr=.*, but it must be a finite"):
        training.lr = rate


# Passes over the data


def test_a_training_of_epochs_ends_with_the_last() -> None:
    net, same = toy_net(), toy_net()
    training = solver(max_iter=None, max_epoch=3).solve(net, quiet=True)
    assert (training.iteration, training.epochs) == (15, 3)  # 141 records in batches of 10
    solver(max_iter=15).solve(same, quiet=True)
    assert weights(net) == weights(same)
    assert solver(max_iter=7, max_epoch=3).solve(toy_net(), quiet=True).iteration == 7


def test_a_training_of_epochs_is_resumed_to_its_end() -> None:
    net, again = toy_net(), toy_net()
    solver(max_iter=None, max_epoch=4).solve(net, quiet=True)
    first = solver(max_iter=None, max_epoch=2).solve(toy_net(), quiet=True)
    training = solver(max_iter=None, max_epoch=4).solve(again, resume=saved(first), quiet=True)
    assert training.epochs == 4
    assert weights(net) == weights(again)
    reports = Reports()
    solver(max_iter=None, max_epoch=2).solve(toy_net(), resume=saved(first), reports=[reports])
    assert "max_epoch=2 is already reached" in reports["warning"][-1]["message"]


def test_data_without_an_end_have_no_epochs() -> None:
    with pytest.raises(ConfigError, match="max_epoch=2, but no source of net 'pulled' has an end") as caught:
        solver(max_epoch=2).solve(pulled_net())
    assert caught.value.remedy == "use max_iter"
    summary = TrainingSummary(every_n_epoch=2)
    with pytest.raises(ConfigError, match="TrainingSummary: every_n_epoch=2, but no source of net 'pulled'") as caught:
        solver(summary).solve(pulled_net())
    assert caught.value.remedy == "use every_n_iter"
    with pytest.raises(ConfigError, match="ByEpoch: no source of net 'pulled' has an end"):
        solver(lr_policy=ByEpoch(policy=0.1)).solve(pulled_net())
