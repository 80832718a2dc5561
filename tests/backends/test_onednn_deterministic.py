"""Deterministic nets of the onednn backend: plans come from rules, and bits are the same at every start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixed_nets import mixed_net
from nacre import InputLayer, Net, Solver, open_backend
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.tuning import search as layouts
from nacre_onednn.tuning.search import CANDIDATES
from nacre_solvers import SGD

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)


@pytest.fixture
def never_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def time_all(trials: Any) -> None:
        raise AssertionError("a deterministic net was timed")

    monkeypatch.setattr(layouts, "time_all", time_all)


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 3])
def test_two_starts_give_the_same_bits_whatever_the_clock_says(tmp_path: Path, threads: int) -> None:
    told = []
    for number in range(2):
        settings = {"NACRE_CACHE": str(tmp_path / str(number)), "NACRE_NUM_THREADS": str(threads)}
        command = [sys.executable, str(Path(__file__).with_name("deterministic_child.py")), str(number)]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.splitlines())
        assert not (tmp_path / str(number)).exists(), "a plan by rules need not be kept"
    assert told[0] == told[1] and len(told[0]) == 3


def test_nothing_is_timed(never_timed: None) -> None:
    net = mixed_net("onednn", deterministic=True)
    assert net.plan["onednn"]["layout"] in CANDIDATES
    net.forward()


def test_plans_that_were_timed_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path))
    by_rule = mixed_net("onednn", deterministic=True).plan
    mixed_net("onednn")  # keeps a plan
    (kept,) = (tmp_path / "onednn").glob("*.json")
    other = next(one for one in CANDIDATES if one != by_rule["onednn"]["layout"])
    kept.write_text(kept.read_text().replace(by_rule["onednn"]["layout"], other))
    assert mixed_net("onednn", deterministic=True).plan == by_rule


def test_a_plan_by_rules_says_all_and_can_be_followed(never_timed: None) -> None:
    plan = mixed_net("onednn", deterministic=True).plan
    again = mixed_net("onednn", plan=plan)
    assert again.plan == plan
    kernels = [op.state for op in again.ops if isinstance(op.state, layouts.OnednnKernel)]
    ways = plan["onednn"]["ways"]
    assert all(ways.get(one.layer_name, {}).get(part, "") == way for one in kernels for part, way in one.ways.items())


def test_the_number_of_threads_is_recorded_and_another_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = open_backend("onednn")
    solver = Solver(SGD(), lr_policy=0.1)
    net = mixed_net("onednn", deterministic=True)
    with solver.start(net) as training:
        snapshot = training.snapshot()
    count = snapshot.state["environment"]["backends"]["onednn"]["threads"]
    assert count == backend.environment()["threads"]
    monkeypatch.setattr(backend, "threads", count + 1)
    told: list[dict[str, Any]] = []
    again = mixed_net("onednn", deterministic=True, plan=snapshot.state["plan"])
    with solver.start(again, [lambda event, data: told.append({"event": event, **data})]) as training:
        training.restore(snapshot)
    (warning,) = [one["message"] for one in told if one["event"] == "warning"]
    assert f"backend onednn: threads was {count}, is {count + 1}" in warning


def test_random_numbers_do_not_depend_on_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [
        InputLayer(name="in", tops="data", shape=40013, batch_size=2),
        DropoutLayer(name="drop", bottoms="data", ratio=0.3),
    ]
    masks = []
    for threads in (1, 3):
        monkeypatch.setattr(open_backend("onednn"), "threads", threads)
        net = Net("net", layers, backend="onednn", seed=4, keep="all")
        net.write("data", np.ones((2, 40013)))
        net.forward()
        masks.append(net.blob("data"))
    assert 0.28 < (masks[0] == 0).mean() < 0.32
    np.testing.assert_array_equal(*masks)
