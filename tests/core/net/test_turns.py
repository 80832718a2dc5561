"""Several threads: `predict` takes turns, nothing else is done with a net by two at once, and nets do not disturb one
another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import Callback, CallbackState, Layer, NacreError, Names, Net, Solver
from nacre.training.training import Training
from nacre_data import MemoryDataLayer
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.initializers import Orthogonal
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.pooling.functions import Max
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_solvers import SGD, Snapshot, TrainingSummary, ValidationPerformance
from small_layers import PlainBackend, State

WAIT = 60
"""Seconds after which a test that hangs fails."""


class GateLayer(Layer, is_inplace=True):
    """Lets `pass_by` be called whenever its pass comes by."""

    bottoms: Names
    pass_by: Any = None


class GateState(State, of=GateLayer, reads=""):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(inputs[0])]

    def forward(self, inputs: list[Any]) -> None:
        self.layer.pass_by(self.phase)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """The gradient is the one above."""


class Gate:
    """Holds a thread that passes in a phase, until it is opened."""

    def __init__(self) -> None:
        self.phase = ""
        self.reached, self.open = threading.Event(), threading.Event()
        self.passed: list[str] = []

    def __call__(self, phase: str) -> None:
        if phase == self.phase:
            self.phase = ""
            self.reached.set()
            assert self.open.wait(WAIT)
        self.passed.append(phase)

    @contextmanager
    def holding(self, phase: str, work: Callable[[], Any]) -> Iterator[Future[Any]]:
        """Let another thread do `work`, and hold it in this phase's pass."""
        self.phase = phase
        self.reached.clear()
        self.open.clear()
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            try:
                assert self.reached.wait(WAIT)
                yield future
            finally:
                self.open.set()
                future.result(WAIT)


def small(gate: Callable[[str], None]) -> list[Layer]:
    numbers = np.random.default_rng(0)
    source: dict[str, Any] = {
        "tops": ["data", "label"],
        "data": [numbers.normal(size=(8, 3)), numbers.integers(0, 2, 8)],
    }
    return [
        MemoryDataLayer(name="source", exclude="predict", batch_size=4, **source),
        GateLayer(name="gate", bottoms="data", pass_by=gate),
        InnerProductLayer(name="a", bottoms="data", tops="a", output_dim=2),
        SoftmaxLossLayer(name="loss", bottoms=["a", "label"], exclude="predict"),
        SoftmaxLayer(name="prob", bottoms="a", tops="prob", exclude="train"),
    ]


RECORDS = np.random.default_rng(1).normal(size=(4, 3))


def predict(net: Net) -> Callable[[], Any]:
    return lambda: net.predict(RECORDS, "prob")


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def net(gate: Gate) -> Net:
    return Net("net", small(gate), backend=PlainBackend(), keep=("a",))


@dataclass
class Scene:
    """A net with what may be done to it."""

    net: Net
    held_out: Net
    training: Training
    snapshot: Any
    folder: Path


@pytest.fixture
def scene(net: Net, tmp_path: Path) -> Iterator[Scene]:
    Solver(SGD(), max_iter=1, callbacks=[Snapshot(every_n_iter=1, folder=str(tmp_path))]).solve(net)
    with Solver(SGD()).start(net) as training:
        yield Scene(net, net.derive("test"), training, training.snapshot(), tmp_path)


WORK: dict[str, Callable[[Scene], object]] = {
    "feed": lambda scene: scene.net.feed(),
    "forward": lambda scene: scene.net.forward(),
    "backward": lambda scene: scene.net.backward(),
    "write": lambda scene: scene.net.write("data", RECORDS),
    "blob": lambda scene: scene.net.blob("a"),
    "gradient": lambda scene: scene.net.gradient("a"),
    "value": lambda scene: setattr(scene.net.parameters["a/bias"], "value", np.zeros(2)),
}
COMPLETE: dict[str, Callable[[Scene], object]] = {
    "forward_epoch": lambda scene: scene.held_out.forward_epoch(),
    "load": lambda scene: scene.net.load(scene.folder),
    "step": lambda scene: scene.training.step(),
    "restore": lambda scene: scene.training.restore(scene.snapshot),
    "freeze": lambda scene: scene.held_out.freeze("a"),
    "unfreeze": lambda scene: scene.held_out.unfreeze("a"),
}
BUSY = "another thread .*net 'net'.*\n.*net.predict"


@pytest.mark.parametrize("inside", ["forward", "step", "a derived net's forward"])
@pytest.mark.parametrize("name", [*WORK, *COMPLETE])
def test_while_another_thread_is_at_work_nothing_else_is_done(scene: Scene, gate: Gate, name: str, inside: str) -> None:
    work = (WORK | COMPLETE)[name]
    works = {"forward": scene.net.forward, "step": scene.training.step}
    phase, held = ("train", works[inside]) if inside in works else ("test", scene.held_out.forward)
    with gate.holding(phase, held), pytest.raises(NacreError, match=BUSY):
        work(scene)
    work(scene)


@pytest.mark.parametrize("name", WORK)
def test_nor_while_another_thread_predicts(scene: Scene, gate: Gate, name: str) -> None:
    with gate.holding("predict", predict(scene.net)), pytest.raises(NacreError, match=BUSY):
        WORK[name](scene)
    WORK[name](scene)


@pytest.mark.parametrize("name", COMPLETE)
def test_what_is_complete_in_itself_waits_for_a_prediction(scene: Scene, gate: Gate, name: str) -> None:
    expected = scene.net.predict(RECORDS, "prob")
    with ThreadPoolExecutor(1) as pool, gate.holding("predict", predict(scene.net)) as prediction:
        waiting = pool.submit(COMPLETE[name], scene)
        until_somebody_waits(scene.net)
        assert not waiting.done()
        gate.open.set()
        waiting.result(WAIT)
        np.testing.assert_array_equal(prediction.result(WAIT), expected)


def until_somebody_waits(net: Net) -> None:
    while not net.turns._entrance.locked():  # pyright: ignore[reportPrivateUsage]
        threading.Event().wait(0)


def test_who_waits_comes_before_the_next_step(scene: Scene, gate: Gate) -> None:
    def train() -> None:
        for _ in range(3):
            scene.training.step()

    scene.net.predict(RECORDS, "prob")
    gate.passed.clear()
    with ThreadPoolExecutor(1) as pool, gate.holding("train", train):
        prediction = pool.submit(predict(scene.net))
        until_somebody_waits(scene.net)
        gate.open.set()
        prediction.result(WAIT)
    assert gate.passed == ["train", "predict", "train", "train"]


def test_the_same_thread_may_come_in_again(net: Net) -> None:
    found: list[Any] = []

    class Predict(Callback):
        """Predicts after every iteration."""

        def start(self, training: Training) -> CallbackState:
            state = CallbackState(self, training)
            state.run = lambda: found.append(training.net.predict(RECORDS, "prob"))
            return state

    validation = ValidationPerformance(every_n_iter=1, phase="test")
    Solver(SGD(), max_iter=2, callbacks=[Predict(every_n_iter=1), validation]).solve(net)
    assert len(found) == 2
    np.testing.assert_array_equal(net.predict(RECORDS, "prob"), found[-1])


def test_an_error_inside_lets_others_in(net: Net) -> None:
    with pytest.raises(NacreError, match="no blob 'nothing'"):
        net.blob("nothing")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(net.forward).result(WAIT)
    net.forward()


def test_nets_that_only_share_parameters_do_not_wait(net: Net, gate: Gate) -> None:
    other = Net("other", small(lambda phase: None), backend=net.backend, share=net)
    with gate.holding("train", net.forward):
        other.forward()
        other.predict(RECORDS, "prob")


# The same numbers as without threads


def pictures(seed: int) -> list[Layer]:
    numbers = np.random.default_rng(seed)
    source: dict[str, Any] = {
        "tops": ["data", "label"],
        "data": [numbers.normal(size=(24, 3, 9, 9)), numbers.integers(0, 3, 24)],
    }
    held_out: dict[str, Any] = {"exclude": ["train", "predict"], "batch_size": 5}
    return [
        MemoryDataLayer(name="train", exclude=["validation", "predict"], batch_size=8, shuffle=True, **source),
        MemoryDataLayer(name="held-out", **held_out, **source),
        ConvolutionLayer(name="conv", bottoms="data", tops="conv", n_filter=4 + seed, kernel=3, neuron=ReLU()),
        BatchNormLayer(name="norm", bottoms="conv", tops="norm"),
        PoolingLayer(name="pool", bottoms="norm", tops="pool", kernel=2, stride=2, pooling=Max()),
        InnerProductLayer(name="ip", bottoms="pool", tops="ip", output_dim=9, neuron=Tanh(), weight_init=Orthogonal()),
        DropoutLayer(name="drop", bottoms="ip"),
        InnerProductLayer(name="scores", bottoms="ip", tops="scores", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["scores", "label"], exclude="predict"),
        SoftmaxLayer(name="prob", bottoms="scores", tops="prob", exclude="train"),
    ]


BACKENDS = {"plain": PlainBackend(), "numpy": "numpy", "onednn": "onednn"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_predictions_of_four_threads_are_those_of_one(backend: str) -> None:
    net = Net("net", pictures(0), backend=BACKENDS[backend])
    numbers = np.random.default_rng(2)
    asked = [numbers.normal(size=(count, 3, 9, 9)) for count in (1, 3, 8, 19, 24)] * 5
    expected = [net.predict(records) for records in asked]
    fresh = Net("fresh", net.layers, backend=net.backend)  # whose derived nets the threads must make
    with ThreadPoolExecutor(4) as pool:
        for found, one in zip(pool.map(fresh.predict, asked), expected, strict=True):
            np.testing.assert_array_equal(found, one)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nets_trained_in_two_threads_become_those_of_serial_trainings(backend: str) -> None:
    plans: dict[int, Any] = {}

    def train(seed: int, together: Callable[[], object]) -> dict[str, Any]:
        together()
        net = Net("net", pictures(seed), backend=BACKENDS[backend], seed=seed, plan=plans.get(seed))
        plans[seed] = net.plan
        callbacks = [ValidationPerformance(every_n_iter=5), TrainingSummary(every_n_iter=5)]
        training = Solver(SGD(), max_iter=20, lr_policy=0.05, momentum_policy=0.9, callbacks=callbacks).solve(net)
        losses = training.history["validation"]["loss"]
        return {"losses": losses, **{name: handle.value for name, handle in net.parameters.items()}}

    expected = [train(seed, lambda: None) for seed in (0, 1)]
    barrier = threading.Barrier(2, timeout=WAIT)
    with ThreadPoolExecutor(2) as pool:
        for found, one in zip(pool.map(train, (0, 1), [barrier.wait] * 2), expected, strict=True):
            assert found.keys() == one.keys()
            for name, numbers in one.items():
                np.testing.assert_array_equal(found[name], numbers, err_msg=name)
