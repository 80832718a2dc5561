"""Snapshots that somebody forged, with the right digest: whatever they say ends in a sentence, or in a training."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from forging import forge, trials
from nacre import NacreError, Solver
from nacre.resume import load_parameters
from nacre.snapshot import Snapshot, load_snapshot
from nacre_solvers import Adam, DecayOnValidation, EarlyStopping, TrainingSummary, ValidationPerformance
from nacre_solvers import Snapshot as SaveSnapshot
from toy_training import toy_net


def solver(folder: Path, max_iter: int) -> Solver:
    callbacks = [
        TrainingSummary(every_n_iter=2),
        ValidationPerformance(every_n_iter=2, best="loss"),
        EarlyStopping(patience=99),
        SaveSnapshot(folder=folder / "saved", every_n_iter=2),
    ]
    policy = DecayOnValidation(base=0.01, go_back=True)
    return Solver(Adam(), max_iter=max_iter, lr_policy=policy, callbacks=callbacks)


@pytest.fixture(scope="module", params=["numpy", "onednn"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Snapshot]:
    folder = tmp_path_factory.mktemp("saved")
    try:
        with toy_net(backend=request.param, dtype="float32") as net:
            training = solver(folder, 4).solve(net)
    except NacreError as error:
        pytest.skip(str(error))
    return request.param, load_snapshot(training.snapshot_path)


def use(path: Path, backend: str) -> None:
    """Do with a snapshot all that is done with one: read it, test with it, begin with its weights, go on from it."""
    snapshot = load_snapshot(path)
    options: dict[str, Any] = {"backend": backend, "dtype": "float32"}
    with toy_net(phase="test", **options) as net:
        load_parameters(net, snapshot, strict=False)
    with toy_net(**options) as net:
        net.load(path, strict=False)
    with toy_net(plan=snapshot.state.get("plan"), **options) as net:
        solver(path.parent, min(snapshot.iteration, 1000) + 2).solve(net, resume=snapshot, reports=[lambda *_: None])


def try_all(saved: tuple[str, Snapshot], folder: Path, numbers: range) -> None:
    backend, snapshot = saved
    bugs: list[str] = []
    for number in numbers:
        data, told = forge(snapshot, number)
        path = folder / f"forged-{number}.h5"
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                use(path, backend)
            except NacreError:
                pass
            except Exception as error:
                bugs.append(f"{number}: {told}: {type(error).__name__}: {error}")
        path.unlink()
    assert not bugs, "\n".join(bugs)


def test_what_a_forged_snapshot_says_ends_in_a_sentence(saved: tuple[str, Snapshot], tmp_path: Path) -> None:
    try_all(saved, tmp_path, range(60))


@pytest.mark.long
def test_what_many_forged_snapshots_say_ends_in_a_sentence(saved: tuple[str, Snapshot], tmp_path: Path) -> None:
    try_all(saved, tmp_path, range(60, trials(600, 3000)))
