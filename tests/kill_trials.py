"""Trainings that are killed at a random write, fsync, rename or unlink, taken up again, and compared."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from nacre.snapshots.folder import SnapshotFolder
from nacre_data.hdf5_store import HDF5Store

CHILD = Path(__file__).with_name("core") / "snapshots" / "kill_child.py"
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(sys.path),
    "OPENBLAS_NUM_THREADS": "1",  # a process that forks should have one thread
    "OMP_NUM_THREADS": "1",
}


class Trainings:
    """Trains on demand in forks of one warm process, by a function of a file, as `kill_child.py` says."""

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

    def killed_and_resumed(self, folder: Path, whole: Mapping[str, Any], trials: int) -> Iterator[tuple[int, bool]]:
        """Kill a training, go on with it, and check that it ends as `whole` did; yield where, and `folder` is there."""
        draw = random.Random(0)
        for _ in range(trials):
            for _ in range(draw.choice((1, 1, 2, 3))):  # a training taken up again may be killed again
                n, half = draw.randint(1, whole["calls"]), draw.random() < 0.5
                killed = self.train(folder, n, half)
                assert killed["signal"] == signal.SIGKILL or killed["exit"] == 0, (n, half)
                assert newest_iteration(folder) >= killed["saved"], (n, half)
            resumed = self.train(folder)
            assert resumed["exit"] == 0, (n, half)
            assert resumed["weights"] == whole["weights"], (n, half)
            yield n, half
            shutil.rmtree(folder)

    def __enter__(self) -> Trainings:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # no more lines: it ends


def newest_iteration(folder: Path) -> int:
    newest = SnapshotFolder(folder, HDF5Store()).newest(warn=pytest.fail)
    return newest.iteration if newest else 0
