"""`nacre plot`: the curves of trainings, from everything that a training writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import folder as folder
from command_line import run

CALLBACKS = """
[[callback]]
type = "StatisticsStore"

[[callback]]
type = "LearningCurve"
"""


@pytest.fixture
def runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Train the small net once, with everything that remembers its curves."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # the learning curve becomes a table
    Path("small.toml").write_text(Path("small.toml").read_text() + CALLBACKS)
    run("train", "small.toml", "--log", "log.jsonl")
    return folder


def points(path: str) -> dict[str, dict[str, float]]:
    """Return the curves that a file knows, without its name."""
    found = run("plot", path, "--json").json
    return {
        f"{panel} {name.removeprefix(path + ' ')}": curve
        for panel, curves in found.items()
        for name, curve in curves.items()
    }


def test_all_that_a_training_writes_has_its_curves(runs: Path) -> None:
    log = points("log.jsonl")
    assert list(log) == ["loss training", "loss validation", "accuracy validation"]
    assert list(log["loss training"]) == ["20", "40", "60"] and list(log["loss validation"]) == ["30", "60"]
    assert points("small-statistics.json") == log
    snapshots = points("snapshots")
    assert len(snapshots["loss training"]) == 60
    for name in ("loss validation", "accuracy validation"):
        assert snapshots[name] == pytest.approx(log[name])
    table = points("small-learning-curve.csv")
    assert table["loss validation"] == pytest.approx(log["loss validation"])
    assert table["accuracy validation"] == log["accuracy validation"]


def test_curves_lie_over_each_other(runs: Path) -> None:
    out = run("plot", "log.jsonl", "snapshots").out
    assert out == "wrote curves.svg: loss, accuracy\n"
    drawn = Path("curves.svg").read_text(encoding="utf-8")
    assert "log.jsonl and snapshots" in drawn
    assert drawn.count("log.jsonl training (") == drawn.count("snapshots training (") == 1
    run("plot", "log.jsonl", "--out", "curves.png", "--statistic", "accuracy/accuracy")
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_log_of_two_trainings_gives_the_last_one(runs: Path) -> None:
    run("train", "small.toml", "--log", "log.jsonl", "--set", "solver.max_iter=20", "--json")
    assert list(points("log.jsonl")["loss training"]) == ["20"]
    run("train", "small.toml", "--log", "log.jsonl", "--resume", "auto", "--set", "solver.max_iter=40", "--json")
    assert list(points("log.jsonl")["loss training"]) == ["20", "40"]
    with Path("log.jsonl").open("a") as file:
        file.write('{"event": "summ')  # killed
    assert list(points("log.jsonl")["loss training"]) == ["20", "40"]
    run("train", "small.toml", "--log", "log.jsonl", "--resume", "auto", "--set", "solver.max_iter=60", "--json")
    assert list(points("log.jsonl")["loss training"]) == ["20", "40", "60"]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("no.jsonl", None, "no.jsonl: no such file or folder"),
        ("bad.jsonl", '{"event": "start", "iteration": 0}\n{\n{}\n', "bad.jsonl: line 2 is not JSON: "),
        (
            "none.jsonl",
            '{"event": "start", "iteration": 0}\n',
            "none.jsonl: it has no losses and no statistics\n  callbacks of a training write them: add a Trai",
        ),
        ("bad.json", "[]", "bad.json: this is not the log, the statistics or the learning curve of a training"),
        (
            "other.csv",
            "a,b\n1,2\n",
            "other.csv: this is not the log, the statistics or the learning curve of a training",
        ),
        ("net.toml", "name = 'net'", "net.toml: a net file has no curves\n  plot the folder of its snapshots, such as"),
        ("bad.csv", "iteration,training loss\nx,1\n", "bad.csv: this is not the table of a learning curve"),
        ("test.h5", None, "test.h5"),
    ],
)
def test_what_is_no_training(folder: Path, name: str, content: str | None, error: str) -> None:
    if content is not None:
        Path(name).write_text(content)
    assert error in run("plot", name, code=2).err


def test_unknown_statistics_are_told(folder: Path) -> None:
    event: dict[str, Any] = {"event": "validation", "phase": "test", "iteration": 5, "loss": None}
    event["statistics"] = {"confusion": {"accuracy": 0.5, "0_as_1": 3.0, "records": 6.0}}
    Path("log.jsonl").write_text(json.dumps(event) + "\n")
    done = run("plot", "log.jsonl", "--statistic", "confusion/acuracy", code=2)
    assert "'confusion/acuracy' (did you mean 'confusion/accuracy'?)\n  known are: confusion/accuracy\n" in done.err
    assert run("plot", "log.jsonl", "--json").json == {
        "loss": {"log.jsonl test": {"5": None}},
        "confusion/accuracy": {"log.jsonl test": {"5": 0.5}},
    }
