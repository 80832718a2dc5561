"""Snapshots that somebody forged, with the right digest: whatever they say ends in a sentence, or in a training."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forging import forge, pack, trials
from nacre import NacreError, SnapshotError, Solver
from nacre.net.parameters import load_parameters
from nacre.snapshots.folder import load_snapshot
from nacre.snapshots.snapshot import Snapshot
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


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"layers": 3}, "state/layers is 3"),
        ({"layers": [3]}, "state/layers/0 is 3"),
        ({"layers": [{"name": "a"}]}, "state/layers/0/type is None"),
        (
            {"layers": [{"type": "A", "exclude": ["test", 3]}]},
            "state/layers/0/exclude/1 is 3",
        ),
        ({"memory": {"solver": [3]}}, r"state/memory/solver is \[3\]"),
        ({"memory": {"solver": {"count": None}}}, "state/memory/solver/count is None"),
        ({"aliases": {"a/w": 3}}, "state/aliases/a/w is 3"),
        ({"plan": []}, r"state/plan is \[\]"),
        ({"plan": {"onednn": "fast"}}, "state/plan/onednn is 'fast'"),
        ({"epochs": True}, "state/epochs is True"),
        ({"settings": {}}, "state/settings/type is None"),
        ({"freeze": "conv1"}, "state/freeze is 'conv1'"),
        ({"net": "x" * 1000}, None),
    ],
)
def test_what_a_state_holds_is_of_the_right_form(state: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "forged.h5"
    path.write_bytes(pack({"iteration": 3, "arrays": [], "state": state}, {}))
    if message is None:
        assert load_snapshot(path).state == state
    else:
        with pytest.raises(SnapshotError, match=f"^{re.escape(str(path))}: .*{message}"):
            load_snapshot(path)


def test_a_history_of_another_shape_is_refused(saved: tuple[str, Snapshot]) -> None:
    backend, snapshot = saved
    arrays = snapshot.arrays | {"history/mean/ip4/bias": np.zeros((3, 3))}
    forged = Snapshot(snapshot.iteration, arrays, snapshot.state)
    with (
        toy_net(backend=backend, dtype="float32") as net,
        Solver(Adam(), lr_policy=0.01).start(net) as training,
        pytest.raises(SnapshotError, match=r"history/mean/ip4/bias .*\(3, 3\).* \(3,\)"),
    ):
        training.restore(forged)


@pytest.mark.parametrize("wrong", [-1, 1.5, -(2**63), 2**63])
def test_a_count_that_is_none_is_refused_whoever_counts(
    saved: tuple[str, Snapshot], wrong: float, tmp_path: Path
) -> None:
    backend, snapshot = saved
    memories = snapshot.state["memory"]
    counts = [(owner, key) for owner in memories for key, value in memories[owner].items() if type(value) is int]
    assert len(counts) > 5
    options: dict[str, Any] = {"backend": backend, "dtype": "float32"}
    with toy_net(**options) as net, solver(tmp_path, 6).start(net) as training:
        for owner, key in counts:
            state = snapshot.state | {"memory": memories | {owner: memories[owner] | {key: wrong}}}
            with pytest.raises(SnapshotError, match=f"{key.rpartition('/')[2]}=|was made with .* records"):
                training.restore(Snapshot(snapshot.iteration, snapshot.arrays, state))


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
    try_all(saved, tmp_path, range(10))


@pytest.mark.long
def test_what_many_forged_snapshots_say_ends_in_a_sentence(saved: tuple[str, Snapshot], tmp_path: Path) -> None:
    try_all(saved, tmp_path, range(10, trials(600, 3000)))
