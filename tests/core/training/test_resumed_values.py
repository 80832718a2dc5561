"""What policies and callbacks may read of a training is as before after a resume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import Callback, CallbackState, LrPolicy, Net, Solver
from nacre_data import MemoryDataLayer
from nacre_layers import AccuracyLayer, InnerProductLayer, SoftmaxLossLayer
from nacre_solvers import SGD, TrainingSummary, ValidationPerformance
from resuming import saved


class ByLoss(LrPolicy):
    """A rate by what the training found: a tenth of its loss, and half of that once it has validated."""

    def start(self, training: Any) -> Any:
        return ByLossState(training)


class ByLossState:
    def __init__(self, training: Any) -> None:
        self.training = training

    def rate(self, iteration: int) -> float:
        training = self.training
        if not training.iteration:
            return 0.1
        accuracy = training.statistics.get("validation", {}).get("accuracy", {}).get("accuracy", 0.0)
        return 0.1 * training.loss * (0.5 if training.score else 1.0) * (1 + accuracy)

    def memory(self) -> dict[str, Any]:
        return {}

    def remember(self, memory: Any) -> None:
        """Do nothing."""


class Notes(Callback):
    """Notes what it can read."""

    def start(self, training: Any) -> Any:
        return NotesState(self, training)


class NotesState(CallbackState):
    seen: list[Any]

    def run(self) -> None:
        one = self.training
        self.seen.append(
            (one.iteration, one.epochs, one.loss, one.lr, str(one.statistics.get("validation")), str(one.score))
        )


def training(net: Net, seen: list[Any], **options: Any) -> Any:
    callbacks = [
        TrainingSummary(every_n_iter=3),
        ValidationPerformance(every_n_iter=4, best="loss"),
        Notes(every_n_iter=1),
    ]
    made = Solver(SGD(), max_iter=12, lr_policy=ByLoss(), callbacks=callbacks, **options).start(
        net, [lambda event, data: seen.append((event, data["loss"])) if event == "summary" else None]
    )
    made.callbacks[-1].seen = seen
    return made


def net() -> Net:
    random = np.random.default_rng(0)
    data = [random.normal(size=(20, 4)), np.arange(20) % 3]
    layers = [
        MemoryDataLayer(name="data", tops=["x", "label"], data=data, batch_size=6, shuffle=True),
        InnerProductLayer(name="ip", bottoms="x", tops="ip", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["ip", "label"]),
    ]
    return Net("n", layers, backend="numpy")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("split", [5, 6, 8])
def test_they_are_as_before(split: int, check: bool) -> None:
    whole: list[Any] = []
    with net() as made, training(made, whole, check_finite=check) as one:
        one.run()
        values = made.parameters["ip/weight"].value.copy()
    parts: list[Any] = []
    with net() as made, training(made, parts, check_finite=check) as one:
        while one.iteration < split:
            epochs = one.epochs
            one.step()
            for state in one.callbacks:
                if state.due(epochs):
                    state.run()
        snapshot, loss = saved(one), one.loss
    with net() as made, training(made, parts, check_finite=check) as one:
        one.restore(snapshot)
        assert one.loss == loss
        one.run()
        assert np.array_equal(made.parameters["ip/weight"].value, values)
    assert parts == whole


def test_an_earlier_snapshot_has_none_of_them() -> None:
    with net() as made, training(made, []) as one:
        one.step()
        snapshot = saved(one)
    del snapshot.state["memory"]["history.last"]
    with net() as made, training(made, []) as one:
        one.restore(snapshot)
        one.step()
        assert one.loss > 0


class Counts(Callback):
    """Remembers how often it ran, once it has."""

    def start(self, training: Any) -> Any:
        return CountsState(self, training)


class CountsState(CallbackState):
    runs = 0

    def run(self) -> None:
        self.runs += 1

    def memory(self) -> dict[str, int]:
        return {"runs": self.runs} if self.runs else {}

    def remember(self, memory: Any) -> None:
        self.runs = memory.get("runs", 0)


def test_going_back_to_where_nothing_was_remembered() -> None:
    """The rate that somebody had set meanwhile, the history and what callbacks remember were those of later."""
    with net() as made, Solver(SGD(), max_iter=9, lr_policy=0.1, callbacks=[Counts(every_n_iter=1)]).start(made) as one:
        one.step()
        snapshot = saved(one)
        one.step()
        one.callbacks[0].run()
        one.lr = 0.5
        one.report("summary", loss=1.0, statistics={})
        one.restore(snapshot)
        assert (one.iteration, one.lr, one.history, one.callbacks[0].memory()) == (1, 0.1, {}, {})


def test_who_asked_to_keep_what_is_given_up_gets_no_snapshot() -> None:
    kept: list[Any] = []
    with net() as made, Solver(SGD(), max_iter=9, lr_policy=0.1).start(made) as one:
        snapshot = saved(one)
        one.step()
        one.hold(kept.append)
        one.restore(snapshot)
        one.step()
    assert kept == []
