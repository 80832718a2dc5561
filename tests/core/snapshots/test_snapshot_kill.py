"""No kill -9, at whatever moment, loses a snapshot or changes what comes out of the training."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kill_trials import CHILD, ENVIRONMENT, Trainings

TRAINING = CHILD.parents[1] / "training/test_training_kill.py"
TRAININGS = {  # file and function, as kill_child.py says
    "toy": (CHILD, "toy_training"),
    "solver": (TRAINING, "solver_training"),
    "recurrent": (TRAINING, "recurrent_training"),
    "machine": (TRAINING, "machine_training"),
}
TRIALS = [3, pytest.param(int(os.environ.get("NACRE_TRIALS", "1000")), marks=pytest.mark.long)]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("training", TRAININGS)
def test_a_killed_training_goes_on_bit_for_bit(training: str, trials: int, tmp_path: Path) -> None:
    with Trainings(*TRAININGS[training]) as trainings:
        whole = trainings.train(tmp_path / "whole")
        assert whole["exit"] == 0
        folder = tmp_path / "trial"
        for where in trainings.killed_and_resumed(folder, whole, trials):
            too_many = set(os.listdir(folder)) - set(os.listdir(tmp_path / "whole"))
            # killed after the last save, before the oldest and the former best were removed
            assert len(too_many) <= 2, where
            assert (folder / "best.json").read_bytes() == (tmp_path / "whole" / "best.json").read_bytes(), where


def test_the_long_run_has_a_thousand_trials() -> None:
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "NACRE_TRIALS"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "long", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert {f"[{training}-1000]" for training in TRAININGS} == set(re.findall(r"\[.*-1000\]", done.stdout))
    makefile = (Path(__file__).parents[3] / "Makefile").read_text(encoding="utf-8")
    assert "long: export NACRE_TRIALS := $(or $(NACRE_TRIALS),1000)" in makefile


def test_a_killed_process_of_its_own(tmp_path: Path) -> None:
    def train(n: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(CHILD), str(CHILD), "toy_training", str(tmp_path / str(n > 0)), str(n), "half"]
        return subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)

    whole, killed, resumed = train(0), train(40), train(10_000)
    assert killed.returncode == -signal.SIGKILL
    assert resumed.returncode == 0
    first, again = whole.stdout.splitlines(), resumed.stdout.splitlines()
    assert json.loads(again[-1])["weights"] == json.loads(first[-1])["weights"]
    assert 1 < len(again) < len(first)
