"""What hangs on validations: rates that fall, early stopping, the best snapshot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from divided_nets import OPTIONS, gathered, nets_of, source
from nacre import (
    Callback,
    CallbackState,
    ConfigError,
    Layer,
    Names,
    Net,
    Score,
    SnapshotFolder,
    Solver,
    load_snapshot,
    open_snapshot_store,
)
from nacre.snapshots.snapshot import Snapshot as Saved
from nacre.testing.crew import crew, together
from nacre.training.training import Training
from nacre_layers import InnerProductLayer, SoftmaxLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_solvers import (
    SGD,
    DecayOnValidation,
    EarlyStopping,
    Snapshot,
    Staged,
    TrainingSummary,
    ValidationPerformance,
)
from nacre_solvers.statistic import higher_is_better
from resuming import saved
from toy_training import Reports, pulled_net, toy_layers, toy_net, weights


class Judged(Callback):
    """Reports losses of its own as those of a validation: one at each iteration, and one at the end."""

    validates = True

    losses: Annotated[list, "by iteration"]
    phase: str = "validation"

    def start(self, training: Training) -> CallbackState:
        return JudgedState(self, training)


class JudgedState(CallbackState):
    def due(self, epochs: int) -> bool:
        return True

    def run(self) -> None:
        loss = self.callback.losses[self.training.iteration - 1]
        self.training.report("validation", phase=self.callback.phase, loss=loss, statistics={"a": {"b": -loss}})

    def finish(self) -> None:
        self.training.report("validation", phase=self.callback.phase, loss=99.0, statistics={}, final=True)


def follow(losses: Sequence[float], **fields: Any) -> list[float]:
    """Return the rate of each iteration, the one after the last loss included."""
    policy = DecayOnValidation(**{"base": 0.8, **fields})
    with Solver(SGD(), lr_policy=policy, callbacks=[Judged(losses=list(losses))]).start(pulled_net()) as training:
        rates: list[float] = []
        for _ in losses:
            training.step()
            rates.append(training.net.scalars["rate"])
            training.callbacks[0].run()
        return [*rates, training.rate.rate(len(losses))]


NAN = float("nan")


@pytest.mark.parametrize(
    ("losses", "fields", "expected"),
    [
        ([3, 2, 1], {}, [0.8, 0.8, 0.8, 0.8]),
        ([3, 4, 3.5, 3.6], {}, [0.8, 0.8, 0.4, 0.4, 0.2]),  # than the one before, not than the best
        ([3, 3, 4], {"gamma": 0.1}, [0.8, 0.8, 0.8, 0.08]),
        ([1, 2, 3, 4, 5], {"min_n_iter": 3}, [0.8, 0.8, 0.8, 0.4, 0.4, 0.4]),
        ([1, 2, 3, 4], {"min_rate": 0.3}, [0.8, 0.8, 0.4, 0.3, 0.3]),
        ([1, 2], {"min_rate": 2.0}, [0.8, 0.8, 0.8]),  # never rises
        ([1, NAN, 1], {}, [0.8, 0.8, 0.4, 0.4]),
    ],
)
def test_the_rate_falls_when_the_net_got_worse(losses: list[float], fields: Any, expected: list[float]) -> None:
    assert follow(losses, **fields) == pytest.approx(expected)


def test_a_higher_statistic_may_be_the_better() -> None:
    with Solver(
        SGD(),
        lr_policy=DecayOnValidation(base=0.8, statistic="accuracy/accuracy"),
        callbacks=[ValidationPerformance(every_n_iter=10)],
    ).start(toy_net()) as training:
        for value, rate in ((0.5, 0.8), (0.7, 0.8), (0.6, 0.4), (0.65, 0.4)):
            training.report("validation", phase="validation", loss=1.0, statistics={"accuracy": {"accuracy": value}})
            assert training.rate.rate(0) == pytest.approx(rate)


def test_another_phase_is_another_thing() -> None:
    policy = DecayOnValidation(base=0.8)
    callbacks = [Judged(losses=[1, 2, 3]), Judged(losses=[3, 2, 1], phase="test")]
    training = Solver(SGD(), max_iter=3, lr_policy=policy, callbacks=callbacks[::-1]).solve(pulled_net())
    assert training.rate.rate(3) == pytest.approx(0.2)


@pytest.mark.parametrize("given", [None, True, False])
@pytest.mark.parametrize("name", ["accuracy", "error"])
def test_which_values_are_better_is_what_the_layer_says_unless_the_user_says_otherwise(
    name: str, given: bool | None
) -> None:
    stopping = EarlyStopping(statistic=f"accuracy/{name}", higher_better=given)
    with Solver(SGD(), callbacks=[stopping, ValidationPerformance()]).start(toy_net()) as training:
        state: Any = training.callbacks[0]
        assert state.higher_better is (name == "accuracy" if given is None else given)


def test_a_validation_at_the_end_alone_is_too_late() -> None:
    for thing in (EarlyStopping(), DecayOnValidation(base=0.1)):
        more = {"lr_policy": thing} if isinstance(thing, DecayOnValidation) else {}
        callbacks = [ValidationPerformance(), *([] if more else [thing])]
        message = f"{type(thing).__name__}: phase='validation', but ValidationPerformance validates only at the end"
        with pytest.raises(ConfigError, match=message):
            Solver(SGD(), max_iter=3, callbacks=callbacks, **more).solve(toy_net(), quiet=True)


@pytest.mark.parametrize("thing", [DecayOnValidation, EarlyStopping])
def test_somebody_has_to_validate(thing: Any) -> None:
    fields = {"base": 0.1} if thing is DecayOnValidation else {}

    def start(callbacks: list[Callback], **more: Any) -> None:
        made = thing(**fields, **more)
        policy = {"lr_policy": made} if thing is DecayOnValidation else {}
        callbacks = callbacks if thing is DecayOnValidation else [made, *callbacks]
        Solver(SGD(), callbacks=callbacks, **policy).start(toy_net()).shutdown()

    start([ValidationPerformance()])
    with pytest.raises(ConfigError, match="phase='validation', but no callback validates") as caught:
        start([Snapshot()])
    assert "ValidationPerformance" in caught.value.remedy
    with pytest.raises(ConfigError, match="phase='test', but no callback validates in this phase"):
        start([ValidationPerformance()], phase="test")
    with pytest.raises(ConfigError, match=r"statistic='acuracy/a', .*'acuracy' "):
        start([ValidationPerformance()], statistic="acuracy/a", higher_better=True)
    with pytest.raises(ConfigError, match="statistic='loss' needs higher_better=False"):
        start([ValidationPerformance()], higher_better=True)
    with pytest.raises(ConfigError, match="statistic='one/loss' needs higher_better=False"):
        start([ValidationPerformance()], statistic="one/loss", higher_better=True)
    with pytest.raises(ConfigError, match="statistic='accuracy/records' needs higher_better"):
        start([ValidationPerformance()], statistic="accuracy/records")
    start([ValidationPerformance()], statistic="accuracy/records", higher_better=True)
    with pytest.raises(ConfigError, match=r"'accuracy/acuracy' needs .*\(did you mean 'accuracy'\?\)"):
        start([ValidationPerformance()], statistic="accuracy/acuracy")
    with pytest.raises(ConfigError, match="statistic='accuracy', "):
        start([ValidationPerformance()], statistic="accuracy")


def test_a_statistic_without_a_direction_is_not_asked_back() -> None:
    class Biased(Layer, statistics={"bias": ("", ""), "spread": ("lower", "")}, is_sink=True):
        bottoms: Names

    layers = {"one": Biased(bottoms="x")}
    with pytest.raises(ConfigError, match=r"'one/bias' needs higher_better, .* values are better\n") as caught:
        higher_is_better("EarlyStopping: statistic", "one/bias", None, layers)
    assert caught.value.remedy.startswith("it says so of spread; or set higher_better")
    with pytest.raises(ConfigError, match=r"\(did you mean 'spread'\?\)"):
        higher_is_better("EarlyStopping: statistic", "one/spred", None, layers)


def two_losses() -> list[Layer]:
    more = SquareLossLayer(name="length", bottoms=["ip4", "ip1"], weight=0.1, exclude=["predict"])
    return [*toy_layers(hidden=3), more]


def test_each_of_several_losses_is_a_statistic() -> None:
    """Mocha.jl's summaries named the losses of single layers, and its square loss had a statistic."""
    options: dict[str, Any] = {"dtype": "float64", "backend": "numpy", "insert_splits": True}
    callbacks = [
        TrainingSummary(every_n_iter=3),
        ValidationPerformance(every_n_iter=3, best="length/loss"),
        EarlyStopping(statistic="loss/loss", patience=99),
    ]
    net, reports = Net("two", two_losses(), **options), Reports()
    training = Solver(SGD(), max_iter=6, callbacks=callbacks).solve(net, reports=[reports])
    for event in (*reports["summary"], *reports["validation"]):
        parts = [event["statistics"][name]["loss"] for name in ("loss", "length")]
        assert all(parts)
        assert sum(parts) == pytest.approx(event["loss"], rel=1e-12)
    assert training.score is not None
    assert training.score.value == reports["validation"][-1]["statistics"]["length"]["loss"]
    with Net("checked", two_losses(), phase="validation", share=net, **options) as checked:
        expected = reports["validation"][-1]["statistics"]
        total = sum(checked.forward() * rows for rows in (10, 10, 3)) / 23  # the last batch has fewer records
        assert checked.statistics() == expected
        assert total == pytest.approx(reports["validation"][-1]["loss"])


def test_a_lone_loss_is_no_statistic() -> None:
    callbacks = [ValidationPerformance(), EarlyStopping(statistic="loss/loss")]
    with pytest.raises(ConfigError, match=r"statistic='loss/loss', .*'loss' "):
        Solver(SGD(), callbacks=callbacks).start(toy_net())


def test_a_statistic_that_the_layer_lacks_is_told_at_the_first_validation() -> None:
    callbacks = [ValidationPerformance(every_n_iter=2), EarlyStopping(statistic="accuracy/acuracy", higher_better=True)]
    message = "EarlyStopping: statistic='accuracy/acuracy', but layer 'accuracy' has the statistics accuracy, records"
    with pytest.raises(ConfigError, match=message):
        Solver(SGD(), callbacks=callbacks).solve(toy_net())


# Going back


@pytest.mark.parametrize("wrapped", [False, True])
def test_going_back_to_the_last_validation_that_was_not_worse(wrapped: bool) -> None:
    policy: Any = DecayOnValidation(base=0.8, min_rate=0.3, go_back=True)
    policy = Staged(stages=[(9, policy)]) if wrapped else policy
    seen: list[tuple[int, float, float]] = []

    def listen(event: str, data: dict[str, Any]) -> None:
        if event == "step":
            value = float(net.parameters["pull/w"].value[0])
            seen.append((data["iteration"], net.scalars["rate"], value))

    net, reports = pulled_net(), Reports()
    callbacks = [Judged(losses=[3, 2, 4, 1])]
    training = Solver(SGD(), max_iter=4, lr_policy=policy, callbacks=callbacks).solve(net, reports=[listen, reports])
    assert training.resumed_from is None
    assert [entry[:2] for entry in seen] == [(1, 0.8), (2, 0.8), (3, 0.8), (3, 0.4), (3, 0.3), (4, 0.3)]
    assert [value for *_, value in seen] == pytest.approx([0.2, 0.04, 0.008, 0.024, 0.028, 0.0196])
    told = "loss of validation got worse: going back to iteration 2, with the rate "
    assert [one["message"] for one in reports["warning"]][-2:] == [f"{told}0.4", f"{told}0.3"]
    with pytest.warns(UserWarning, match="going back") as warned:
        Solver(SGD(), max_iter=4, lr_policy=policy, callbacks=callbacks).solve(pulled_net())
    assert [str(one.message) for one in warned][-2:] == [f"{told}0.4", f"{told}0.3"]


def test_what_is_held_does_not_hold_what_others_hold() -> None:
    one = DecayOnValidation(base=0.8, go_back=True, min_n_iter=9)
    policy, callbacks = Staged(stages=[(9, one), (9, one)]), [Judged(losses=[4, 3, 2, 2.5])]
    snapshot = saved(Solver(SGD(), max_iter=4, lr_policy=policy, callbacks=callbacks).solve(pulled_net(), quiet=True))
    assert max(name.count("(held)") for name in snapshot.arrays) == 1


def test_going_back_goes_on_bit_for_bit_wherever_it_was_interrupted() -> None:
    def solver(max_iter: int) -> Solver:
        policy = Staged(
            stages=[(99, DecayOnValidation(base=0.9, go_back=True)), (1, DecayOnValidation(base=0.9, go_back=True))]
        )
        callbacks = [ValidationPerformance(every_n_iter=3), EarlyStopping(patience=99)]
        return Solver(SGD(), max_iter=max_iter, lr_policy=policy, momentum_policy=0.9, callbacks=callbacks)

    def train(stop: int = 0, resume: Saved | None = None) -> tuple[Training, bytes, int]:
        """Train to the end, or until so many steps are made."""
        reports, net = Reports(), toy_net()

        def listen(event: str, _: Any) -> None:
            if event == "step" and len(reports["step"]) == stop:
                training.stop("enough")

        with solver(24).start(net, [reports, listen]) as training:
            if resume is not None:
                training.restore(resume)
            training.run()
        assert all("going back" in one["message"] for one in reports["warning"])
        return training, weights(net), len(reports["step"])

    whole, expected, steps = train()
    assert steps > 24  # it does go back
    for stop in range(5, steps, 13):
        begun, *_ = train(stop)
        resumed, found, _ = train(resume=saved(begun))
        assert found == expected
        assert resumed.rate.rate(24) == whole.rate.rate(24)


class Scored(Judged):
    """Reports its losses, which decide on the best snapshot, too."""

    def start(self, training: Training) -> CallbackState:
        return ScoredState(self, training)


class ScoredState(JudgedState):
    def run(self) -> None:
        super().run()
        training = self.training
        training.score = Score(training.iteration, self.callback.losses[training.iteration - 1], False)


@pytest.mark.parametrize("stop", [0, 2])
def test_going_back_keeps_what_others_found_best_in_that_validation(tmp_path: Path, stop: int) -> None:
    """The training was held before EarlyStopping and Snapshot had seen it, so that the best one was worse afterwards.

    A training that ends with that validation holds it when it is resumed.
    """

    def solver(max_iter: int) -> Solver:
        policy = DecayOnValidation(base=0.8, min_rate=0.3, go_back=True)
        stopping = EarlyStopping(patience=99, restore=True)
        saving = Snapshot(every_n_iter=1, folder=str(tmp_path), keep=1)
        callbacks = [Scored(losses=[3, 1, 2, 2.5]), stopping, saving]
        return Solver(SGD(), max_iter=max_iter, lr_policy=policy, callbacks=callbacks)

    net, reports = pulled_net(), Reports()
    if stop:
        solver(stop).solve(pulled_net(), quiet=True)
    resume = load_snapshot(tmp_path) if stop else None
    solver(4).solve(net, reports=[reports], resume=resume)
    assert sum("going back to iteration 2" in one["message"] for one in reports["warning"]) == 2
    assert net.parameters["pull/w"].value[0] == pytest.approx(0.04)  # of iteration 2
    assert SnapshotFolder(str(tmp_path), open_snapshot_store("HDF5"), 1).best() == tmp_path / "snapshot-000002.h5"


# Early stopping


def stopped(losses: Sequence[float], **fields: Any) -> Training:
    callbacks = [Judged(losses=list(losses)), EarlyStopping(**fields)]
    return Solver(SGD(), max_iter=len(losses), lr_policy=0.1, callbacks=callbacks).solve(pulled_net())


@pytest.mark.parametrize(
    ("losses", "fields", "iterations"),
    [
        ([5, 4, 3, 2, 1], {"patience": 1}, 5),
        ([5, 4, 4, 4, 1], {"patience": 2}, 4),
        ([5, 6, 4, 6, 3], {"patience": 2}, 5),  # a better one begins the count anew
        ([5, 6, 5.5, 5.2, 1], {"patience": 3}, 4),  # than the best, not than the one before
        ([5, 4.9, 4.8, 4.4, 4.3], {"patience": 3, "min_delta": 0.5}, 5),
        ([5, 4.9, 4.8, 4.7, 4.3], {"patience": 3, "min_delta": 0.5}, 4),
        ([NAN, NAN, NAN, 1], {"patience": 2}, 2),
        ([1, NAN, NAN, 0.5], {"patience": 2}, 3),
        ([1, 1, 1, 1], {}, 4),
    ],
)
def test_a_training_ends_that_gets_no_better(losses: list[float], fields: Any, iterations: int) -> None:
    training = stopped(losses, **fields)
    assert training.iteration == iterations
    assert bool(training.stopped) is (iterations < len(losses))
    assert not training.interrupted


def test_what_is_to_beat_survives_a_restart() -> None:
    """The best value is another one, of which a step to a better one by `min_delta` would be too much to ask."""
    losses = [5, 4.7, 4.4, 4.3, 4.2, 4.1]
    callbacks = [Judged(losses=losses), EarlyStopping(patience=3, min_delta=0.5)]

    def solver(max_iter: int) -> Solver:
        return Solver(SGD(), max_iter=max_iter, lr_policy=0.1, callbacks=callbacks)

    begun = solver(2).solve(pulled_net(), quiet=True)
    assert solver(6).solve(pulled_net(), resume=saved(begun), quiet=True).iteration == 6
    assert stopped(losses, patience=3, min_delta=0.5).iteration == 6


def test_it_says_why() -> None:
    reason = stopped([5, 4, 4, 4, 1], patience=2).stopped
    assert reason == "EarlyStopping (loss of validation: the best was 4 in iteration 2)"
    reason = stopped([5, 4.9, 4.8, 4.95, 1], patience=3, min_delta=0.5).stopped  # the best, though it begins no count
    assert reason == "EarlyStopping (loss of validation: the best was 4.8 in iteration 3)"
    reason = stopped([NAN] * 3, patience=2).stopped
    assert reason == "EarlyStopping (loss of validation: no value was finite)"


def test_the_validations_decide_when() -> None:
    with pytest.raises(ConfigError, match="every_n_iter=3"):
        EarlyStopping(every_n_iter=3)
    with pytest.raises(ConfigError, match="patience=0"):
        EarlyStopping(patience=0)


def test_a_training_that_ended_early_ends_again_at_once_unless_it_may_wait_longer(tmp_path: Path) -> None:
    def solver(patience: int) -> Solver:
        callbacks = [
            Snapshot(folder=tmp_path / "snapshots"),
            Judged(losses=[5, 4, 4, 4, 4, 4, 1, 1]),
            EarlyStopping(patience=patience),
        ]
        return Solver(SGD(), max_iter=8, lr_policy=0.1, callbacks=callbacks)

    training = solver(2).solve(pulled_net())
    assert (training.iteration, Path(training.snapshot_path).name) == (4, "snapshot-000004.h5")
    snapshot = saved(training)
    again = solver(2).solve(pulled_net(), resume=snapshot)
    assert (again.iteration, again.stopped) == (4, training.stopped)
    longer = solver(4).solve(pulled_net(), resume=snapshot)
    assert longer.iteration == 6


@pytest.mark.parametrize("whole", [12, 25])
def test_rates_and_stopping_go_on_bit_for_bit(whole: int) -> None:
    """Also from the snapshot of a training that ended between two validations, and so made one more."""

    def solver(max_iter: int) -> Solver:
        policy = Staged(
            stages=[(8, DecayOnValidation(base=0.5, gamma=0.3)), (1, DecayOnValidation(base=0.2, min_n_iter=3))]
        )
        callbacks = [ValidationPerformance(every_n_iter=2), EarlyStopping(patience=6, min_delta=0.05)]
        return Solver(SGD(), max_iter=max_iter, lr_policy=policy, momentum_policy=0.9, callbacks=callbacks)

    expected = toy_net()
    rates: list[float] = []
    uninterrupted = solver(whole)
    with uninterrupted.start(expected, [lambda event, _: rates.append(expected.scalars["rate"])]) as training:
        training.run()
    assert len(set(rates)) > 2  # they do fall
    first = solver(7).solve(toy_net())
    assert first.history["validation"]["iteration"].tolist() == [2, 4, 6, 7]
    net = toy_net()
    reports = Reports()
    resumed = solver(whole).solve(net, resume=saved(first), reports=[reports])
    assert reports["warning"] == []
    assert (resumed.iteration, resumed.stopped) == (training.iteration, training.stopped)
    assert weights(net) == weights(expected)
    assert resumed.rate.memory() == training.rate.memory()


def test_the_best_parameters_come_back() -> None:
    losses = [3.0, 1.0, 2.0, float("nan"), 2.0]
    net, best = toy_net(), toy_net()
    reports = Reports()

    def solver(count: int, *callbacks: Callback) -> Solver:
        return Solver(SGD(), max_iter=count, lr_policy=0.5, callbacks=callbacks)

    solver(2).solve(best, quiet=True)
    training = solver(9, Judged(losses=losses), EarlyStopping(patience=3, restore=True)).solve(net, reports=[reports])
    assert training.iteration == 5
    assert weights(net) == weights(best)


def test_the_last_parameters_stay_if_the_validation_at_the_end_finds_them_best() -> None:
    for rate, best in ((0.5, 7), (0.0, 5)):
        net, validated = toy_net(), ValidationPerformance(every_n_iter=5)
        callbacks = [validated, EarlyStopping(restore=True)]
        training = Solver(SGD(), max_iter=7, lr_policy=rate, callbacks=callbacks).solve(net, quiet=True)
        losses = training.history["validation"]
        assert losses["iteration"].tolist() == [5, 7]
        assert losses["iteration"][losses["loss"].argmin()] == best
        with net.derive("validation") as check:
            assert check.forward_epoch() == pytest.approx(losses["loss"].min(), rel=1e-12)


def test_the_best_parameters_survive_a_restart(tmp_path: Path) -> None:
    losses = [3.0, 1.0, 2.0, 2.0, 2.0]
    net, best = toy_net(), toy_net()

    def solver(count: int, *callbacks: Callback) -> Solver:
        early = EarlyStopping(patience=3, restore=True)
        return Solver(SGD(), max_iter=count, lr_policy=0.5, callbacks=[Judged(losses=losses), early, *callbacks])

    Solver(SGD(), max_iter=2, lr_policy=0.5).solve(best, quiet=True)
    last = toy_net()
    Solver(SGD(), max_iter=3, lr_policy=0.5).solve(last, quiet=True)
    first = toy_net()
    solver(3, Snapshot(folder=tmp_path)).solve(first, quiet=True)
    assert weights(first) == weights(best)
    training = solver(9).solve(net, resume=tmp_path, quiet=True)
    assert training.iteration == 5
    assert weights(net) == weights(best)
    with solver(9).start(toy_net()) as resumed:  # a snapshot has the parameters with which the training goes on
        resumed.restore(load_snapshot(str(tmp_path)))
        assert weights(resumed.net) == weights(last)


def test_the_best_parameters_of_a_divided_net_come_back_on_any_number_of_ranks() -> None:
    def make() -> list[Layer]:
        return [
            source("input", (7,)),
            InnerProductLayer(name="ip1", bottoms=["data"], tops=["ip1"], output_dim=9, neuron="Tanh", partition_dim=1),
            InnerProductLayer(name="ip2", bottoms=["ip1"], tops=["ip2"], output_dim=10, location=0),
            SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"], partition_dim=-1),
        ]

    def train(net: Net, max_iter: int, snapshot: Saved | None = None) -> Saved:
        callbacks = [Judged(losses=[5, 1, 4, 4, 4, 4, 4]), EarlyStopping(patience=4, restore=True)]
        training = Solver(SGD(), lr_policy=0.1, max_iter=max_iter, callbacks=callbacks).start(net)
        if snapshot is not None:
            training.restore(snapshot)
        training.run()
        return training.snapshot()

    def of_ranks(size: int, max_iter: int, snapshot: Saved | None = None) -> tuple[dict[str, Any], Saved]:
        ranks = crew(size)
        nets = nets_of(make, ranks)
        taken = together(ranks, lambda rank: train(nets[rank], max_iter, snapshot))
        return gathered(nets), taken[0]

    def alone(snapshot: Saved | None = None) -> dict[str, Any]:
        net = Net("net", make(), backend="numpy", **OPTIONS)
        train(net, 9, snapshot)
        return {name: handle.value for name, handle in net.parameters.items()}

    expected = alone()
    _, half = of_ranks(2, 3)
    with pytest.warns(UserWarning, match="made by 2 ranks"):
        on_others = [of_ranks(3, 9, half)[0], alone(half)]
    for found in (of_ranks(2, 9)[0], of_ranks(2, 9, half)[0], *on_others):
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-12, err_msg=name)
