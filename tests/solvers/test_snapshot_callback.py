"""The Snapshot callback: what is kept, what is best, what is put aside, and how a restart finds it."""

import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import (
    Callback,
    CallbackState,
    ConfigError,
    Net,
    NotFiniteError,
    PluginError,
    SnapshotError,
    Solver,
    Training,
)
from nacre.files import durable
from nacre.snapshots.folder import SnapshotFolder, load_snapshot
from nacre_data import HDF5Store, MemoryDataLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_onednn.backend import OnednnBackend
from nacre_solvers import SGD, Adam, Snapshot, TrainingSummary, ValidationPerformance
from toy_training import Reports, pulled_net, toy_net, weights


def solver(*callbacks: Any, **fields: Any) -> Solver:
    return Solver(SGD(), **{"max_iter": 20, "lr_policy": 0.1, "momentum_policy": 0.9, "callbacks": callbacks, **fields})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in (".lock", ".nacre"))


def numbers(folder: Path) -> list[int]:
    return [int(path.stem[-6:]) for path in SnapshotFolder(folder, HDF5Store()).files()]


class At(Callback):
    """Does something after an iteration."""

    iteration: int
    what: Any

    def start(self, training: Training) -> CallbackState:
        return AtState(self, training)


class AtState(CallbackState):
    def due(self, epochs: int) -> bool:
        return self.training.iteration == self.callback.iteration

    def run(self) -> None:
        self.callback.what(self.training)


# Keeping


def test_the_newest_are_kept_and_the_last_iteration_is_saved(tmp_path: Path) -> None:
    reports = Reports()
    training = solver(Snapshot(folder=tmp_path, every_n_iter=3, keep=2)).solve(pulled_net(), reports=[reports])
    assert numbers(tmp_path) == [18, 20]
    assert [report["iteration"] for report in reports["snapshot"]] == [3, 6, 9, 12, 15, 18, 20]
    assert training.snapshot_path == reports["snapshot"][-1]["path"] == str(tmp_path / "snapshot-000020.h5")


def test_the_last_iteration_is_not_saved_twice(tmp_path: Path) -> None:
    reports = Reports()
    solver(Snapshot(folder=tmp_path, every_n_iter=10)).solve(pulled_net(), reports=[reports])
    assert [report["iteration"] for report in reports["snapshot"]] == [10, 20]


@pytest.mark.parametrize("first", ["snapshot", "validation"])
def test_the_best_is_kept_wherever_it_stands_in_the_list(tmp_path: Path, first: str) -> None:
    callbacks = [
        Snapshot(folder=tmp_path, every_n_iter=2, keep=1),
        ValidationPerformance(every_n_iter=2, best="loss", higher_better=False),
    ]
    reports = Reports()
    ordered = callbacks if first == "snapshot" else callbacks[::-1]
    training = solver(*ordered, lr_policy=1.5).solve(toy_net(), reports=[reports])  # so that it gets worse again
    history = training.history["validation"]
    losses = dict(zip(history["iteration"].tolist(), history["loss"].tolist(), strict=True))
    best = min(losses, key=lambda iteration: losses[iteration])
    assert best < 20, "the test needs a best one that is not the last"
    assert numbers(tmp_path) == [best, 20]
    marker = json.loads((tmp_path / "best.json").read_bytes())
    assert (marker["iteration"], marker["value"]) == (best, losses[best])
    assert [report["iteration"] for report in reports["snapshot"] if report["best"]][-1] == best


def test_the_snapshot_of_an_iteration_remembers_its_validation(tmp_path: Path) -> None:
    callbacks = [Snapshot(folder=tmp_path, every_n_iter=10, keep=5), ValidationPerformance(every_n_iter=5)]
    solver(*callbacks).solve(toy_net())
    resume = load_snapshot(tmp_path / "snapshot-000010.h5", HDF5Store(), pytest.fail)
    with solver(ValidationPerformance()).start(toy_net()) as training:
        training.restore(resume)
        assert training.history["validation"]["iteration"].tolist() == [5, 10]


def test_a_relative_folder_starts_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    training = solver(Snapshot()).solve(pulled_net())
    assert training.snapshot_path == str(Path("snapshots", "snapshot-000020.h5"))
    assert names(tmp_path / "snapshots") == ["run.json", "snapshot-000020.h5"]


# Restarts


def test_a_resumed_training_keeps_the_best_of_before(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"

    def train(folder: Path, max_iter: int, resume: bool = False) -> bytes:
        callbacks = [
            ValidationPerformance(every_n_iter=1, best="loss", higher_better=False),
            Snapshot(folder=folder, every_n_iter=1, keep=2),
        ]
        net = toy_net()
        snapshot = load_snapshot(folder, HDF5Store(), pytest.fail) if resume else None
        solver(*callbacks, max_iter=max_iter, lr_policy=1.5).solve(net, resume=snapshot)
        return weights(net)

    expected = train(whole, 20)
    train(parts, 9)
    train(parts, 14, resume=True)
    assert train(parts, 20, resume=True) == expected
    assert names(parts) == names(whole)
    assert (parts / "best.json").read_bytes() == (whole / "best.json").read_bytes()


def test_what_an_abandoned_training_saved_later_is_put_aside(tmp_path: Path) -> None:
    callbacks = [
        ValidationPerformance(every_n_iter=5, best="accuracy/records", higher_better=True),
        Snapshot(folder=tmp_path, every_n_iter=5, keep=9),
    ]
    solver(*callbacks).solve(toy_net())
    before = (tmp_path / "snapshot-000020.h5").read_bytes()
    resume = load_snapshot(tmp_path / "snapshot-000010.h5", HDF5Store(), pytest.fail)
    reports = Reports()
    solver(*callbacks, max_iter=12, lr_policy=0.05).solve(toy_net(), resume=resume, reports=[reports])
    assert numbers(tmp_path) == [5, 10, 12]
    assert names(tmp_path / "aside-1") == ["snapshot-000015.h5", "snapshot-000020.h5"]
    assert (tmp_path / "aside-1" / "snapshot-000020.h5").read_bytes() == before
    changed, message = (report["message"] for report in reports["warning"])
    assert 'trained with lr_policy={"type": "Fixed", "base": 0.1}, now {"type": "Fixed", "base": 0.05}' in changed
    assert message.startswith("the snapshots of another training, snapshot-000015.h5 to snapshot-000020.h5, ")
    assert load_snapshot(tmp_path, HDF5Store(), pytest.fail).iteration == 12


def test_they_are_put_aside_before_the_first_iteration(tmp_path: Path) -> None:
    solver(Snapshot(folder=tmp_path, every_n_iter=5)).solve(pulled_net())
    resume = load_snapshot(tmp_path / "snapshot-000010.h5", HDF5Store(), pytest.fail)

    def stop(_: Training) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="was moved to"):
        solver(Snapshot(folder=tmp_path), At(iteration=11, what=stop)).solve(pulled_net(), resume=resume)
    assert numbers(tmp_path) == [10]


def test_a_new_training_puts_all_of_another_aside_with_its_best(tmp_path: Path) -> None:
    callbacks = [ValidationPerformance(best="accuracy/records", higher_better=True), Snapshot(folder=tmp_path)]
    solver(*callbacks).solve(toy_net())
    for number in (1, 2):
        with pytest.warns(UserWarning, match=f"snapshot-000020.h5, was moved to .*aside-{number}"):
            solver(*callbacks).solve(toy_net())
    assert names(tmp_path) == ["aside-1", "aside-2", "best.json", "run.json", "snapshot-000020.h5"]
    assert names(tmp_path / "aside-2") == ["snapshot-000020.h5"]
    reports = Reports()
    solver(*callbacks).solve(toy_net(), reports=[reports])
    (told,) = [one["message"] for one in reports["warning"]]
    assert told.startswith("the snapshot of another training, snapshot-000020.h5, was moved to ")
    assert json.loads((tmp_path / "best.json").read_bytes())["previous"] is None


def test_a_training_that_goes_on_from_another_folder_puts_all_aside(tmp_path: Path) -> None:
    """Those of earlier iterations were removed as if they were its own, or passed for them."""
    mine, others = tmp_path / "mine", tmp_path / "others"
    solver(Snapshot(folder=mine, every_n_iter=5)).solve(pulled_net())
    solver(Snapshot(folder=others, every_n_iter=5, keep=9)).solve(pulled_net())
    resume = load_snapshot(mine / "snapshot-000020.h5", HDF5Store(), pytest.fail)
    with pytest.warns(UserWarning, match="snapshot-000005.h5 to snapshot-000020.h5, were moved to"):
        solver(Snapshot(folder=others, every_n_iter=5), max_iter=30).solve(pulled_net(), resume=resume)
    assert numbers(others) == [25, 30]
    assert numbers(others / "aside-1") == [5, 10, 15, 20]
    (tmp_path / "link").symlink_to(mine)  # another name of the folder is no other folder
    resume = load_snapshot(tmp_path / "link" / "snapshot-000020.h5", HDF5Store(), pytest.fail)
    solver(Snapshot(folder=mine, every_n_iter=5, keep=9), max_iter=25).solve(pulled_net(), resume=resume)
    assert numbers(mine) == [10, 15, 20, 25]


def test_the_best_of_an_abandoned_training_is_none_of_this_one(tmp_path: Path) -> None:
    """A snapshot of the same name would else take over the mark of the one put aside."""
    judged = [ValidationPerformance(every_n_iter=5, best="loss", higher_better=False)]
    solver(*judged, Snapshot(folder=tmp_path, every_n_iter=5)).solve(toy_net())
    assert (tmp_path / "best.json").exists()
    with pytest.warns(UserWarning, match="were moved to"):
        solver(Snapshot(folder=tmp_path, every_n_iter=5)).solve(toy_net())
    assert not (tmp_path / "best.json").exists()


def test_nothing_left_to_train_writes_nothing_anew(tmp_path: Path) -> None:
    solver(Snapshot(folder=tmp_path)).solve(pulled_net())
    resume = load_snapshot(tmp_path, HDF5Store(), pytest.fail)
    reports = Reports()
    training = solver(Snapshot(folder=tmp_path)).solve(pulled_net(), resume=resume, reports=[reports])
    assert reports["snapshot"] == []
    assert training.snapshot_path == str(tmp_path / "snapshot-000020.h5")
    assert "max_iter=20 " in reports["warning"][0]["message"]


# What can go wrong


def test_a_training_that_cannot_note_how_it_is_run_moves_nothing(tmp_path: Path) -> None:
    solver(Snapshot(folder=tmp_path, every_n_iter=10)).solve(pulled_net())
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.json").mkdir()
    with pytest.raises(SnapshotError, match=r"run\.json: cannot be written"):
        solver(Snapshot(folder=tmp_path)).solve(pulled_net())
    assert names(tmp_path) == ["run.json", "snapshot-000010.h5", "snapshot-000020.h5"]


class NeverBegins(Callback):
    """Comes behind a callback that saves snapshots, and cannot begin."""

    runs_last = True

    def start(self, training: Training) -> CallbackState:
        return NeverBeginsState(self, training)


class NeverBeginsState(CallbackState):
    def begin(self) -> None:
        raise ConfigError("not today")


def test_a_training_whose_callbacks_cannot_all_begin_moves_nothing(tmp_path: Path) -> None:
    solver(Snapshot(folder=tmp_path)).solve(pulled_net())
    with pytest.raises(ConfigError, match="not today"):
        solver(Snapshot(folder=tmp_path), NeverBegins()).solve(pulled_net())
    assert numbers(tmp_path) == [20]


def test_two_callbacks_for_one_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"callbacks: .*/here"):
        solver(Snapshot(folder="here", every_n_iter=2), Snapshot(folder=tmp_path / "here"))


def test_the_folder_is_locked_from_before_the_training_to_its_end(tmp_path: Path) -> None:
    with (
        solver(Snapshot(folder=tmp_path)).start(pulled_net()),
        pytest.raises(SnapshotError, match=f"process {os.getpid()}"),
    ):
        solver(Snapshot(folder=tmp_path)).solve(pulled_net())
    solver(Snapshot(folder=tmp_path)).solve(pulled_net())
    with pytest.warns(UserWarning, match="was moved to"):
        solver(Snapshot(folder=tmp_path)).solve(pulled_net())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_rest_is_trained_later(tmp_path: Path, number: int) -> None:
    whole, net = toy_net(), toy_net()
    solver().solve(whole)
    kill = At(iteration=7, what=lambda _: os.kill(os.getpid(), number))
    with pytest.warns(UserWarning, match=r" 7 iterations.*000007"):
        stopped = solver(kill, Snapshot(folder=tmp_path)).solve(toy_net())
    assert stopped.stopped == signal.Signals(number).name
    assert numbers(tmp_path) == [7]
    resume = load_snapshot(tmp_path, HDF5Store(), pytest.fail)
    solver(Snapshot(folder=tmp_path)).solve(net, resume=resume)
    assert weights(net) == weights(whole)


def test_bad_numbers_overwrite_no_snapshot(tmp_path: Path) -> None:
    gradients = (*(((1.0,),) * 7), (float("nan"),))
    with pytest.raises(NotFiniteError) as caught:
        solver(Snapshot(folder=tmp_path, every_n_iter=1)).solve(pulled_net(gradients=gradients))
    assert numbers(tmp_path) == [5, 6, 7]
    assert str(tmp_path / "snapshot-000007.h5") in caught.value.remedy
    with SnapshotFolder(tmp_path, HDF5Store()):
        pass  # the lock is given back


class Remembering(Callback):
    """Remembers a number that the training has after its third iteration."""

    number: Any

    def start(self, training: Training) -> CallbackState:
        state = CallbackState(self, training)
        state.memory = lambda: {"number": self.number if training.iteration == 3 else 0.0}  # type: ignore[method-assign]
        state.due = lambda epochs: False  # type: ignore[method-assign]
        return state


@pytest.mark.parametrize("number", [float("inf"), float("nan"), np.array([1.0, -np.inf]), np.float32("nan")])
def test_nothing_remembered_that_is_not_finite_is_saved(tmp_path: Path, number: Any) -> None:
    message = r"after 3 iterations.*'memory/callback\.Remembering/number'"
    with pytest.raises(NotFiniteError, match=message):
        solver(Remembering(number=number), Snapshot(folder=tmp_path, every_n_iter=1)).solve(pulled_net())
    assert numbers(tmp_path) == [1, 2]


def test_no_history_that_is_not_finite_is_saved(tmp_path: Path) -> None:
    """A square that overflows: the update itself is 0, so that nothing else shows it."""
    net = pulled_net(gradients=((1.0,), (1e30,), (1.0,), (1.0,)), dtype="float32")
    saver = [Snapshot(folder=tmp_path, every_n_iter=1)]
    with pytest.raises(NotFiniteError, match=r"'history/.*pull/w'"):
        Solver(Adam(), max_iter=4, callbacks=saver).solve(net)
    assert numbers(tmp_path) == [1]


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_a_buffer_that_is_not_finite_ends_the_training_at_once(tmp_path: Path, backend: str) -> None:
    """The variance overflows, by which all is divided: the loss and all gradients are finite."""
    if backend == "onednn" and (why := OnednnBackend.unusable()):
        pytest.skip(why)
    data = np.ones((8, 2, 4, 4))
    data[4:] = 1e25
    data[4] = -1e25
    for callbacks in ([], [Snapshot(folder=tmp_path, every_n_iter=1)]):
        layers = [
            MemoryDataLayer(name="in", tops=["x", "label"], data=[data, np.arange(8) % 2], batch_size=4),
            BatchNormLayer(name="norm", bottoms="x", tops="norm"),
            InnerProductLayer(bottoms="norm", tops="y", output_dim=2),
            SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
        ]
        net = Net("normed", layers, backend=backend)
        with pytest.raises(NotFiniteError, match=r"iteration 1: .* 'norm/\w+' of layer 'norm'"):
            solver(*callbacks).solve(net)
    assert numbers(tmp_path) == [1]


@pytest.mark.parametrize(
    ("error", "told", "saved"), [(ZeroDivisionError, PluginError, [5, 7]), (NotFiniteError, NotFiniteError, [5])]
)
def test_a_callback_that_fails_takes_no_iteration_with_it(
    tmp_path: Path, error: Any, told: Any, saved: list[int]
) -> None:
    def fail(_: Training) -> None:
        raise error("no such number")

    with pytest.raises(told, match="no such number"):
        solver(Snapshot(folder=tmp_path, every_n_iter=5), At(iteration=7, what=fail)).solve(pulled_net())
    assert numbers(tmp_path) == saved


def test_a_full_disk_is_told_and_leaves_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def write(self, *_: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    fill = At(iteration=7, what=lambda _: monkeypatch.setattr(durable, "_os", Full()))
    with pytest.raises(SnapshotError, match=r"snapshot-000008\.h5: cannot be written: No space.*\n  free some space"):
        solver(fill, Snapshot(folder=tmp_path, every_n_iter=4)).solve(pulled_net())
    assert names(tmp_path) == ["run.json", "snapshot-000004.h5"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"keep": 0}, "keep=0, but it must be above 0"),
        ({"folder": 3}, "folder=3, but it must be a path"),
        ({"folder": ""}, "folder='', but it must be a path"),
        ({"every_n_iter": -1}, "every_n_iter=-1"),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Snapshot(**fields)


def test_how_it_was_run_is_noted(tmp_path: Path) -> None:
    callbacks = [Snapshot(folder=tmp_path, every_n_iter=10), TrainingSummary()]
    net = toy_net(dtype="float32")
    with solver(*callbacks).start(net) as training:
        training.info["command"] = ["nacre", "train", "toy.toml"]
        training.run()
    run = json.loads((tmp_path / "run.json").read_bytes())
    assert run["command"] == ["nacre", "train", "toy.toml"]
    assert run["resumed_from"] is None
    assert run["net"]["layers"][2] == {
        "type": "InnerProduct",
        "name": "ip1",
        "bottoms": ["data"],
        "tops": ["ip1"],
        "output_dim": 8,
        "neuron": "Sigmoid",
        "weight_lr": 2.0,
    }
    assert run["solver"]["callbacks"][1] == "TrainingSummary"
    assert run["parts"]["layer.ip1"]["kernel"].startswith("nacre_numpy")
    assert {"name", "version", "status"} == set(run["plugins"][0])
    assert {"python", "numpy", "nacre", "processor"} <= set(run["environment"])
    assert run["origins"]["callback TrainingSummary"]["distribution"] == "nacre"
    assert run["environment"]["backends"]["numpy"]["threads"] >= 1
