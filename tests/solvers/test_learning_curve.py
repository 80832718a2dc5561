"""The learning curve: a picture where matplotlib is there, else a table."""

import csv
import os
import sys
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, NacreError, Solver
from nacre_solvers import SGD, LearningCurve, StatisticsStore, ValidationPerformance
from nacre_solvers.learning_curve import ENDINGS, is_curve, picture, table
from resuming import saved
from toy_training import Reports, toy_net


def solver(*callbacks: Any, **fields: Any) -> Solver:
    return Solver(SGD(), **{"max_iter": 250, "lr_policy": 0.1, "callbacks": callbacks, **fields})


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
@pytest.mark.parametrize("validated", [True, False])
def test_a_picture_is_drawn_at_the_end(tmp_path: Path, suffix: str, start: bytes, validated: bool) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve.{suffix}"
    reports = Reports()
    validation = [ValidationPerformance(every_n_iter=50), ValidationPerformance(phase="test")] if validated else []
    training = solver(*validation, LearningCurve(path=path)).solve(toy_net(), reports=[reports])
    assert path.read_bytes().startswith(start)
    assert training.info["curve"] == str(path)
    assert reports["warning"] == []


def test_it_is_drawn_on_the_way_if_wanted(tmp_path: Path) -> None:
    path = tmp_path / "curve.png"
    there: list[int] = []
    curve = LearningCurve(path=path, every_n_iter=100)
    net = toy_net()

    def listen(event: str, data: dict[str, Any]) -> None:
        if event == "step" and path.exists():
            there.append(data["iteration"])

    solver(curve).solve(net, reports=[listen])
    assert there[0] == 101


def test_a_training_that_ends_at_once_has_an_empty_picture(tmp_path: Path) -> None:
    training = solver(LearningCurve(path=tmp_path / "curve.png")).start(toy_net())
    training.stop("no time")
    training.run()
    assert Path(training.info["curve"]).exists()


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("without_matplotlib")
def test_a_table_without_matplotlib(tmp_path: Path) -> None:
    reports = Reports()
    callbacks = [ValidationPerformance(every_n_iter=100), LearningCurve(path=tmp_path / "curve.png", every_n_iter=100)]
    training = solver(*callbacks).solve(toy_net(), reports=[reports])
    assert training.info["curve"] == str(tmp_path / "curve.csv")
    (warning,) = reports["warning"]  # not one at each drawing
    assert "pip install 'nacre[plots]'" in warning["message"]
    rows = read(tmp_path / "curve.csv")
    assert list(rows[0]) == ["iteration", "training loss", "validation loss", "validation accuracy"]
    assert [int(row["iteration"]) for row in rows] == list(range(2, 251, 2))
    found = {int(row["iteration"]): row for row in rows if row["validation loss"]}
    history = training.history["validation"]
    assert list(found) == history["iteration"].tolist()
    assert [float(row["validation loss"]) for row in found.values()] == history["loss"].tolist()
    assert [float(row["validation accuracy"]) for row in found.values()] == history["accuracy/accuracy"].tolist()


@pytest.mark.filterwarnings("ignore:matplotlib is not installed")
@pytest.mark.usefixtures("without_matplotlib")
@pytest.mark.parametrize(
    ("ends", "iterations", "points"),
    [({"max_iter": 250}, 100, [*range(2, 251, 2)]), ({"max_iter": None, "max_epoch": 52}, 220, [*range(2, 246, 2)])],
    ids=["of known length", "of unknown length"],
)
def test_the_curve_goes_on_after_a_restart(
    tmp_path: Path, ends: dict[str, Any], iterations: int, points: list[int]
) -> None:
    curve = LearningCurve(path=tmp_path / "curve.png")
    solver(curve, **ends).solve(toy_net())
    expected = read(tmp_path / "curve.csv")
    (tmp_path / "curve.csv").unlink()
    with solver(curve, **ends).start(toy_net()) as first:
        for _ in range(iterations):
            first.step()
            for state in first.callbacks:
                if state.due(0):
                    state.run()
        snapshot = saved(first)
    solver(curve, **ends).solve(toy_net(), resume=snapshot)
    again = read(tmp_path / "curve.csv")
    assert [int(row["iteration"]) for row in again] == [int(row["iteration"]) for row in expected] == points
    for one, other in zip(again, expected, strict=True):
        assert float(one["training loss"]) == pytest.approx(float(other["training loss"]), rel=1e-9)


def test_a_table_leaves_blank_what_is_not_known() -> None:
    data = table({"training": ([1, 2], [0.5, 0.25]), "test": ([2], [0.75])}, {"test accuracy": ([2], [1.0])})
    assert data == b"iteration,training loss,test loss,test accuracy\n1,0.5,,\n2,0.25,0.75,1.0\n"


def test_what_cannot_be_written_is_a_warning_after_the_training(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    reports, path = Reports(), tmp_path / "none/curve.png"
    training = solver(LearningCurve(path=path), max_iter=3).solve(toy_net(), reports=[reports])
    assert training.iteration == 3
    assert "curve" not in training.info
    assert reports["warning"][0]["message"].startswith(f"{path}: ")
    with pytest.warns(UserWarning, match="the learning curve cannot be written"):
        solver(LearningCurve(path=path), max_iter=3).solve(toy_net())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks no files in this way")
@pytest.mark.parametrize(
    "callback", [partial(LearningCurve, path="curve.png"), partial(StatisticsStore, path="statistics.json")]
)
def test_two_trainings_at_once_do_not_write_one_file(
    callback: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with solver(callback(), max_iter=3).start(toy_net()) as first:
        with pytest.raises(NacreError, match=f"^{callback().path}: another training writes to this file"):
            solver(callback()).start(toy_net())
        first.run()
    solver(callback(), max_iter=3).solve(toy_net())
    assert os.listdir() == [callback().path]


def test_bad_fields() -> None:
    with pytest.raises(ConfigError, match="path=None, but it must be a path"):
        LearningCurve(path=None)
    with pytest.raises(ConfigError, match=r"path='curve.xyz', .*\.png, \.svg, "):
        LearningCurve(path="curve.xyz")


def test_every_ending_can_be_drawn() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    assert {ending[1:] for ending in ENDINGS} <= set(figures.Figure().canvas.get_supported_filetypes())


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_picture_bears_the_mark(ending: str) -> None:
    """Else a net file's next training could not replace it."""
    pytest.importorskip("matplotlib")
    curve = {"training": ([1, 2], [2.0, 1.0])}
    assert is_curve(BytesIO(picture("t", curve, {}, ending[1:])))
    assert is_curve(BytesIO(table(curve, {})))
    assert not is_curve(BytesIO(b"\x89PNG\r\n\x1a\n"))


def test_an_infinite_loss_is_no_reason_to_save_no_snapshot(tmp_path: Path) -> None:
    with solver(LearningCurve(path=tmp_path / "curve.png"), max_iter=2).start(toy_net()) as training:
        state = training.callbacks[0]
        state.iterations, state.losses = [1, 2], [1.5, float("inf")]  # type: ignore[attr-defined]
        snapshot = saved(training)
    with solver(LearningCurve(path=tmp_path / "curve.png"), max_iter=2).start(toy_net()) as again:
        again.restore(snapshot)
        assert again.callbacks[0].losses == [1.5, float("inf")]  # type: ignore[attr-defined]


def test_a_curve_from_a_snapshot_of_an_earlier_version(tmp_path: Path) -> None:
    with solver(LearningCurve(path=tmp_path / "curve.png")).start(toy_net()) as training:
        training.callbacks[0].remember({"iterations": np.array([1, 2]), "losses": np.array([0.5, 0.25])})
        assert training.callbacks[0].losses == [0.5, 0.25]  # type: ignore[attr-defined]
