"""Parts of a batch that nets on one thread each predict beside each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from nacre import DataError, InputLayer, Layer, Net, fresh, open_backend
from nacre.net import team
from nacre.testing.crew import crew, own_backend, together
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.functions import AbsValLayer, FunctionState
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.embedding import EmbeddingLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.recurrent.lstm import LSTMLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.helper.native import helper
from small_layers import AddLayer, AddState

if OnednnBackend.unusable() or helper() is None:
    pytest.skip("the onednn backend, or its helper, cannot be used here", allow_module_level=True)


@pytest.fixture(autouse=True)
def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every batch of four records or more be shared out among three nets."""
    backend = open_backend("onednn")
    monkeypatch.setattr(backend, "threads", 3)
    monkeypatch.setattr(team, "LEAST", 2)
    monkeypatch.setattr(team, "MOST_BLOBS", 1)


def pictures() -> list[Layer]:
    return [
        InputLayer(tops="data", shape=(3, 9, 9), batch_size=16),
        ConvolutionLayer(name="conv", bottoms="data", tops="conv", n_filter=8, kernel=3, bias=False),
        BatchNormLayer(name="norm", bottoms="conv", tops="norm", neuron="ReLU"),
        PoolingLayer(name="pool", bottoms="norm", tops="pool", kernel=2, stride=2),
        InnerProductLayer(name="scores", bottoms="pool", tops="scores", output_dim=5),
        SoftmaxLayer(name="prob", bottoms="scores", tops="prob"),
    ]


def words() -> list[Layer]:
    return [
        InputLayer(tops="x", shape=(4,), batch_size=16, dtype="int64"),
        EmbeddingLayer(name="words", bottoms="x", tops="words", input_dim=10, output_dim=6),
        InnerProductLayer(name="scores", bottoms="words", tops="scores", output_dim=5),
    ]


def made(layers: list[Layer] | None = None) -> Net:
    return Net("net", layers or pictures(), backend="onednn", phase="predict")


def records(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 3, 9, 9)).astype("float32")


def one_by_one(net: Net, x: Any) -> Any:
    """Return what `forward` makes of a few records at a time."""
    rows = []
    for start in range(0, len(x), 5):
        net.write("data", x[start : start + 5])
        net.forward()
        rows.append(net.blob("prob")[: len(x[start : start + 5])])
    return np.concatenate(rows)


def teams(net: Net) -> list[list[int]]:
    """Return how many records each net of each team takes at a time."""
    return [[one.ops[0].outputs[0].shape[0] for one in team.nets] for team in net._predictors.values()]


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 37])
def test_any_number_of_records(count: int) -> None:
    net, x = made(), records(count)
    np.testing.assert_allclose(net.predict(x), one_by_one(net, x), rtol=1e-5, atol=1e-7)
    assert teams(net) == [[2, 2, 2]]


def test_parts_are_equal_and_as_large_as_a_cache_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    per_record = 4 * 2 * 8 * 7 * 7  # what the largest layer reads and writes
    for most, wanted in [(2, [2, 2, 2]), (5, [3, 3, 3]), (6, [6, 6, 6]), (15, [6, 6, 6]), (16, [16])]:
        monkeypatch.setattr(team, "MOST_BLOBS", most * per_record)
        net = made()
        net.predict(records(16))
        assert teams(net) == [wanted], most


def test_all_nets_see_new_parameters() -> None:
    net, x = made(), records(16)
    net.predict(x)
    rng = np.random.default_rng(1)
    for parameter in net.parameters.values():
        parameter.value = rng.uniform(0.05, 0.15, parameter.value.shape)  # large scores would magnify rounding
    np.testing.assert_allclose(net.predict(x), one_by_one(net, x), rtol=1e-4, atol=1e-6)


def test_a_training_and_its_predictions() -> None:
    from nacre_layers.losses.softmax_loss import SoftmaxLossLayer

    label = InputLayer(name="label", tops="label", shape=(1,), batch_size=16)
    layers = [*pictures()[:-1], label, SoftmaxLossLayer(name="loss", bottoms=["scores", "label"])]
    net = Net("net", layers, backend="onednn", seed=3)
    x, y = records(48), np.arange(48) % 5
    before = net.predict(x, "scores")
    net.fit(x, y, epochs=2, solver="SGD", lr=0.1, quiet=True)
    after, alone = net.predict(x, "scores"), net.derive("predict", keep=["scores"])
    alone.write("data", x[:16])
    alone.forward()
    np.testing.assert_allclose(after[:16], alone.blob("scores"), rtol=1e-4, atol=1e-6)
    assert abs(after - before).max() > 1e-2


class PythonSum(AddState, dtypes=("float32",), on_plain=True):
    """A kernel of another package, which is called between the runs of the backend."""

    def forward(self, inputs: list[Any]) -> None:
        self.blobs[0].memory[...] = sum(one.memory for one in inputs)


class PythonAbsVal(FunctionState, dtypes=("float32",), on_plain=True):
    """Another one, whose layer's own state, which it takes the rest from, can be recorded by other backends."""

    def forward(self, inputs: list[Any]) -> None:
        np.abs(inputs[0].memory, out=self.blobs[0].memory)


@pytest.mark.parametrize(
    ("kernel", "layer"),
    [
        (PythonSum, AddLayer(name="y", bottoms=["scores", "scores"], tops="prob")),
        (PythonAbsVal, AbsValLayer(name="y", bottoms="scores", tops="prob")),
    ],
)
def test_a_kernel_in_python_runs_alone(kernel: Any, layer: Layer, new_registry: Any) -> None:
    """It has the backend's turn, which the thread that waits for the others has."""
    registry = new_registry()
    registry.register(AddLayer)
    registry.register_kernel(kernel, type(layer).__name__.removesuffix("Layer"), "onednn")
    net, x = made([*pictures()[:-1], fresh(layer)]), records(16)
    assert next(op.kernel for op in net.ops if op.name == "y") and not net.computes_alone
    np.testing.assert_allclose(net.predict(x, "prob"), one_by_one(net, x), rtol=1e-5, atol=1e-7)
    assert teams(net) == [[16]]


@pytest.mark.parametrize(
    "layers",
    [
        [InputLayer(tops="x", shape=6, batch_size=16), SoftmaxLayer(name="y", bottoms="x", tops="y", axis=0)],
        [
            InputLayer(tops="x", shape=(6, 4), batch_size=16),
            LSTMLayer(name="y", bottoms="x", tops="y", output_dim=4, carry=True),
        ],
        [InputLayer(tops="x", shape=6, batch_size=16), AddLayer(name="y", bottoms=["x", "x"], tops="y")],
        [InputLayer(tops="x", shape=6, batch_size=3), InnerProductLayer(bottoms="x", tops="y", output_dim=2)],
    ],
    ids=["needs all records", "carries a state", "runs in Python", "few records"],
)
def test_one_net_takes_what_cannot_be_shared_out(layers: list[Layer]) -> None:
    net = made(layers)
    shape = net.memory.final["x"].shape
    net.predict(np.ones(shape, "float32"))
    assert teams(net) == [[shape[0]]]


@pytest.mark.parametrize("dim", [0, 1], ids=["by records", "by features"])
def test_one_net_of_each_rank_takes_whole_batches(dim: int) -> None:
    """Beside others, nets of a divided net would have parameters of their own."""
    ranks, x = crew(2), np.arange(64).reshape(16, 4) % 10
    nets: list[Net] = []
    for rank in ranks:
        first, *others, scores = words()
        scores = InnerProductLayer(**{**scores.given(), "partition_dim": dim})
        nets.append(Net("net", [first, *others, scores], backend=own_backend("onednn"), seed=1, communicator=rank))
        vars(nets[-1].backend)["threads"] = 3
    found = together(ranks, lambda rank: nets[rank].predict(x, "scores"))
    whole = Net("net", words(), backend="onednn", seed=1).predict(x, "scores")
    for net, rows in zip(nets, found, strict=True):
        assert [len(one) for one in teams(net)] == [1]
        np.testing.assert_allclose(rows, whole, rtol=1e-5, atol=1e-7)


def test_nets_that_cannot_be_beside_each_other_are_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[Net] = []
    derive = Net.derive
    monkeypatch.setattr(Net, "derive", lambda *args, **options: derived.append(derive(*args, **options)) or derived[-1])
    net = made([InputLayer(tops="x", shape=6, batch_size=16), AddLayer(name="y", bottoms=["x", "x"], tops="y")])
    net.predict(np.ones((16, 6)))
    assert [one.closed for one in derived] == [True, False]


def test_the_numpy_backend_takes_whole_batches() -> None:
    net = Net("net", pictures(), backend="numpy", phase="predict")
    net.predict(records(16))
    assert teams(net) == [[16]]


def test_an_error_in_one_part_leaves_the_nets_as_they_were() -> None:
    net = made(words())
    x = np.arange(32 * 4).reshape(32, 4) % 10
    right = net.predict(x)
    wrong = x.copy()
    wrong[13] = 77
    for _ in range(3):
        with pytest.raises(DataError, match="77"):
            net.predict(wrong)
        np.testing.assert_array_equal(net.predict(x), right)


def test_ctrl_c_waits_for_the_other_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = made(), records(16)
    right = net.predict(x)
    inside: list[int] = []
    run, begun, here = team.run, threading.Event(), threading.get_ident()

    def interrupted(one: Net, batch: Any, outputs: Any) -> Any:
        if threading.get_ident() == here:
            begun.set()
            raise KeyboardInterrupt
        begun.wait()  # or there might be no part left for this thread
        inside.append(1)
        try:
            return run(one, batch, outputs)
        finally:
            inside.pop()

    monkeypatch.setattr(team, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        net.predict(x)
    assert not inside
    monkeypatch.setattr(team, "run", run)
    np.testing.assert_array_equal(net.predict(x), right)


def test_several_threads_predict_at_once() -> None:
    nets = [made() for _ in range(3)]
    inputs = [records(40, seed) for seed in range(3)]
    right = [net.predict(x) for net, x in zip(nets, inputs, strict=True)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            if not np.array_equal(nets[number].predict(inputs[number]), right[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_shutdown_ends_nets_and_threads() -> None:
    net = made()
    net.predict(records(16))
    (team,) = net._predictors.values()
    net.shutdown()
    assert all(one.closed for one in team.nets)
    assert team._pool is not None
    assert not any(one.is_alive() for one in team._pool._threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_is_told() -> None:
    code = (
        "import os, numpy as np\n"
        "from nacre import InputLayer, Net, NacreError\n"
        "from nacre.net import team\n"
        "from nacre_layers.linear.inner_product import InnerProductLayer\n"
        "team.LEAST, team.MOST_BLOBS = 1, 1\n"
        "layers = [InputLayer(tops='x', shape=6, batch_size=8)]\n"
        "layers.append(InnerProductLayer(bottoms='x', tops='y', output_dim=2))\n"
        "net = Net('n', layers, backend='onednn', phase='predict')\n"
        "net.predict(np.ones((8, 6)))\n"
        "assert len(next(iter(net._predictors.values())).nets) == 2\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        net.predict(np.ones((8, 6)))\n"
        "    except NacreError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NACRE_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, env=environment, check=True
    )
    assert "opened before this process was forked" in done.stdout
