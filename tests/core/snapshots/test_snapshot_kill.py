"""No kill -9, at whatever moment, loses a snapshot or changes what comes out of the training."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nacre.snapshots.folder import SnapshotFolder
from nacre_data.hdf5_store import HDF5Store

CHILD = Path(__file__).with_name("kill_child.py")
TRAININGS = {  # file and function, as kill_child.py says
    "toy": (CHILD, "toy_training"),
    "solver": (CHILD.parents[1] / "training/test_training_kill.py", "solver_training"),
}
TRIALS = [3, pytest.param(int(os.environ.get("NACRE_TRIALS", "1000")), marks=pytest.mark.long)]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "OPENBLAS_NUM_THREADS": "1",  # a process that forks should have one thread
    "OMP_NUM_THREADS": "1",
}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


class Trainings:
    """Trains on demand in forks of one warm process."""

    def __init__(self, file: Path, function: str) -> None:
        command = [sys.executable, str(CHILD), str(file), function]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    def train(self, folder: Path, n: int = 0, half: bool = False) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(folder), n, half]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self) -> "Trainings":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # no more lines: it ends


def newest_iteration(folder: Path) -> int:
    newest = SnapshotFolder(folder, HDF5Store()).newest(warn=pytest.fail)
    return newest.iteration if newest else 0


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("training", TRAININGS)
def test_a_killed_training_goes_on_bit_for_bit(training: str, trials: int, tmp_path: Path) -> None:
    draw = random.Random(0)
    folder = tmp_path / "trial"
    with Trainings(*TRAININGS[training]) as trainings:
        whole = trainings.train(tmp_path / "whole")
        assert whole["exit"] == 0
        for _ in range(trials):
            for _ in range(draw.choice((1, 1, 2, 3))):  # a training taken up again may be killed again
                n, half = draw.randint(1, whole["calls"]), draw.random() < 0.5
                killed = trainings.train(folder, n, half)
                assert killed["signal"] == signal.SIGKILL or killed["exit"] == 0, (n, half)
                assert newest_iteration(folder) >= killed["saved"], (n, half)
            resumed = trainings.train(folder)
            assert resumed["exit"] == 0, (n, half)
            assert resumed["weights"] == whole["weights"], (n, half)
            too_many = set(os.listdir(folder)) - set(os.listdir(tmp_path / "whole"))
            # killed after the last save, before the oldest and the former best were removed
            assert len(too_many) <= 2, (n, half)
            assert (folder / "best.json").read_bytes() == (tmp_path / "whole" / "best.json").read_bytes(), (n, half)
            shutil.rmtree(folder)


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
