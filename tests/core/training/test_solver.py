"""The training loop: numbers, order of events, restarts, signals, and numbers that are not finite."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import nacre
from nacre import (
    Algorithm,
    Callback,
    CallbackState,
    ConfigError,
    Constraint,
    ContractError,
    Identity,
    InputLayer,
    Layer,
    LayerState,
    LrPolicy,
    Method,
    Names,
    Net,
    Neuron,
    NotFiniteError,
    PluginError,
    SnapshotError,
    Solver,
    TopologyError,
)
from nacre.errors import DataError, NacreError
from nacre.fields.types import Paths, default
from nacre.net.parameters import load_parameters
from nacre.snapshots.snapshot import Snapshot
from nacre.threads import WaitInterrupted
from nacre.training.callback import Score
from nacre.training.training import Training
from nacre_data import MemoryDataLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.initializers import Constant, Gaussian
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.regularizers import L1
from nacre_solvers import BP, SGD, Adam, Step, TrainingSummary, ValidationPerformance
from nacre_solvers import Snapshot as SaveSnapshot
from registries import NewRegistry
from resuming import saved
from toy_training import PulledLayer, Reports, pulled_net, records, toy_layers, toy_net, trace, weights


class Recorder(Callback):
    """Notes its calls, and does what a test wants at an iteration."""

    name: str = ""
    notes: Any = None
    what: Any = None

    def start(self, training: Training) -> CallbackState:
        return RecorderState(self, training)


class RecorderState(CallbackState):
    def note(self, what: str) -> None:
        if self.callback.notes is not None:
            self.callback.notes.append((self.callback.name, what, self.training.iteration))

    def begin(self) -> None:
        self.note("begin")

    def run(self) -> None:
        self.note("run")
        if self.callback.what is not None:
            self.callback.what(self.training)

    def finish(self) -> None:
        self.note("finish")

    def shutdown(self) -> None:
        self.note("shutdown")


class Filed(InputLayer):
    """A source that names files."""

    files: Paths = default(())


class Last(Recorder):
    runs_last: ClassVar[bool] = True


def solver(**fields: Any) -> Solver:
    return Solver(SGD(), **{"lr_policy": 0.1, "momentum_policy": 0.9, "max_iter": 20, **fields})


# Numbers


def test_policies_see_iteration_0_at_the_first_update() -> None:
    with solver(lr_policy=Step(base=0.1, gamma=0.5, stepsize=2), momentum_policy=0.0).start(pulled_net()) as training:
        rates = []
        for _ in range(5):
            training.step()
            rates.append(training.net.scalars["rate"])
    assert rates == [0.1, 0.1, 0.05, 0.05, 0.025]


def test_two_sharers_train_to_the_weights_of_one_layer_with_two_bottoms() -> None:
    x, label = np.random.default_rng(0).normal(size=(2, 8, 5)), np.arange(8) % 3
    same = {"output_dim": 3, "weight_init": Gaussian(std=0.1)}
    heads = [SoftmaxLossLayer(name=f"loss{n}", bottoms=[f"y{n}", "label"]) for n in (1, 2)]
    sharers = [
        InnerProductLayer(name="ip", bottoms="x1", tops="y1", param_key="ip", **same),
        InnerProductLayer(name="other", bottoms="x2", tops="y2", param_key="ip", **same),
    ]
    one = [InnerProductLayer(name="ip", bottoms=["x1", "x2"], tops=["y1", "y2"], **same)]
    trained: list[Net] = []
    for layers in (sharers, one):
        source = MemoryDataLayer(name="in", tops=["x1", "x2", "label"], data=[*x, label], batch_size=8)
        net = Net("two", [source, *layers, *heads], dtype="float64", backend="numpy")
        solver(max_iter=20, regu_coef=0.1).solve(net)
        trained.append(net)
    assert list(trained[0].parameters) == list(trained[1].parameters) == ["ip/weight", "ip/bias"]
    for name, handle in trained[0].parameters.items():
        np.testing.assert_allclose(handle.value, trained[1].parameters[name].value, rtol=0, atol=1e-12)


def test_frozen_layers_stay_and_others_learn() -> None:
    net = toy_net()
    net.freeze("ip2")
    before = {name: handle.value for name, handle in net.parameters.items()}
    solver(regu_coef=0.01).solve(net)
    stayed = {name for name, handle in net.parameters.items() if np.array_equal(handle.value, before[name])}
    assert stayed == {"ip2/weight", "ip2/bias"}


def test_a_constraint_holds_after_every_update() -> None:
    class AtLeast(Constraint):
        least: float

        def constrain(self, backend: Any, value: Any) -> None:
            backend.xp.maximum(value, self.least, out=value)

    cons = AtLeast(least=0.0)
    net = Net(
        "constrained",
        [
            MemoryDataLayer(name="in", tops=["x", "label"], data=[np.ones((4, 2)), np.arange(4) % 2], batch_size=4),
            InnerProductLayer(bottoms="x", tops="y", output_dim=2, weight_init=Gaussian(), weight_cons=cons),
            SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
        ],
        backend="numpy",
    )
    with solver().start(net) as training:
        training.step()
    assert net.parameters["y/weight"].value.min() == 0


def test_the_regulariser_reaches_a_parameter_once_however_many_share_it() -> None:
    layers = [PulledLayer(name="pull", gradients=((0.0,), (0.0,)), regu=L1(coef=2.0))]
    net = Net("l1", [InputLayer(), *layers], dtype="float64", backend="numpy")
    with solver(momentum_policy=0.0, regu_coef=0.5).start(net) as training:
        assert trace(training, 2) == pytest.approx([0.9, 0.8], abs=1e-15)


def test_the_loss_is_that_of_the_batch_before_its_update() -> None:
    with solver(momentum_policy=0.0).start(pulled_net()) as training:
        training.step()
        assert training.loss == 0.5
        training.step()
        assert training.loss == pytest.approx(0.9**2 / 2)
        assert training.loss_total == pytest.approx(0.5 + 0.9**2 / 2)
        assert training.loss_count == 2


def test_an_algorithm_of_ones_own() -> None:
    class Twice(Algorithm):
        def train_one_batch(self, net: Net) -> list[Any]:
            return [*BP().train_one_batch(net), *net.steps("forward")]

    assert solver(algorithm=Twice()).solve(pulled_net()).iteration == 20


def test_what_a_state_says_about_what_it_remembers_is_a_warning() -> None:
    with solver(max_iter=9).start(toy_net()) as training:
        training.step()
        snapshot = training.snapshot()
    reports, net = Reports(), toy_net()
    with solver(max_iter=9).start(net, [reports]) as training:
        vars(net.node_ops["train"].state)["remember"] = lambda memory: f"train: read {memory['position']} again"
        training.restore(snapshot)
    assert [one["message"] for one in reports["warning"]] == ["train: read 10 again"]


# The loop


def test_callbacks_run_in_order_and_the_last_ones_last() -> None:
    notes: list[Any] = []
    callbacks = [
        Last(name="last", notes=notes, every_n_iter=2),
        Recorder(name="one", notes=notes, every_n_iter=2),
        Recorder(name="two", notes=notes),
        Recorder(name="three", notes=notes, every_n_iter=3),
    ]
    solver(max_iter=4, callbacks=callbacks).solve(pulled_net())
    names = ["one", "two", "three", "last"]
    runs = [("one", "run", 2), ("last", "run", 2), ("three", "run", 3), ("one", "run", 4), ("last", "run", 4)]
    assert notes[:13] == [
        *((name, "begin", 0) for name in names),
        *runs,
        *((name, "finish", 4) for name in names),
    ]
    assert {note[:2] for note in notes[13:]} == {(name, "shutdown") for name in names}


def test_every_n_epoch_counts_passes_even_several_in_one_batch() -> None:
    notes: list[Any] = []
    layers = [
        MemoryDataLayer(name="in", tops=["data"], data=[np.ones((10, 1))], batch_size=4),
        PulledLayer(name="pull"),
    ]
    net = Net("epochs", layers, backend="numpy")
    callbacks = [Recorder(name="n", notes=notes, every_n_epoch=2)]
    training = solver(max_iter=11, callbacks=callbacks).solve(net)
    assert training.epochs == 4  # 44 of 10 records
    assert [note[2] for note in notes if note[1] == "run"] == [5, 10]


def test_what_a_callback_gives_a_training_is_checked() -> None:
    score = Recorder(every_n_iter=1, what=lambda training: setattr(training, "score", "x"))
    with pytest.raises(ContractError, match=r"callback 'Recorder'.*training\.score is set to 'x', but it must be a Sc"):
        solver(callbacks=[score]).solve(pulled_net())
    listener = Recorder(every_n_iter=1, what=lambda training: training.listeners.append(5))
    with pytest.raises(ConfigError, match=r"training\.listeners has 5, but its entries must be functions"):
        solver(callbacks=[listener]).solve(pulled_net())


@pytest.mark.parametrize("value", [[[1], [2, 3]], ["é"], np.array(b"x"), np.datetime64("2020"), None, {}], ids=str)
def test_what_a_snapshot_cannot_hold_names_who_remembers_it(value: Any) -> None:
    class Keeping(Recorder):
        def start(self, training: Training) -> CallbackState:
            state = RecorderState(self, training)
            state.memory = lambda: {"kept": value}  # type: ignore[method-assign]
            return state

    message = r"callback 'Keeping': memory returned .* as 'kept', but it must be an array of numbers, a number or a str"
    with solver(callbacks=[Keeping()]).start(toy_net()) as training, pytest.raises(PluginError, match=message):
        training.snapshot()


def test_a_callback_stops_the_training() -> None:
    callbacks = [Recorder(every_n_iter=3, what=lambda training: training.stop("good enough"))]
    reports = Reports()
    training = solver(callbacks=callbacks).solve(pulled_net(), reports=[reports])
    assert (training.iteration, training.stopped, training.interrupted) == (3, "good enough", False)
    assert reports["end"][0]["stopped"] == "good enough"
    assert len(reports["step"]) == 3


def test_a_callback_that_cannot_finish_keeps_no_other_from_it() -> None:
    class Failing(Recorder):
        def start(self, training: Training) -> CallbackState:
            state = RecorderState(self, training)
            state.finish = lambda: 1 / 0  # type: ignore[method-assign]
            return state

    notes: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        solver(callbacks=[Failing(), Recorder(name="other", notes=notes)]).solve(pulled_net())
    assert ("other", "finish", 20) in notes
    assert notes[-1][1] == "shutdown"


def test_callbacks_that_were_started_are_shut_down_if_a_later_one_cannot_start() -> None:
    class Failing(Callback):
        def start(self, training: Training) -> CallbackState:
            raise SnapshotError("no")

    notes: list[Any] = []
    with pytest.raises(SnapshotError):
        solver(callbacks=[Recorder(name="first", notes=notes), Failing()]).start(pulled_net())
    assert notes == [("first", "shutdown", 0)]


def test_a_net_without_a_loss_is_refused() -> None:
    net = Net("no loss", [InputLayer(shape=3), InnerProductLayer(bottoms="data", tops="y", output_dim=2)])
    with pytest.raises(TopologyError, match="no loss layer"):
        solver().solve(net)


def test_a_net_that_was_shut_down_is_not_trained() -> None:
    net = toy_net()
    before = weights(net)
    with solver().start(net) as training:
        net.shutdown()
        for train in (training.step, training.run, lambda: solver().solve(net), lambda: solver().start(net)):
            with pytest.raises(NacreError, match="net 'toy' is shut down: it cannot be trained"):
                train()
    assert weights(net) == before


def test_a_training_on_blobs_that_nobody_has_written_is_refused() -> None:
    net = Net("empty", [InputLayer(tops=["data", "unread"]), PulledLayer(name="pull")], backend="numpy")
    with pytest.raises(DataError, match=r"net 'empty' has no data: .*'data'"):
        solver().solve(net)
    net.write("data", [1.0])
    assert solver().solve(net).iteration == 20


def test_a_validation_on_blobs_that_nobody_has_written_is_refused() -> None:
    layers = [layer for layer in toy_layers() if layer.name != "check"]
    image, label = records(23)
    layers += [
        MemoryDataLayer(name="answers", tops="label", data=[label], batch_size=10, exclude=["train", "predict"]),
        InputLayer(name="in", tops="data", shape=image.shape[1:], batch_size=10, exclude=["train", "predict"]),
    ]
    callbacks = [ValidationPerformance(every_n_iter=5)]
    with pytest.raises(DataError, match=r"nothing was written to 'data'"):
        solver(callbacks=callbacks).solve(Net("toy", layers, backend="numpy"))


def test_a_net_that_was_only_planned_is_refused() -> None:
    with pytest.raises(ConfigError, match="allocate=False"):
        solver().solve(toy_net(allocate=False))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_iter": 0}, "max_iter=0, but it must be above 0"),
        ({"lr_policy": -1}, "base=-1"),
        ({"momentum_policy": 1.5}, "base=1.5"),
        ({"regu_coef": -1e-4}, r"regu_coef=-0\.0001"),
        ({"max_iters": 3}, "unknown field 'max_iters' .did you mean 'max_iter'"),
        ({"callbacks": "Snapshot"}, "it must be a list of callbacks"),
        ({"callbacks": [{"type": "TrainingSumary"}]}, "did you mean 'TrainingSummary'"),
        ({"lr_policy": "Step"}, "gamma"),
        ({"algorithm": "PB"}, "no algorithm 'PB'"),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        solver(**fields)


# Signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_training_after_its_iteration(number: int) -> None:
    before = signal.getsignal(number)
    notes: list[Any] = []
    callbacks = [
        Recorder(name="kill", every_n_iter=5, what=lambda _: os.kill(os.getpid(), number)),
        Recorder(name="next", notes=notes, every_n_iter=5),
    ]
    with pytest.warns(UserWarning, match=f"{signal.Signals(number).name} .* 5 iterations"):
        training = solver(callbacks=callbacks).solve(pulled_net())
    assert (training.iteration, training.stopped, training.interrupted) == (5, signal.Signals(number).name, True)
    assert [note[:2] for note in notes[:3]] == [("next", "begin"), ("next", "run"), ("next", "finish")]
    assert signal.getsignal(number) is before


def test_a_second_signal_ends_it_at_once() -> None:
    def kill(_: Training) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    notes: list[Any] = []
    callbacks = [Recorder(every_n_iter=5, what=kill), Recorder(name="next", notes=notes, every_n_iter=5)]
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        solver(callbacks=callbacks).solve(pulled_net())
    assert [note[1] for note in notes] == ["begin", "shutdown", "shutdown"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_terminal_or_a_system_may_say_so_twice(number: signal.Signals) -> None:
    def twice(_: Training) -> None:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)

    reports = Reports()
    training = solver(callbacks=[Recorder(every_n_iter=5, what=twice)]).solve(pulled_net(), reports=[reports])
    assert (training.iteration, training.stopped) == (5, number.name)


def test_a_training_under_nohup_goes_on() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        callbacks = [Recorder(every_n_iter=5, what=lambda _: os.kill(os.getpid(), signal.SIGHUP))]
        training = solver(callbacks=callbacks).solve(pulled_net(), reports=[Reports()])
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (training.iteration, training.stopped) == (training.solver.max_iter, "")


def test_one_signal_after_a_callbacks_stop_still_lets_it_finish() -> None:
    def stop(training: Training) -> None:
        training.stop("good enough")
        os.kill(os.getpid(), signal.SIGTERM)

    reports = Reports()
    training = solver(callbacks=[Recorder(every_n_iter=5, what=stop)]).solve(pulled_net(), reports=[reports])
    assert training.stopped == "SIGTERM"


def test_a_training_in_another_thread_leaves_signals_alone() -> None:
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(solver().solve(pulled_net()).iteration))
    thread.start()
    thread.join()
    assert done == [20]


@pytest.mark.parametrize("error", [DataError("a bad record"), WaitInterrupted()])
def test_an_iteration_that_was_not_done_is_not_counted_by_the_method(error: BaseException) -> None:
    net, again = toy_net(), toy_net()
    with Solver(Adam(), max_iter=9).start(net) as training, Solver(Adam(), max_iter=9).start(again) as other:
        training.step()
        vars(net.node_ops["loss"].state)["forward"] = raising(error)
        with pytest.raises(type(error)):
            training.step()
        other.step()
        assert training.iteration == 1
        assert training.method.memory() == other.method.memory() == {"count": 1}


def raising(error: BaseException) -> Any:
    def call(*_: Any) -> None:
        raise error

    return call


# Numbers that are not finite


class Poisoned(Layer, can_do_bp=True):
    """y = x, but a number is not finite at an iteration, in `where`: the top, or the gradient."""

    bottoms: Names
    tops: Names
    at: int
    where: str = "top"
    number: float = float("nan")


class PoisonedState(LayerState, of=Poisoned, reads=""):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def pass_on(self, where: str, source: Any, target: Any) -> None:
        target[...] = source
        if self.backend.step == self.layer.at and self.layer.where == where:
            target.reshape(-1)[3] = self.layer.number

    def forward(self, inputs: list[Any]) -> None:
        self.pass_on("top", inputs[0], self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        self.pass_on("gradient", self.blobs_diff[0], diffs[0])


def poisoned_net(**fields: Any) -> Net:
    layers = [
        MemoryDataLayer(
            name="in", tops=["data", "label"], data=[np.eye(6, 5, dtype="f"), np.arange(6) % 3], batch_size=6
        ),
        InnerProductLayer(bottoms="data", tops="ip1", output_dim=4),
        Poisoned(name="poison", bottoms="ip1", tops="poisoned", **fields),
        InnerProductLayer(bottoms="poisoned", tops="ip2", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"]),
    ]
    return Net("poisoned", layers, backend="numpy", keep=("poisoned",))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "iteration 7: the loss is nan; first seen in blob 'poisoned' of layer 'poison'"),
        ({"number": float("inf")}, "iteration 7: the loss is nan; first seen in blob 'poisoned' of layer 'poison'"),
        ({"where": "gradient"}, "first seen in the gradient of parameter 'ip1/bias' of layer 'ip1'"),
        ({"where": "gradient", "number": float("-inf")}, "parameter 'ip1/bias' of layer 'ip1'"),
    ],
)
def test_what_is_not_finite_stops_within_the_iteration(fields: dict[str, Any], message: str) -> None:
    notes: list[Any] = []
    callbacks = [Recorder(name="n", notes=notes, every_n_iter=1)]
    with pytest.raises(NotFiniteError, match=message) as caught:
        solver(callbacks=callbacks).solve(poisoned_net(at=7, **fields))
    assert "smaller learning rate" in caught.value.remedy
    assert [note for note in notes if note[1] == "run"][-1] == ("n", "run", 7)
    assert not [note for note in notes if note[1] == "finish"]


class PassesOver(Neuron):
    """y = x, but 0 where x is no number, as some libraries' ReLU has it."""

    def forward(self, backend: Any, x: Any, y: Any) -> None:
        y[...] = np.where(np.isnan(x), 0, x)

    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        dx[...] = dy


def test_a_source_is_named_though_the_loss_is_finite() -> None:
    data = np.eye(6, 5, dtype="f")
    data[4, 2] = np.nan
    layers = [
        MemoryDataLayer(name="in", tops=["data", "label"], data=[data, np.arange(6) % 3], batch_size=6),
        InnerProductLayer(bottoms="data", tops="ip1", output_dim=4, neuron=PassesOver()),
        InnerProductLayer(bottoms="ip1", tops="ip2", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"]),
    ]
    net = Net("passes over", layers, backend="numpy")
    with pytest.raises(NotFiniteError, match=r"iteration 0: .*blob 'data' of layer"):
        solver().solve(net)


def test_a_parameter_that_is_not_finite_is_named() -> None:
    net = pulled_net(dtype="float32", gradients=((1.0,), (3e38,), (0.0,)))
    with pytest.raises(NotFiniteError, match=r"iteration 1: .*the value of parameter 'pull/w' of layer 'pull'"):
        solver(lr_policy=10.0).solve(net)


def test_large_but_finite_numbers_are_no_error() -> None:
    net = pulled_net(dtype="float32", first=1e30, gradients=((1e30,),) * 20)  # their product is not finite
    assert solver(lr_policy=1e-6).solve(net).iteration == 20


def test_the_check_can_be_switched_off() -> None:
    with np.errstate(all="ignore"):
        training = solver(check_finite=False).solve(poisoned_net(at=7))
    assert training.iteration == 20
    assert np.isnan(training.loss)
    assert training.loss_count == 0


# Restarts


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("iteration", [1, 4, 13, 19])
def test_a_resumed_training_is_bit_for_bit_the_uninterrupted(iteration: int, dtype: str) -> None:
    taken: list[Snapshot] = []
    with solver(max_iter=20, regu_coef=0.01).start(toy_net(dtype=dtype)) as whole:
        losses = []
        for _ in range(20):
            whole.step()
            losses.append(whole.loss)
            if whole.iteration == iteration:
                taken.append(saved(whole))
    net = toy_net(dtype=dtype)
    reports = Reports()
    resumed = solver(max_iter=20, regu_coef=0.01).solve(net, resume=taken[0], reports=[reports])
    assert resumed.resumed_from == iteration
    assert len(reports["step"]) == 20 - iteration
    assert reports["warning"] == []
    assert resumed.loss == losses[-1]
    assert resumed.epochs == whole.epochs > 0
    assert weights(net) == weights(whole.net)


@pytest.mark.parametrize("forgotten", ["parameters/norm/mean", "history/velocity/ip1/weight", "memory", "iteration"])
def test_every_part_of_a_snapshot_is_needed(forgotten: str) -> None:
    """The test above could not fail if these made no difference."""
    with solver(max_iter=20).start(toy_net()) as whole:
        for _ in range(7):
            whole.step()
        snapshot = whole.snapshot()
        for _ in range(13):
            whole.step()
    state = snapshot.state | ({"memory": {}} if forgotten == "memory" else {})
    arrays = {name: np.zeros_like(array) if name == forgotten else array for name, array in snapshot.arrays.items()}
    net = toy_net()
    resume = Snapshot(0 if forgotten == "iteration" else 7, arrays, state)
    solver(max_iter=20).solve(net, resume=resume, reports=[Reports()])
    assert weights(net) != weights(whole.net)


def test_a_policy_may_hold_a_state_that_is_restored() -> None:
    class Halving(LrPolicy):
        """Halves its rate whenever it is asked."""

        base: float

        def start(self, training: Training) -> Any:
            return HalvingState(self.base)

    class HalvingState:
        def __init__(self, base: float) -> None:
            self.next = base

        def rate(self, iteration: int) -> float:
            self.next /= 2
            return self.next

        def memory(self) -> dict[str, Any]:
            return {"next": self.next}

        def remember(self, memory: Any) -> None:
            self.next = memory["next"]

    with solver(lr_policy=Halving(base=0.8)).start(pulled_net()) as training:
        trace(training, 2)
        snapshot = saved(training)
    with solver(lr_policy=Halving(base=0.8)).start(pulled_net()) as resumed:
        resumed.restore(snapshot)
        resumed.step()
        assert resumed.net.scalars["rate"] == 0.1


def test_memory_goes_by_the_callbacks_kind_not_by_its_place() -> None:
    class Counting(Callback):
        def start(self, training: Training) -> CallbackState:
            return CountingState(self, training)

    class CountingState(CallbackState):
        count = 0

        def run(self) -> None:
            self.count += 1

        def memory(self) -> dict[str, Any]:
            return {"count": self.count}

        def remember(self, memory: Any) -> None:
            self.count = memory["count"]

    counting = [Counting(every_n_iter=2), Counting(every_n_iter=5)]
    training = solver(callbacks=[Recorder(), *counting]).solve(pulled_net())
    with solver(callbacks=counting, max_iter=21).start(pulled_net()) as resumed:
        resumed.restore(saved(training))
        assert [state.memory()["count"] for state in resumed.callbacks] == [10, 4]


def test_another_net_is_refused_and_stays_as_it_is() -> None:
    training = solver().solve(toy_net())
    layers = [layer for layer in toy_layers(hidden=9) if not isinstance(layer, BatchNormLayer)]
    layers[2] = InnerProductLayer(bottoms="data", tops="norm", output_dim=9)
    net = Net("other", layers, dtype="float64", backend="numpy")
    before = weights(net)
    with pytest.raises(SnapshotError, match="net 'toy', not to 'other'") as caught:
        solver().solve(net, resume=saved(training))
    for words in (
        "'norm/weight' is missing",
        "'ip1/weight' is not in the net",
        "'norm/mean' is not in the net",
        "'ip4/weight' has the shape (3, 8) in the snapshot, but (3, 9) in this net",
    ):
        assert words in str(caught.value)
    with pytest.raises(SnapshotError):
        load_parameters(net, training.snapshot())
    assert weights(net) == before


def test_another_solver_is_refused_naming_both() -> None:
    class Still(Method):
        def setup(self, backend: Any, spans: Any) -> Any:
            return SGD().setup(backend, spans)

    training = solver().solve(pulled_net())
    with pytest.raises(SnapshotError, match="the solver SGD, but this training uses Still"):
        Solver(Still()).solve(pulled_net(), resume=training.snapshot())
    parameters_only = Snapshot(3, training.snapshot().arrays, {})
    with pytest.raises(SnapshotError, match="no training"):
        solver().solve(pulled_net(), resume=parameters_only)


def test_a_training_is_taken_up_by_the_path_of_its_snapshot(tmp_path: Path) -> None:
    saver = [SaveSnapshot(folder=tmp_path, every_n_iter=4)]
    solver(max_iter=8, callbacks=saver).solve(toy_net())
    for path in (tmp_path, str(tmp_path / "snapshot-000008.h5")):
        training = solver(max_iter=9, callbacks=saver).solve(toy_net(), resume=path, reports=[Reports()])
        assert training.resumed_from == 8
        (tmp_path / "snapshot-000009.h5").unlink()


@pytest.mark.parametrize(
    ("net", "options", "message"),
    [
        (None, {}, "net=None, but a solver trains a Net"),
        (..., {"resume": 3}, "resume=3, but it must be a snapshot, or the path of one"),
        (..., {"reset_solver": True}, "reset_solver=True"),
    ],
)
def test_arguments_of_another_type(net: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        solver().solve(pulled_net() if net is ... else net, **options)


def test_other_frozen_layers_are_told() -> None:
    taken = solver().solve(toy_net()).snapshot()
    reports = Reports()
    net = toy_net(freeze=["ip4"])
    solver(max_iter=21).solve(net, resume=taken, reports=[reports])
    assert [one["message"] for one in reports["warning"]] == [
        'the training has changed since the snapshot: trained with freeze=[], now ["ip4"]'
    ]
    solver(max_iter=21).solve(toy_net(), resume=taken, reports=[none := Reports()])
    assert none["warning"] == []


def test_a_history_that_is_missing_is_named() -> None:
    net = toy_net()
    net.freeze("ip4")
    training = solver().solve(net)
    with pytest.raises(SnapshotError, match=r"no history/velocity/ip4/.*frozen.*\n.*--reset-solver.*--weights"):
        solver().solve(toy_net(), resume=training.snapshot())


def test_what_changes_the_bits_is_a_warning() -> None:
    snapshot = solver().solve(toy_net()).snapshot()
    state = snapshot.state | {"environment": snapshot.state["environment"] | {"numpy": "0.1"}, "memory": {}}
    reports = Reports()
    net = toy_net(dtype="float32", seed=3)
    with solver().start(net, [reports]) as training:
        training.restore(Snapshot(snapshot.iteration, snapshot.arrays, state))
    message, nothing_left = (report["message"] for report in reports["warning"])
    for words in ("numpy was 0.1, is", "seed was 0, is 3", "dtype was float64, is float32", "layer.train"):
        assert words in message
    assert "max_iter=20" in nothing_left


def test_a_memory_of_another_kind_is_refused() -> None:
    snapshot = solver().solve(toy_net()).snapshot()
    memory = {**snapshot.state["memory"], "layer.train": {"position": "here"}}
    with pytest.raises(SnapshotError, match=r"layer\.train "):
        solver().solve(toy_net(), resume=Snapshot(3, snapshot.arrays, snapshot.state | {"memory": memory}))


def test_a_snapshot_says_whose_code_made_it() -> None:
    state = solver().solve(toy_net(dtype="float32")).snapshot().state
    assert [layer["type"] for layer in state["layers"]][2] == "InnerProduct"
    parts = state["parts"]
    assert parts["layer.ip1"]["type"] == "InnerProduct"
    assert parts["layer.ip1"]["kernel"].startswith("nacre_numpy.")
    assert parts["layer.drop"] == {"type": "Dropout", "distribution": "nacre", "version": nacre.__version__}
    assert parts["solver"]["type"] == "SGD"
    assert state["origins"]["layer Dropout"]["distribution"] == "nacre"
    assert {"numpy", "h5py"} <= set(state["environment"])
    assert state["environment"]["backends"]["numpy"]["threads"] >= 1


def warnings_of(net: Net, snapshot: Snapshot, **fields: Any) -> list[str]:
    reports = Reports()
    with solver(**fields).start(net, [reports]) as training:
        training.restore(snapshot)
    return [report["message"] for report in reports["warning"] if "nothing is left" not in report["message"]]


def test_the_same_training_warns_of_nothing() -> None:
    assert warnings_of(toy_net(), saved(solver().solve(toy_net()))) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"environment": {"backends": {"numpy": {"threads": 999}}}}, "backend numpy: threads was 999, is"),
        ({"environment": {"backends": {"numpy": {"blas": "MKL"}}}}, "backend numpy: blas was MKL, is"),
        ({"environment": {"h5py": "0.1"}}, "h5py was 0.1, is"),
        ({"environment": {"variables": {"OPENBLAS_CORETYPE": "Zen"}}}, "'OPENBLAS_CORETYPE': 'Zen'"),
        (
            {"parts": {"layer.ip1": {"type": "InnerProduct", "distribution": "nacre", "version": "0.0.1"}}},
            f"nacre was 0.0.1, is {nacre.__version__}",
        ),
        (
            {"parts": {"callback.Recorder": {"type": "Recorder", "distribution": "theirs", "version": "1"}}},
            f"callback.Recorder was Recorder of theirs, is Recorder of {__name__}",
        ),
        ({"plan": {"layout": {"of": "new"}}}, "the net was not made with plan=snapshot.state['plan']"),
    ],
)
def test_another_machine_or_another_version_is_a_warning(change: dict[str, Any], words: str) -> None:
    snapshot = solver().solve(toy_net()).snapshot()
    (message,) = warnings_of(
        toy_net(), Snapshot(20, snapshot.arrays, snapshot.state | change), callbacks=[Recorder(name="n")]
    )
    assert message.startswith("the resumed training may not be the same bit for bit: ")
    assert words in message


def test_a_difference_is_one_of_pythons_warnings_where_nobody_listens() -> None:
    snapshot = solver().solve(toy_net()).snapshot()
    with solver().start(toy_net(seed=3)) as training:
        with pytest.warns(UserWarning, match="seed was 0, is 3|max_iter=20 is already reached") as warned:
            training.restore(snapshot)
        assert len(warned) == 2
        with pytest.warns(UserWarning, match="of a callback"):
            training.report("warning", message="of a callback")


@pytest.mark.parametrize("key", ["platform", "cpu_count", "thread_variables"])
def test_what_decides_no_bit_is_no_warning(key: str) -> None:
    snapshot = solver().solve(toy_net()).snapshot()
    state = snapshot.state | {"environment": snapshot.state["environment"] | {key: "another"}}
    assert warnings_of(toy_net(), Snapshot(20, snapshot.arrays, state)) == []


def test_another_number_of_threads_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = saved(solver().solve(toy_net()))
    net = toy_net()
    count = net.backend.pool.count
    monkeypatch.setattr(net.backend.pool, "count", count + 1)
    (message,) = warnings_of(net, snapshot)
    assert f"backend numpy: threads was {count}, is {count + 1}" in message


def test_a_plan_that_was_given_and_not_followed_is_told_so() -> None:
    snapshot = solver().solve(toy_net()).snapshot()
    state = snapshot.state | {"plan": {"layout": {"of": "new"}}}
    net = toy_net(plan=state["plan"])
    assert warnings_of(net, Snapshot(20, snapshot.arrays, state)) == []
    net.plan["layout"] = {"of": "old"}  # as a backend that cannot follow it
    (message,) = warnings_of(net, Snapshot(20, snapshot.arrays, state))
    assert "the backend could not follow the plan of the snapshot" in message
    assert "plan=snapshot" not in message
    assert state["plan"] == {"layout": {"of": "new"}}  # the net has a copy of its own


def test_fields_that_were_others_are_named() -> None:
    def net(batch_size: int, ratio: float, paths: str) -> Net:
        layers = toy_layers(batch_size=batch_size)
        layers[4] = DropoutLayer(name="drop", bottoms="norm", ratio=ratio)
        layers[1] = Filed(name="check", tops=["data", "label"], files=paths, exclude=["train"])
        layers.append(Filed(name="filed", tops="more", files=paths, exclude=["test"]))
        return Net("toy", layers, dtype="float64", backend="numpy")

    snapshot = saved(solver(regu_coef=0.1).solve(net(10, 0.3, "/here/train.h5")))
    assert warnings_of(net(10, 0.3, "/there/train.h5"), snapshot, regu_coef=0.1, max_iter=99) == []
    message = warnings_of(net(5, 0.5, "/here/other.h5"), snapshot, algorithm="BP", check_finite=False)[-1]
    assert message == (
        "the training has changed since the snapshot: trained with batch_size=10 of layer 'train', now 5; "
        "trained with ratio=0.3 of layer 'drop', now 0.5; "
        """trained with files=["/here/train.h5"] of layer 'filed', now ["/here/other.h5"]; """
        "trained with regu_coef=0.1, now 0.0"
    )


def test_layers_that_came_or_went_are_named() -> None:
    snapshot = saved(solver().solve(toy_net()))

    def net(name: str) -> Net:
        layers = toy_layers()
        layers[4] = ActivationLayer(name=name, bottoms="norm", tops="passed", neuron=Identity())
        layers[5] = InnerProductLayer(bottoms="passed", tops="ip2", output_dim=8, param_key="shared")
        return Net("toy", layers, dtype="float64", backend="numpy")

    (message,) = warnings_of(net("new"), snapshot)
    assert "layer 'new' is new" in message
    assert "layer 'drop' is no longer there" in message
    (message,) = warnings_of(net("drop"), snapshot)
    assert "layer 'drop' was of type Dropout, is of type Activation" in message


@pytest.mark.parametrize(
    "nonsense",
    [{"parts": {"layer.ip1": 3}}, {"layers": [{}]}, {"layers": 3}, {"settings": 3}, {"environment": {"backends": 3}}],
)
def test_a_snapshot_with_a_strange_description_is_refused(nonsense: dict[str, Any]) -> None:
    snapshot = solver().solve(toy_net()).snapshot()
    with pytest.raises(SnapshotError, match=r"cannot be read|but in a snapshot it must be a"):
        warnings_of(toy_net(), Snapshot(3, snapshot.arrays, snapshot.state | nonsense))


def shared_net(phase: str = "train", first: str = "ip2") -> Net:
    """Return a net in which `ip2` and `ip3` are one; `ip2` is absent in phase test, or comes second."""
    source = MemoryDataLayer(name="in", tops=["x", "label"], data=[np.eye(6, 5), np.arange(6) % 3], batch_size=6)
    same = {"output_dim": 5, "param_key": "shared"}
    two = {
        "ip2": InnerProductLayer(name="ip2", bottoms="x", tops="y", exclude=["test"], **same),
        "ip3": InnerProductLayer(name="ip3", bottoms="x", tops="z", **same),
    }
    heads = [
        InnerProductLayer(name="a", bottoms="y", tops="a", output_dim=3, exclude=["test"]),
        InnerProductLayer(name="b", bottoms="z", tops="b", output_dim=3),
        SoftmaxLossLayer(name="loss-a", bottoms=["a", "label"], exclude=["test"]),
        SoftmaxLossLayer(name="loss-b", bottoms=["b", "label"]),
    ]
    pair = [two.pop(first), *two.values()]
    return Net("shared", [source, *pair, *heads], dtype="float64", backend="numpy", phase=phase, insert_splits=True)


def test_a_shared_parameter_is_found_by_any_sharers_name() -> None:
    trained = shared_net()
    snapshot = saved(solver().solve(trained))
    assert "parameters/ip2/weight" in snapshot.arrays and "parameters/ip3/weight" not in snapshot.arrays
    test = shared_net("test")
    assert list(test.parameters) == ["ip3/weight", "ip3/bias", "b/weight", "b/bias"]
    with pytest.raises(SnapshotError, match="'a/weight' is not in the net"):
        load_parameters(test, snapshot)
    load_parameters(test, snapshot, strict=False)
    assert np.array_equal(test.parameters["ip3/weight"].value, trained.parameters["ip2/weight"].value)


def test_a_training_goes_on_whichever_sharer_comes_first() -> None:
    whole = shared_net()
    solver(max_iter=8).solve(whole)
    snapshot = saved(solver(max_iter=5).solve(shared_net()))
    other = shared_net(first="ip3")
    assert "ip3/weight" in list(other.parameters)
    solver(max_iter=8).solve(other, resume=snapshot)
    expected = whole.parameters["ip2/weight"].value
    np.testing.assert_allclose(other.parameters["ip3/weight"].value, expected, rtol=1e-12)


def test_parameters_that_are_not_strict_must_still_be_there() -> None:
    snapshot = solver().solve(toy_net()).snapshot()
    arrays = {name: array for name, array in snapshot.arrays.items() if name != "parameters/ip4/bias"}
    with pytest.raises(SnapshotError, match="'ip4/bias' is missing"):
        load_parameters(toy_net(), Snapshot(3, arrays, snapshot.state), strict=False)


def test_parameters_that_were_not_shared_cannot_become_one() -> None:
    snapshot = solver().solve(shared_net()).snapshot()
    own = {f"parameters/ip3/{name}": snapshot.arrays[f"parameters/ip2/{name}"] for name in ("weight", "bias")}
    with pytest.raises(SnapshotError, match=r"'ip2/weight' is shared .*: ip2/weight, ip3/weight"):
        load_parameters(shared_net(), Snapshot(3, snapshot.arrays | own, snapshot.state | {"aliases": {}}))


# Statistics of the training net


def counting_net() -> Net:
    layers = [
        MemoryDataLayer(name="in", tops=["x", "label"], data=[np.eye(6, 5), np.arange(6) % 3], batch_size=6),
        InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["y", "label"]),
    ]
    return Net("counting", layers, backend="numpy", insert_splits=True)


def test_statistics_of_a_training_net_are_those_since_the_last_summary() -> None:
    reports = Reports()
    callbacks = [TrainingSummary(every_n_iter=8), TrainingSummary(every_n_iter=8)]
    training = solver(callbacks=callbacks).solve(counting_net(), reports=[reports])
    told = [(report["iteration"], report["statistics"]["accuracy"]["records"]) for report in reports["summary"]]
    assert told == [(8, 48), (8, 48), (16, 48), (16, 48), (20, 24), (20, 24)]
    assert training.statistics["train"]["accuracy"]["records"] == 24


def test_a_training_that_goes_back_counts_anew_from_there() -> None:
    taken: list[Snapshot] = []

    def turn_back(training: Training) -> None:
        if training.iteration == 2:
            taken.append(saved(training))
        elif training.iteration == 3 and len(taken) == 1:
            taken.append(taken[0])
            training.go_back(taken[0])

    reports = Reports()
    callbacks = [Recorder(every_n_iter=1, what=turn_back), TrainingSummary(every_n_iter=4)]
    solver(callbacks=callbacks, max_iter=4).solve(counting_net(), reports=[reports])
    assert [one["statistics"]["accuracy"]["records"] for one in reports["summary"]] == [2 * 6]


def test_statistics_of_a_training_net_without_a_summary_are_those_of_the_run() -> None:
    net = counting_net()
    net.forward()
    training = solver().start(net)
    training.run()
    assert training.statistics["train"]["accuracy"]["records"] == 120
    assert solver().solve(toy_net(), quiet=True).statistics == {}


@pytest.mark.parametrize(
    ("score", "value", "beats"),
    [
        (Score(1, 0.9), None, True),
        (Score(1, 0.9), 0.9, False),
        (Score(1, 0.9), 0.8, True),
        (Score(1, float("inf")), 0.8, False),
        (Score(1, 0.1), float("inf"), True),
        (Score(1, float("-inf"), higher_better=False), None, False),
        (Score(1, 0.9, higher_better=False), 0.8, False),
        (Score(1, 0.7, higher_better=False), 0.8, True),
        (Score(1, float("nan")), 0.8, False),
        (Score(1, float("nan")), None, False),
        (Score(1, 0.1), float("nan"), True),
    ],
)
def test_scores(score: Score, value: float | None, beats: bool) -> None:
    assert score.beats(value) is beats


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda training: training.stop(""), r"training.stop\(''\), but the reason must be a text"),
        (lambda training: training.stop(5), r"training.stop\(5\), but the reason must be a text"),
        (lambda training: training.stop(), "training.stop: missing a required argument: 'reason'"),
        (lambda training: training.hold(5), r"training.hold\(5\), but it needs a function of a snapshot"),
        (lambda training: training.go_back(), "training.go_back: missing a required argument: 'snapshot'"),
        (lambda training: setattr(training, "score", Score(1, "good")), "but it must be a Score of a number"),  # type: ignore[arg-type]
    ],
)
def test_what_callbacks_call_wrongly_is_told_at_once(use: Callable[[Any], object], words: str) -> None:
    with solver().start(toy_net()) as training, pytest.raises(NacreError, match=words):
        use(training)


def test_spans_join_what_lies_together_but_never_reach_over_a_frozen_parameter() -> None:
    def spans(change: Callable[[Net], None]) -> list[list[str]]:
        net = Net(
            "spans",
            [
                MemoryDataLayer(
                    name="in", tops=["x", "label"], data=[np.ones((4, 20)), np.arange(4) % 3], batch_size=4
                ),
                InnerProductLayer(bottoms="x", tops="a", output_dim=20),
                InnerProductLayer(bottoms="a", tops="b", output_dim=20, bias_init=Constant(value=1.0)),
                InnerProductLayer(bottoms="b", tops="c", output_dim=3),
                SoftmaxLossLayer(name="loss", bottoms=["c", "label"]),
            ],
            backend="numpy",
        )
        change(net)
        with solver().start(net) as training:
            return [[piece.name for piece in span.pieces] for span in training.spans]

    c, b, a = ([f"{name}/{which}" for which in ("bias", "weight")] for name in "cba")
    assert spans(lambda net: None) == [[*c, *b, *a]]
    assert spans(lambda net: net.freeze("b")) == [c, a]


def test_anybody_can_offer_a_kernel_for_a_regulariser(new_registry: NewRegistry) -> None:
    from nacre import ComponentKernel, register_kernel
    from nacre_layers.regularizers import L1

    new_registry()

    class Twice(ComponentKernel):
        def add_gradient(self, backend, value, gradient, coefficient):
            gradient += 2 * coefficient * np.sign(value)

    def weights(coefficient):
        layers = [
            InputLayer(name="in", tops="x", shape=3, batch_size=2),
            InputLayer(name="labels", tops="label", batch_size=2),
            InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=2, weight_regu=L1()),
            SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
        ]
        net = Net("net", layers, backend="numpy", dtype="float64")
        net.write("x", np.ones((2, 3)))
        net.write("label", [0, 1])
        Solver(SGD(), max_iter=1, lr_policy=0.1, regu_coef=coefficient).solve(net)
        return net.parameters["ip/weight"].value

    expected = weights(0.2)
    register_kernel(Twice, "regularizer/L1", "numpy")
    np.testing.assert_allclose(weights(0.1), expected, rtol=1e-12)
