"""A real training, killed or asked to end from outside. `solver_training` is for `test_snapshot_kill.py`, too."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nacre import Algorithm, Net, Solver
from nacre.snapshots.folder import SnapshotFolder, load_snapshot
from nacre_data import HDF5Store, MemoryDataLayer
from nacre_layers import CD, GRULayer, RBMHiddenLayer, RBMVisibleLayer, SquareLossLayer
from nacre_solvers import BP, BPTT, SGD, Snapshot, ValidationPerformance
from toy_training import Reports, toy_layers, toy_net, weights

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def solver_training(folder: Path, saved: Callable[[int], None]) -> bytes:
    """Train a net of 17,000 parameters for 8 iterations, saving after each: what `kill_child.py` wants."""
    return trained(Net("killed", toy_layers(hidden=128), backend="numpy"), BP(), folder, saved)


def recurrent_training(folder: Path, saved: Callable[[int], None]) -> bytes:
    """Train a GRU whose states go from batch to batch."""
    data = np.random.default_rng(0).normal(size=(12, 5, 3))
    layers = [
        MemoryDataLayer(name="source", tops=["x"], data=[data], batch_size=3),
        GRULayer(name="gru", bottoms=["x"], tops=["y"], output_dim=3, carry=True),
        SquareLossLayer(name="loss", bottoms=["y", "x"]),
    ]
    return trained(Net("killed", layers, backend="numpy"), BPTT(), folder, saved)


def machine_training(folder: Path, saved: Callable[[int], None]) -> bytes:
    """Train a restricted Boltzmann machine by persistent contrastive divergence."""
    data = np.random.default_rng(0).integers(0, 2, (12, 6)).astype("float32")
    layers = [
        MemoryDataLayer(name="source", tops=["x"], data=[data], batch_size=3),
        RBMVisibleLayer(name="vis", bottoms=["x", "hid"], tops=["vis"]),
        RBMHiddenLayer(name="hid", bottoms=["vis"], tops=["hid"], output_dim=4),
    ]
    algorithm = CD(k=2, persistent=True)
    return trained(Net("killed", layers, backend="numpy", algorithm=algorithm), algorithm, folder, saved)


def trained(net: Net, algorithm: Algorithm, folder: Path, saved: Callable[[int], None]) -> bytes:
    """Train a net to its end, from the newest snapshot on if there is one; return its weights."""

    def listen(event: str, data: dict[str, object]) -> None:
        if event == "snapshot":
            saved(int(str(data["iteration"])))
        elif event == "warning" and "nothing is left to train" not in str(data["message"]):
            sys.exit(str(data["message"]))

    callbacks = [
        ValidationPerformance(every_n_iter=1, best="loss", higher_better=False),
        Snapshot(folder=folder, every_n_iter=1, keep=2),
    ]
    fields = {"max_iter": 8, "lr_policy": 0.2, "momentum_policy": 0.9, "regu_coef": 1e-3, "callbacks": callbacks}
    solver = Solver(SGD(), algorithm=algorithm, **fields)
    resume = SnapshotFolder(folder, HDF5Store()).newest(warn=sys.exit)
    solver.solve(net, resume=resume, reports=[listen])
    return weights(net)


CHILD = """if True:
    import sys
    from toy_training import toy_net
    from nacre import Solver
    from nacre_solvers import SGD, Snapshot
    def listen(event, data):
        if event == "step" and data["iteration"] == 5:
            print("there", flush=True)
            sys.stdin.readline()
    solver = Solver(SGD(), max_iter=20, lr_policy=0.1, callbacks=[Snapshot(folder=sys.argv[1])])
    training = solver.solve(toy_net(), reports=[listen])
    print(training.iteration, training.stopped, training.snapshot_path)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_from_outside_saves_after_the_iteration(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "there\n"
        child.send_signal(number)
        told, _ = child.communicate("\n")
    assert child.returncode == 0
    assert told == f"5 {signal.Signals(number).name} {tmp_path / 'snapshot-000005.h5'}\n"
    whole, resumed, reports = toy_net(), toy_net(), Reports()
    solver = Solver(SGD(), max_iter=20, lr_policy=0.1)
    solver.solve(whole)
    solver.solve(resumed, resume=load_snapshot(tmp_path, HDF5Store(), pytest.fail), reports=[reports])
    assert len(reports["step"]) == 15
    assert weights(resumed) == weights(whole)
