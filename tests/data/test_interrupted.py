"""Ctrl-C while data do not come: the training ends as always, with its snapshot, and no thread or process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import DataError, Net, Solver
from nacre.snapshots.folder import load_snapshot
from nacre_data import HDF5Store, IterableDataLayer, LabelLayer, PrefetchLayer, ahead
from nacre_data.processes import BLOCK
from nacre_solvers import Adam
from ranks import state_at
from toy_training import toy_net, weights

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs named pipes that can be waited for")

PATIENCE = 300  # seconds in which what is waited for has happened long ago

TRAINING = """if True:
    import sys
    import threading
    from nacre import Net, Solver, registry
    from nacre_data import DataLayer, PrefetchLayer
    from nacre_layers import InnerProductLayer, SoftmaxLossLayer
    from nacre_solvers import Adam, Snapshot

    store, pipe, folder, prefetch, ahead, processes = sys.argv[1:]
    registry().load_file(store)
    source = DataLayer(
        name="d", source=pipe, tops=["x", "id"], batch_size=2, ahead=int(ahead), processes=int(processes)
    )
    layers = [
        *([PrefetchLayer(name="p", layer=[source])] if prefetch == "yes" else [source]),
        InnerProductLayer(bottoms="x", tops="ip", output_dim=3),
        SoftmaxLossLayer(bottoms=["ip", "id"]),
    ]

    def listen(event, data):
        if event == "step":
            print("step", flush=True)

    with Net("t", layers, backend="numpy") as net:
        training = Solver(Adam(), max_iter=1000, callbacks=[Snapshot(folder=folder)]).solve(net, reports=[listen])
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    print(training.iteration, training.stopped, training.snapshot_path, others)
"""


@pytest.mark.parametrize(
    ("prefetch", "ahead", "processes"), [("no", 2, 0), ("yes", 0, 0), ("yes", 1, 0), ("no", 1, 1), ("yes", 0, 1)]
)
def test_ctrl_c_while_nothing_comes_from_a_pipe(prefetch: str, ahead: int, processes: int, tmp_path: Path) -> None:
    pipe, folder = tmp_path / "x.lines", tmp_path / "saved"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    count = BLOCK if processes else 7
    steps = (count - 1) // 2  # one more record is looked at
    store = Path(__file__).parents[1] / "line_store.py"
    words = [str(store), str(pipe), str(folder), prefetch, str(ahead), str(processes)]
    command = [sys.executable, "-W", "error", "-c", TRAINING, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        os.write(writer, b"".join(b"%d\n" % (number % 3) for number in range(count)))
        for _ in range(steps):
            assert child.stdout.readline() == "step\n"
        child.send_signal(signal.SIGINT)
        told, wrong = child.communicate(timeout=PATIENCE)
    os.close(writer)
    assert not wrong, wrong
    assert not child.returncode
    assert told == f"{steps} SIGINT {folder / f'snapshot-{steps:06}.h5'} []\n"
    saved = load_snapshot(folder, HDF5Store(), pytest.fail)
    position = {"d:position": 2 * steps, "d:epoch": 0} if prefetch == "yes" else {"position": 2 * steps, "epoch": 0}
    memory = {name: values for name, values in saved.state["memory"].items() if name.startswith(("layer.", "solver"))}
    assert memory == {f"layer.{'pd'[prefetch == 'no']}": position, "solver": {"count": steps}}


def forever(begun: threading.Event, go_on: threading.Event) -> Iterator[Any]:
    yield np.zeros(2), 0
    yield np.zeros(2), 1
    begun.set()
    go_on.wait(PATIENCE)
    yield np.zeros(2), 2


@pytest.mark.parametrize("prefetch", [False, True])
def test_what_cannot_be_interrupted_is_left_behind(prefetch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PATIENCE", 0.01)
    begun, go_on = threading.Event(), threading.Event()
    source = IterableDataLayer(
        name="d", data=lambda: forever(begun, go_on), tops=["x", "class"], batch_size=1, ahead=0 if prefetch else 1
    )
    layers = [PrefetchLayer(name="d", layer=[source, LabelLayer(bottoms="class", tops="label")])]
    net = Net("n", layers if prefetch else [source], backend="numpy")
    net.forward()
    assert begun.wait(PATIENCE)
    state: Any = net.node_ops["d"].state
    thread = state.ahead.thread
    with pytest.warns(UserWarning, match="^d: what reads the records cannot be interrupted, and has not come back in "):
        net.shutdown()
    net.shutdown()  # at once
    go_on.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_an_interrupted_source_does_not_go_on() -> None:
    data = [(np.zeros(2), number) for number in range(5)]
    source = IterableDataLayer(name="d", data=data, tops=["x", "label"], batch_size=1, ahead=2)
    state = state_at(source)
    state.interrupt()
    with pytest.raises(DataError, match="it was closed while it was read"):
        state.forward([])
    state.shutdown()


def test_after_an_error_of_its_source_a_training_goes_on_as_if_there_had_been_none() -> None:
    def trained(fails: bool) -> bytes:
        with toy_net() as net, Solver(Adam(), max_iter=5, lr_policy=0.1).start(net) as training:
            records = net.node_ops["train"].state.records
            for number in range(4):
                if fails and number == 2:
                    vars(records)["read"] = breaks_down
                    with pytest.raises(DataError, match="iteration 2, the batch of layer 'train': bad record"):
                        training.step()
                    del vars(records)["read"]
                training.step()
            return weights(net)

    def breaks_down(*_: Any) -> None:
        raise DataError("bad record")

    assert trained(fails=True) == trained(fails=False)
