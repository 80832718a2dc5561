"""Runs a training that is killed at its n-th write, fsync, rename or unlink.

    python kill_child.py FILE FUNCTION FOLDER N [half]    one training, killed at call N (0: not at all)
    python kill_child.py FILE FUNCTION                    as many as asked for, each in a fork of this process

FUNCTION(folder, saved) of FILE trains to the end, from the newest snapshot in `folder` if there is one, calls
`saved(iteration)` after each save, and gives the bytes of the final weights. With "half", a write that is to be killed
writes half of its bytes first. The second form takes lines of JSON, [folder, n, half], and answers each with what
became of the training; this process imports FILE but never trains, so a fork inherits no thread.
"""

import json
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nacre.files import durable
from nacre.snapshots.folder import SnapshotFolder
from nacre.snapshots.snapshot import Snapshot
from nacre_data.hdf5_store import HDF5Store

Training = Callable[[Path, Callable[[int], None]], bytes]


class KillAt:
    """Stands for `os`, counts the calls that change the disk, and kills this process at the n-th."""

    def __init__(self, n: int, half: bool) -> None:
        self.n = n
        self.half = half
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, file: int, data: memoryview) -> int:
        if self.half and self.calls + 1 == self.n:
            os.write(file, data[: len(data) // 2])
        self.count()
        return os.write(file, data)

    def fsync(self, file: int) -> None:
        self.count()
        os.fsync(file)

    def replace(self, source: Path, target: Path) -> None:
        self.count()
        source.replace(target)

    def unlink(self, path: Path) -> None:
        self.count()
        path.unlink()

    def count(self) -> None:
        self.calls += 1
        if self.calls == self.n:
            os.kill(os.getpid(), signal.SIGKILL)


def toy_training(folder: Path, saved: Callable[[int], None]) -> bytes:
    """Follow noisy gradients with momentum for 8 iterations; a snapshot has 6 writes of up to 64 KiB."""
    weight = np.random.Generator(np.random.Philox(key=7)).standard_normal(20_000)
    momentum = np.zeros_like(weight)
    start, lowest = 0, float("inf")
    with SnapshotFolder(folder, HDF5Store(), keep=2) as snapshots:
        newest = snapshots.newest(warn=sys.exit)
        if newest is not None:
            start, lowest = newest.iteration, newest.state["lowest"]
            weight, momentum = newest.arrays["parameters/weight"], newest.arrays["history/momentum/weight"]
        for iteration in range(start, 8):
            random = np.random.Generator(np.random.Philox(key=7, counter=[0, 0, 0, 1 + iteration]))
            gradient = weight + random.standard_normal(weight.shape)
            momentum = 0.9 * momentum - 0.1 * gradient
            weight = weight + momentum
            loss = abs(float(weight[0]))
            best, lowest = loss < lowest, min(loss, lowest)
            arrays = {"parameters/weight": weight, "history/momentum/weight": momentum}
            snapshots.save(Snapshot(iteration + 1, arrays, {"lowest": lowest}), best=best, value=loss)
            saved(iteration + 1)
    return weight.tobytes()


def train(training: Training, folder: Path, n: int, half: bool, report: int) -> None:
    """Train, and write to the descriptor `report` what was saved and how it ended, a line of JSON each."""

    def tell(**facts: Any) -> None:
        os.write(report, json.dumps(facts).encode() + b"\n")

    killer = KillAt(n, half)
    vars(durable)["_os"] = killer
    weights = training(folder, lambda iteration: tell(saved=iteration))
    tell(weights=weights.hex(), calls=killer.calls)


def train_in_fork(training: Training, folder: Path, n: int, half: bool) -> dict[str, Any]:
    """Train in a fork; give its last `saved`, its `weights` and `calls` if it came to its end, and its `signal`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            train(training, folder, n, half, writing)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    facts: dict[str, Any] = {"saved": 0}
    with open(reading) as lines:
        for line in lines:
            facts |= json.loads(line)
    _, status = os.waitpid(child, 0)
    return facts | {"signal": os.WTERMSIG(status), "exit": os.waitstatus_to_exitcode(status)}


def main(file: str, function: str, *once: str) -> None:
    training: Training = toy_training if Path(file) == Path(__file__) else runpy.run_path(file)[function]
    if once:
        train(training, Path(once[0]), int(once[1]), "half" in once, report=1)
    else:
        for line in sys.stdin:
            folder, n, half = json.loads(line)
            print(json.dumps(train_in_fork(training, Path(folder), n, half)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
