"""The cupy backend over the stand-in for CuPy: what it says, what it copies, and what it captures."""

from __future__ import annotations

import ctypes
import gc
import json
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import cupy_standin
import nacre
from nacre import (
    ConfigError,
    DataError,
    InputLayer,
    L,
    Layer,
    LayerState,
    NacreError,
    Names,
    Net,
    Solver,
    open_backend,
    registry,
)
from nacre.cli.app import nacre as command
from nacre.config import load
from nacre.testing import BackendTests as BackendSuite
from nacre.testing.trial import ThroughLayer
from nacre_cupy import library
from nacre_cupy.graphs import DeviceScalars
from nacre_cupy.products import (
    ALIGNMENTS,
    BATCH_COUNT,
    BATCH_STRIDE,
    BIAS_POINTER,
    EPILOGUE,
    MOST_WORKSPACE,
    TRANSPOSED_A,
    TRANSPOSED_B,
    TYPES,
    WITH_BIAS,
    Matrix,
    Products,
)
from nacre_cupy.streams import Here
from nacre_layers import ActivationLayer, BatchNormLayer, InnerProductLayer, SquareLossLayer
from nacre_solvers import SGD, Snapshot

EXAMPLES = Path(__file__).parents[2] / "examples"


pytestmark = pytest.mark.usefixtures("cupy")


class TestCupy(BackendSuite):
    backend = registry().open("backend", "cupy")


# Where it can be used


def run(*arguments: str) -> Any:
    return CliRunner().invoke(command, arguments)


def test_it_is_listed_and_says_with_what_it_computes() -> None:
    (found,) = [one for one in json.loads(run("backends", "--json").stdout) if one["name"] == "cupy"]
    assert found["usable"] and found["distribution"] == "nacre"
    assert found["environment"]["device"] == f"0: {library.devices()[0]}" and found["environment"][
        "library"
    ].startswith("CuPy 14")


def test_without_cupy_the_reason_has_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(NacreError, match=r"backend 'cupy' cannot be used here: .*pip install 'nacre\[cuda13\]'"):
        open_backend("cupy:0")


def test_a_cupy_that_cannot_be_imported_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ImportError("libnvrtc.so.13: cannot open shared object file\nand more")

    monkeypatch.setattr(library, "cupy", fail)
    assert library.unusable().startswith(
        "CuPy cannot be imported (libnvrtc.so.13: cannot open shared object file): pip"
    )


@cupy_standin.only_standin
@pytest.mark.parametrize(
    ("status", "words"), [(35, "no driver"), (34, "no driver"), (100, "no GPU"), (999, "CUDA does not start")]
)
def test_without_a_driver_or_a_device_the_reason_says_so(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, status: int, words: str
) -> None:
    monkeypatch.setattr(cupy.shared, "error", cupy.cuda.runtime.CUDARuntimeError(status, "cudaErrorOfSomeKind"))
    assert words in library.unusable()
    assert "\n" not in library.unusable()


def test_it_is_never_chosen_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NACRE_BACKEND", raising=False)
    assert registry().open("backend", "cupy").unusable() is None
    assert open_backend().name != "cupy"


# Devices


@cupy_standin.only_standin
def test_a_device_is_chosen_by_its_number(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.shared, "devices", ["First", "Second"])
    first, second = open_backend("cupy"), open_backend("cupy:1")
    assert (first.device.id, second.device.id) == (0, 1)
    assert open_backend("cupy:1") is second
    assert second.environment()["device"] == "1: Second"
    monkeypatch.setenv("NACRE_BACKEND", "cupy")
    assert open_backend(":1") is second
    with pytest.raises(ConfigError, match="device=2, but the GPUs here are 0: First, 1: Second"):
        open_backend("cupy:2")


def test_a_backend_without_devices_refuses_a_number() -> None:
    with pytest.raises(ConfigError, match="device=0, but backend 'numpy' has no devices to choose from"):
        open_backend("numpy:0")


NET = """
name = "points"
backend = "cupy"
[[layer]]
type = "RandomNormal"
tops = ["x"]
output_dims = [4]
batch_size = 3
[[layer]]
type = "InnerProduct"
bottoms = ["x"]
tops = ["y"]
output_dim = 2
neuron = "ReLU"
[[layer]]
type = "SumLoss"
bottoms = ["y"]
[solver]
type = "SGD"
max_iter = 4
lr_policy = 0.01
"""


@pytest.fixture
def net_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.toml").write_text(NET)
    return "net.toml"


@cupy_standin.only_standin
def test_the_command_line_chooses_the_device_of_the_files_backend(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, net_file: str
) -> None:
    monkeypatch.setattr(cupy.shared, "devices", ["First"])
    done = run("train", net_file, "--device", "0")
    assert done.exit_code == 0, done.output
    refused = run("train", net_file, "--device", "7")
    assert refused.exit_code == 2 and "device=7, but the GPUs here are 0: First" in refused.stderr


def test_explain_shows_the_copies_and_the_pieces_that_are_captured(net_file: str) -> None:
    found = json.loads(run("explain", net_file, "--json").stdout)
    assert found["copies"] == [{"blob": "x", "from": "the host's arrays", "to": "cupy's plain arrays"}]
    steps = {step for piece in found["pieces"] if piece["recorded"] for step in piece["steps"]}
    assert "forward y" in steps and "forward y/ReLU" not in steps
    assert found["pieces"][0] == {"recorded": False, "steps": ["forward x", "copy x", "rows points"]}
    turns = [piece["recorded"] for piece in found["pieces"]]
    assert all(one != other for one, other in pairwise(turns))
    shown = run("explain", net_file).stdout
    assert "x: from the host's arrays to cupy's plain arrays" in shown
    assert (
        "an iteration on cupy, piece by piece:\n  called: forward x, copy x, rows points\n  recorded and replayed: "
        in shown
    )
    assert "pieces" not in run("explain", net_file, "--backend", "numpy").stdout


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["clip_norm=0.5"],
        ["clip_value=0.1"],
        ["n_accumulate=2"],
        ["n_accumulate=3", "clip_norm=1.0", "clip_value=1.0"],
    ],
)
def test_explain_shows_the_pieces_that_there_are(cupy: Any, net_file: str, options: list[str]) -> None:
    changes = [f"solver.{one}" for one in options]
    arguments = [word for one in changes for word in ("--set", one)]
    shown = json.loads(run("explain", net_file, "--json", *arguments).stdout)["pieces"]
    assert sum("SGD" in piece["steps"] for piece in shown) == 1
    file, backend = load(net_file, changes), cupy_standin.watched()()
    with file.net("train", backend=backend) as net, file.solver().start(net) as training:
        for _ in range(3):
            training.step()
        made = [
            [f"{step.kind} {step.name}".removeprefix("update ") for step in one.steps] for one in recordings(backend)
        ]
    assert sorted(piece["steps"] for piece in shown if piece["recorded"]) == sorted(made)
    assert all("clip gradients" not in piece["steps"] for piece in shown if not piece["recorded"])


# Layers on it


def test_labels_out_of_range_are_told_after_the_pass(backend: Any) -> None:
    x, label = nacre.Input(4, name="x"), nacre.Input(name="label")
    with Net("points", [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=3)(x), label)], backend=backend) as net:
        for wrong, told in ((7, "label 7 of record 0"), (-1, "label -1 of record 0"), (0.5, "label 0.5 of record 0")):
            net.write("x", np.ones((1, 4)))
            net.write("label", [wrong])
            with pytest.raises(DataError, match=f"loss: {told} of the batch is not a whole number from 0 to 2"):
                net.forward()
        net.write("label", [2])
        assert np.isfinite(net.forward())


def test_labels_of_four_axes_are_read_as_they_are(backend: Any) -> None:
    x, label = nacre.Input((2, 2, 1, 3), name="x"), nacre.Input((2, 1, 3), name="label", dtype="int64")
    numbers, found = np.random.default_rng(0).normal(size=(1, 2, 2, 1, 3)), []
    for one in (backend, "numpy"):
        with Net("labels", [L.SoftmaxLoss(axis=2)(x, label)], backend=one) as net:
            net.write("x", numbers)
            net.write("label", [[[[1, 1, 1]], [[0, 0, 0]]]])
            found.append(net.forward())
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def pictures() -> list[Layer]:
    records = np.random.default_rng(0).normal(size=(12, 2, 6, 6)), np.arange(12) % 3
    x, label = L.MemoryData(data=list(records), tops=["x", "label"], batch_size=4, shuffle=True)()
    maps = L.Convolution(n_filter=5, kernel=3, pad=1, neuron="ReLU", weight_regu="L2")(x)
    maps = L.Pooling(kernel=2, stride=2)(L.BatchNorm()(maps))
    hidden = L.InnerProduct(output_dim=7, neuron="Tanh")(L.Activation(neuron="GELU")(maps))
    return [L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(L.Dropout(ratio=0.25)(hidden)), label)]


def trained(backend: Any, iterations: int = 6) -> tuple[list[float], dict[str, np.ndarray]]:
    with Net("pictures", pictures(), backend=backend, dtype="float64", seed=3) as net:
        with Solver(SGD(), lr_policy=0.05, momentum_policy=0.9, regu_coef=0.01).start(net) as training:
            losses = []
            for _ in range(iterations):
                training.step()
                losses.append(training.loss)
        return losses, {name: handle.value for name, handle in net.parameters.items()}


def test_a_training_is_that_on_numpy_also_where_the_device_runs_late(cupy: Any, backend: Any) -> None:
    losses, wanted = trained("numpy")
    found, values = trained(backend)
    np.testing.assert_allclose(found, losses, rtol=1e-9)
    with cupy_standin.lazily(cupy):
        late, others = trained(backend)
    assert late == found
    for name, value in wanted.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-7, atol=1e-12, err_msg=name)
        assert np.array_equal(others[name], values[name]), name


def test_gradients_lie_in_the_order_in_which_backward_computes_them(backend: Any) -> None:
    with Net("pictures", pictures(), backend=backend) as net:
        backward = [step.name for step in net.steps("backward") if step.kind == "backward"]
        places = {slot.layer: slot.placed.offset for slot in net.slots if slot.placed is not None}
        assert len({id(slot.placed.arena) for slot in net.slots if slot.placed is not None}) == 1
        first = {slot.layer: slot.gradient.data.ptr for slot in net.slots if slot.placed is not None}
        assert sorted(places, key=places.get) == sorted(first, key=first.get)
        assert [name for name in backward if name in places] == sorted(places, key=places.get)


# Graphs


class GainLayer(Layer, can_do_bp=True):
    """y = x + step, by a number on the device."""

    bottoms: Names
    tops: Names


class GainState(LayerState, of=GainLayer, reads="", capturable=True):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.calls = 0

    def ready(self) -> None:
        self.numbers = self.backend.backend.scalars(self.backend)
        self.place = self.backend.scalars.place("step")

    def forward(self, inputs: list[Any]) -> None:
        self.calls += 1
        self.backend.xp.add(inputs[0], self.numbers[self.place], out=self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is not None:
            self.backend.xp.copyto(diffs[0], self.blobs_diff[0])


def gained(backend: Any, *more: Layer, **options: Any) -> Net:
    layers = [InputLayer(tops="x", shape=3, batch_size=2), GainLayer(bottoms="x", tops="y", name="gain"), *more]
    return Net("gained", layers, backend=backend, **options)


def gelu(x: np.ndarray) -> np.ndarray:
    with Net(
        "gelu",
        [InputLayer(tops="y", shape=3, batch_size=2), ActivationLayer(bottoms="y", tops="z", neuron="GELU")],
        backend="numpy",
    ) as net:
        net.write("y", x)
        net.forward()
        return net.blob("z")


def recordings(backend: Any) -> list[Any]:
    """Return those that have a graph."""
    return [one for one in backend.recordings if one.graph is not None]


@pytest.mark.parametrize("late", [False, True])
def test_a_graph_is_captured_at_the_second_call_and_reads_what_changes(cupy: Any, backend: Any, *, late: bool) -> None:
    with gained(backend, ActivationLayer(bottoms="y", tops="z", neuron="GELU")) as net:
        with cupy_standin.lazily(cupy, late):
            for step in range(6):
                net.step = step
                x = np.random.default_rng(step).normal(size=(2, 3)).astype(np.float32)
                net.write("x", x)
                net.forward()
                np.testing.assert_allclose(net.blob("z"), gelu(x + step), rtol=1e-6, err_msg=f"step {step}")
        assert net.node_ops["gain"].state.calls == 2, "called once, captured once, then replayed"
        (recording,) = recordings(backend)
        assert [step.name for step in recording.steps] == ["gain", "z", "z/GELU"]


def test_nothing_is_allocated_in_a_captured_step(cupy: Any, backend: Any) -> None:
    with gained(backend, ActivationLayer(bottoms="y", tops="z", neuron="GELU")) as net:
        net.write("x", np.ones((2, 3)))
        net.forward()
        pools = [one.pool for one in backend.recordings] + [cupy.get_default_memory_pool()]
        before = [pool.total_bytes() for pool in pools]
        for _ in range(3):
            net.forward()
        assert recordings(backend)
        assert [pool.total_bytes() for pool in pools] == before


def test_nothing_is_allocated_in_the_steps_of_a_training(cupy: Any, backend: Any) -> None:
    solver = Solver(SGD(), lr_policy=0.05, momentum_policy=0.9, regu_coef=0.01)
    with Net("pictures", pictures(), backend=backend) as net, solver.start(net) as training:
        for _ in range(3):
            training.step()
        assert recordings(backend)
        pools = [one.pool for one in backend.recordings] + [cupy.get_default_memory_pool()]
        before = [pool.total_bytes() for pool in pools]
        for _ in range(3):
            training.step()
        assert [pool.total_bytes() for pool in pools] == before


def test_an_iteration_of_lenet_is_one_graph_behind_its_source() -> None:
    found = json.loads(run("explain", str(EXAMPLES / "digits" / "lenet.toml"), "--backend", "cupy", "--json").stdout)
    first, rest = found["pieces"]
    assert first == {"recorded": False, "steps": ["forward train", "rows lenet"]}
    assert rest["recorded"] and rest["steps"][-1] == "SGD" and len(rest["steps"]) == 21  # as in docs/gpu.md


def test_temporary_arrays_of_a_graph_are_in_no_other_pool(cupy: Any, backend: Any) -> None:
    class HeldState(GainState):
        def forward(self, inputs: list[Any]) -> None:
            double = inputs[0] * 2  # memory that is free again when this returns, but which replays write to
            self.backend.xp.add(double, 1, out=self.blobs[0])

    class HeldLayer(GainLayer):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> HeldState:
            return HeldState(self, backend, inputs, diffs)

    with Net("held", [InputLayer(tops="x", shape=64), HeldLayer(bottoms="x", tops="y")], backend=backend) as net:
        net.write("x", np.ones((1, 64)))
        net.forward()
        net.forward()
        others = [backend.empty((64,), "float32") for _ in range(8)]
        net.forward()
        assert (net.blob("y") == 3).all()
        assert not any(backend.to_host(one).any() for one in others), "a replay has written into another's memory"


def test_scratch_memory_that_a_graph_writes_to_is_not_given_to_others(cupy: Any, backend: Any) -> None:
    class WorkState(GainState):
        def forward(self, inputs: list[Any]) -> None:
            work = self.backend.scratch((300,))
            work[...] = 7
            super().forward(inputs)

    class WorkLayer(GainLayer):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> WorkState:
            return WorkState(self, backend, inputs, diffs)

    with Net("work", [InputLayer(tops="x"), WorkLayer(bottoms="x", tops="y")], backend=backend) as net:
        view = net.view()
        view.scratch((300,))  # by a step that is not captured
        net.forward()
        net.forward()
        view.scratch((5000,))
        gc.collect()
        others = [backend.empty((300,), "float32") for _ in range(4)]
        net.forward()
        assert not any(backend.to_host(one).any() for one in others)


@pytest.mark.parametrize("move", [lambda net: net.freeze("ip"), lambda net: net.reallocate()])
def test_a_call_that_was_compiled_before_memory_moved_is_recorded_anew(
    backend: Any, move: Callable[[Net], None]
) -> None:
    layers = [
        InputLayer(tops="x", shape=(16,), batch_size=8),
        InputLayer(tops="label", shape=(4,), batch_size=8),
        BatchNormLayer(bottoms="x", tops="b"),
        InnerProductLayer(name="ip", bottoms="b", tops="y", output_dim=4),
        SquareLossLayer(bottoms=("y", "label")),
    ]
    x, label = np.random.default_rng(0).normal(size=(2, 8, 16))
    with Net("moves", layers, backend=backend, seed=1, phase="train") as net:
        run = net.compile([*net.steps("feed"), *net.steps("forward"), *net.steps("backward")])

        def loss() -> float:
            for name, array in (("x", x), ("label", label[:, :4])):
                net.write(name, array)
            run()
            return net.loss()

        before = [loss() for _ in range(3)]
        move(net)
        free = [backend.empty((size,), "float32") for size in (16, 32, 64, 128, 512) for _ in range(6)]
        assert [loss() for _ in range(3)] == before and before[0] > 0
        assert not any(backend.to_host(one).any() for one in free)


def test_what_is_not_capturable_splits_the_graph(backend: Any) -> None:
    last = [ThroughLayer(bottoms="y", tops="z"), ActivationLayer(bottoms="z", tops="w", neuron="Tanh")]
    with gained(backend, *last) as net:
        for _ in range(3):
            net.write("x", np.ones((2, 3)))
            net.forward()
        found = sorted([step.name for step in one.steps] for one in recordings(backend))
        assert found == [["gain"], ["w", "w/Tanh"]]


@pytest.mark.parametrize(
    ("forbidden", "told"),
    [
        (lambda state, x: state.backend.to_host(x), "so D2H transfers are disallowed"),
        (lambda state, x: state.backend.backend.wait(), "(?i)captur"),  # which spoils the capture, too
    ],
    ids=["looks", "waits"],
)
def test_a_state_that_cannot_be_captured_after_all_is_an_error_and_the_stream_works_on(
    backend: Any, forbidden: Any, told: str
) -> None:
    class ForbiddenState(GainState):
        def forward(self, inputs: list[Any]) -> None:
            forbidden(self, inputs[0])
            super().forward(inputs)

    class ForbiddenLayer(GainLayer):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> ForbiddenState:
            return ForbiddenState(self, backend, inputs, diffs)

    with Net("waits", [InputLayer(tops="x"), ForbiddenLayer(bottoms="x", tops="y")], backend=backend) as net:
        net.forward()
        for _ in range(2):
            with pytest.raises(Exception, match=told):
                net.forward()
    assert not backend.stream.is_capturing()
    assert backend.to_host(backend.empty((2,), "float32")).tolist() == [0, 0]


def test_two_graphs_of_one_net_each_leave_their_own_loss(backend: Any) -> None:
    class OwnLossState(GainState):
        loss: Any = 0.0

        def forward(self, inputs: list[Any]) -> None:
            super().forward(inputs)
            self.loss = self.backend.xp.sum(inputs[0])

    class OwnLossLayer(GainLayer, has_loss=True):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> OwnLossState:
            return OwnLossState(self, backend, inputs, diffs)

    with Net("loss", [InputLayer(tops="x"), OwnLossLayer(bottoms="x", tops="y")], backend=backend) as net:
        one, other = (net.compile(net.steps("forward")) for _ in range(2))
        for number, run in enumerate([one, one, other, other, one, other, one]):
            net.write("x", [number])
            net.feed()
            run()
            assert net.loss() == number


def test_a_loss_that_looks_at_the_rows_has_a_graph_for_each_number_of_them(backend: Any) -> None:
    x, y = nacre.Input(3, name="x", batch_size=6), nacre.Input(2, name="y", batch_size=6)
    layers = [L.SquareLoss(name="loss")(L.InnerProduct(output_dim=2)(x), y)]
    with Net("rows", layers, backend=backend) as net, Net("rows", layers, backend="numpy") as own:
        for turn, rows in enumerate((6, 6, 6, 5, 6, 5, 4, 4, 6, 4, 3, 3, 2, 2, 2, 6, 6, 5)):
            random = np.random.default_rng(turn)
            numbers = {name: random.normal(size=(rows, size)) for name, size in (("x", 3), ("y", 2))}
            for one in (net, own):
                for name, array in numbers.items():
                    one.write(name, array)
            assert net.forward() == pytest.approx(own.forward(), rel=1e-5), f"turn {turn}"
            if turn % 3:  # so that backward is captured with other numbers of rows than forward is replayed
                net.backward()
                own.backward()
                for name, handle in net.parameters.items():
                    wanted = own.parameters[name].gradient
                    np.testing.assert_allclose(handle.gradient, wanted, rtol=1e-5, atol=1e-6, err_msg=f"turn {turn}")
        assert all(len(one._graphs) <= 4 for one in backend.recordings)
        assert len(recordings(backend)) == 2, "forward and backward are one graph each"


@pytest.mark.parametrize("options", [{"clip_norm": 0.1}, {"clip_value": 0.01, "n_accumulate": 3}])
def test_gradients_are_clipped_and_added_up_as_on_numpy(backend: Any, options: dict[str, Any]) -> None:
    found = []
    for one in (backend, "numpy"):
        net, solver = (
            Net("points", points(), backend=one, dtype="float64", seed=3),
            Solver("SGD", lr_policy=0.5, **options),
        )
        with net, solver.start(net) as training:
            found.append([cupy_standin.losses_of(training, 6), *(one.value for one in net.parameters.values())])
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-12, atol=1e-14)
    (whole,) = (one for one in recordings(backend) if "SGD" in [step.name for step in one.steps])
    assert "clip" in {step.kind for step in whole.steps} and "backward" in {step.kind for step in whole.steps}


# Looking back


def points(source: bool = True) -> list[Layer]:
    if source:
        data = [np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 3]
        x, label = L.MemoryData(data=data, tops=["x", "label"], batch_size=5, name="train")()
    else:
        x, label = nacre.Input(4, name="x", batch_size=5), nacre.Input(name="label", batch_size=5)
    return [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=3)(x), label)]


@cupy_standin.only_standin
def test_a_training_that_checks_nothing_waits_for_nothing(
    cupy: Any, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Net("points", points(), backend=backend) as net, Solver("SGD", check_finite=False).start(net) as training:
        for _ in range(3):
            training.step()
        with cupy_standin.lazily(cupy), monkeypatch.context() as patch:
            patch.setattr(type(backend), "to_host", lambda *_: pytest.fail("it has looked at a number"))
            for _ in range(4):
                training.step()
                assert backend.stream.queue, "the iteration is not done yet"
        assert np.isfinite(training.loss)


@pytest.mark.parametrize("look", [lambda one: one.step(), lambda one: one.loss, lambda one: one.snapshot()])
def test_a_wrong_label_is_told_one_iteration_later_where_nothing_is_waited_for(backend: Any, look: Any) -> None:
    told = "iteration 2, the batch of layers 'x', 'label': loss: a bottom had a number that it does not take"
    solver = Solver("SGD", check_finite=False)
    with Net("points", points(False), backend=backend) as net, solver.start(net) as training:
        for label in (1, 2, 3):
            net.write("x", np.ones((5, 4)))
            net.write("label", [0, 1, label, 2, 0])
            training.step()
        net.write("label", [0, 1, 0, 2, 0])
        with pytest.raises(DataError, match=told):
            look(training)


def test_a_callback_comes_after_the_look_at_its_iteration(backend: Any, tmp_path: Path) -> None:
    data = [np.ones((20, 4)), np.arange(20)]  # the first batch has labels that are none
    x, label = L.MemoryData(data=data, tops=["x", "label"], batch_size=10, name="train")()
    layers = [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=3)(x), label)]
    saving = Snapshot(folder=str(tmp_path), every_n_iter=1)
    solver = Solver("SGD", max_iter=5, check_finite=False, callbacks=[saving])
    told = "iteration 0, the batch of layer 'train': loss"
    with Net("points", layers, backend=backend) as net, pytest.raises(DataError, match=told):
        solver.solve(net, quiet=True)
    assert {one.name for one in tmp_path.iterdir()} == {".lock", ".nacre", "run.json"}, "there is a snapshot"


def test_a_device_that_cannot_be_used_leaves_the_backend_to_other_threads(backend: Any) -> None:
    class Lost:
        def use(self) -> None:
            raise RuntimeError("cudaErrorDevicesUnavailable")

    here = Here(backend.cupy, Lost(), backend.stream)
    with pytest.raises(RuntimeError, match="Unavailable"), here:
        pytest.fail("it was entered")
    with ThreadPoolExecutor(1) as other:
        assert other.submit(here._lock.acquire, blocking=False).result(), "the lock is free"


def test_numbers_of_an_iteration_are_sent_in_their_order(cupy: Any, backend: Any) -> None:
    """By whomever asks for them outside of passes: behind what is under way on the thread's own stream."""
    with Net("points", points(), backend=backend) as net:
        entered: list[int] = []
        real = backend.here
        send = DeviceScalars.send

        def sent(self: Any, *given: Any) -> None:
            entered.append(len(real._outer))
            send(self, *given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DeviceScalars, "send", sent)
            backend.scalars(net.view())
        assert entered == [1]


def test_downloads_are_read_in_any_order(cupy: Any, backend: Any) -> None:
    arrays = [cupy.array(np.arange(3) + number) for number in range(3)]
    with cupy_standin.lazily(cupy):
        reads = [backend.download(one) for one in arrays]
        for one in arrays:
            with backend.here:
                one.fill(-1)
        assert [reads[number]().tolist() for number in (2, 0)] == [[2, 3, 4], [0, 1, 2]]
        again = backend.download(arrays[0])
        assert again().tolist() == [-1, -1, -1] and reads[1]().tolist() == [1, 2, 3]


# Memory


def test_uploads_do_not_wait_and_none_is_overtaken(cupy: Any, backend: Any) -> None:
    arrays = [backend.empty((5,), "float32") for _ in range(3)]
    kept = [backend.empty((5,), "float32") for _ in range(6)]
    host = np.zeros(5, np.float32)
    with cupy_standin.lazily(cupy):
        for number, copy in enumerate(kept):
            host[:] = number
            backend.upload(host, arrays[number % 3])  # the pinned memory is used again from the third one on
            host[:] = -1
            with backend.here:
                backend.xp.copyto(copy, arrays[number % 3])
        found = [backend.to_host(one)[0] for one in kept]
    assert found == [0, 1, 2, 3, 4, 5]


@cupy_standin.only_standin
def test_out_of_memory_says_what_is_needed_and_what_would_fit(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    backend = cupy_standin.watched()()

    def net(batch: int) -> Net:
        x = nacre.Input(1000, name="x", batch_size=batch)
        return Net(
            "large", [L.InnerProduct(output_dim=1000, name="ip", neuron="Tanh")(x)], backend=backend, phase="predict"
        )

    monkeypatch.setattr(cupy.shared, "total", cupy.shared.used + (24 << 20))
    with pytest.raises(NacreError) as told:
        net(4000)
    message = str(told.value)
    assert "net 'large' needs more memory than is available" in message and "bytes were asked for at once" in message
    assert "for a batch of 4000, " in message and "of" in message and "were free" in message
    most = int(re.search(r"a batch of (\d+) would fit", message)[1])
    assert 500 < most < 4000
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    net(most * 9 // 10).shutdown()


@cupy_standin.only_standin
def test_so_it_does_in_an_iteration(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = cupy_standin.watched()()

    def wide(batch: int) -> Net:
        x, label = nacre.Input((3, 32, 32), name="x", batch_size=batch), nacre.Input(name="label", batch_size=batch)
        maps = L.Softmax()(L.Convolution(n_filter=32, kernel=3, neuron="Tanh")(x))
        return Net("wide", [L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(maps), label)], backend=backend)

    def emptied() -> None:
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()

    emptied()
    with wide(64) as net, Solver("SGD", lr_policy=0.01).start(net) as training:
        monkeypatch.setattr(cupy.shared, "total", cupy.shared.used + (1 << 16))
        with pytest.raises(NacreError, match="net 'wide' needs more memory than is available") as told:
            training.step()
    message = str(told.value)
    assert re.search(r"\d+ bytes were asked for at once, and \d+ of \d+ are free on device 0", message)
    for what in ("for a batch of 64", "for parameters and gradients", "for what layers and training make", "were free"):
        assert what in message, message
    batches = [64, int(re.search(r"try a batch of (\d+)", message)[1])]
    del told, net, training
    while True:  # what else the iteration makes is not known before
        emptied()
        try:
            with wide(batches[-1]) as net, Solver("SGD", lr_policy=0.01).start(net) as training:
                training.step()
                training.step()
                break
        except NacreError as error:
            batches.append(int(re.search(r"a batch of (\d+)( would fit)?$", str(error))[1]))
            del net, training
        if batches[-1] < 32:
            break
    assert sorted({*batches}, reverse=True) == batches
    assert batches[-1] >= 32


def test_the_memory_that_cudnn_works_in_is_there_before_the_first_iteration(backend: Any) -> None:
    x = nacre.Input((3, 8, 8), name="x", batch_size=4)
    with Net("maps", [L.Convolution(n_filter=8, kernel=3)(x)], backend=backend) as net:
        kernel = net.ops[-1].state
        assert net.view()._scratch[0, "uint8", "all"].size >= kernel.most
        assert kernel.most > 1 or cupy_standin.on_gpu(), "the stand-in's plan needs memory"


def test_what_layers_require_comes_to_the_host_in_one_copy(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, label = nacre.Input((4,), name="x", batch_size=3), nacre.Input((1,), name="label", batch_size=3)
    below = L.Sequential(layer=[L.InnerProduct(output_dim=4)])(L.Sequential(layer=[L.InnerProduct(output_dim=4)])(x))
    with Net("net", [L.SoftmaxLoss()(below, label)], backend=backend) as net:
        net.forward()
        copies, real = [], backend.to_host
        monkeypatch.setattr(backend, "to_host", lambda array: copies.append(array.dtype.name) or real(array))
        net.forward()
        assert copies.count("bool") == 1


# Products


class Counted:
    """The functions of cuBLASLt, and how often each was called."""

    def __init__(self, real: Any) -> None:
        self.real, self.calls = real, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self.real, name)


@pytest.fixture
def calls(backend: Any) -> Counter[str]:
    """Return how often the backend has called each function of cuBLASLt."""
    backend.products._library = counted = Counted(backend.products._library)
    return counted.calls


def shapes_of_products() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    plain = [((4, 5), (5, 3)), ((1, 5), (5, 1)), ((5,), (5, 3)), ((4, 5), (5,)), ((5,), (5,)), ((4, 1), (1, 3))]
    return [*plain, ((2, 4, 5), (2, 5, 3)), ((2, 4, 5), (5, 3)), ((4, 5), (2, 5, 3)), ((3, 2, 4, 5), (2, 5, 3))]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("one", "other"), shapes_of_products())
def test_products_are_numpys_for_arrays_that_lie_anyhow(
    cupy: Any, backend: Any, calls: Counter[str], one: tuple[int, ...], other: tuple[int, ...], dtype: str
) -> None:
    random = np.random.default_rng(0)

    def forms(shape: tuple[int, ...]) -> list[tuple[np.ndarray, Any]]:
        host = random.normal(size=shape).astype(dtype)
        wide = random.normal(size=[2 * length for length in shape]).astype(dtype)
        parts = tuple(slice(0, length) for length in shape), tuple(slice(None, None, 2) for _ in shape)
        turned = np.ascontiguousarray(host.T)
        found = [(host, cupy.array(host)), (host, cupy.array(turned).T)]
        return [*found, *((wide[part], cupy.array(wide)[part]) for part in parts)]

    for a, there in forms(one):
        for b, beside in forms(other):
            wanted = np.matmul(a, b)
            tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype == "float16" else {"rtol": 1e-4, "atol": 1e-5}
            np.testing.assert_allclose(backend.xp.matmul(there, beside).get(), wanted, **tolerance)
            for out in (cupy.zeros(wanted.shape, dtype), cupy.zeros(wanted.T.shape, dtype).T):
                assert backend.xp.matmul(there, beside, out=out) is out
                np.testing.assert_allclose(out.get(), wanted, **tolerance)
    assert calls["cublasLtMatmul"] >= 48, "they went by cuBLASLt"
    for what in ("MatmulDesc", "MatrixLayout", "MatmulPreference"):
        assert calls[f"cublasLt{what}Create"] == calls[f"cublasLt{what}Destroy"] > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 255, 4096, 300_001])
def test_the_product_of_two_vectors_is_exact_and_captured(cupy: Any, backend: Any, size: int, dtype: str) -> None:
    a, b = np.random.default_rng(0).normal(size=(2, size)).astype(dtype)
    wanted, tolerance = np.dot(a.astype(float), b.astype(float)), np.finfo(dtype).eps
    wide = cupy.array(np.concatenate([a[:1], a]))
    for one in (cupy.array(a), wide[1:]):  # which no pack fits
        found = backend.xp.dot(one, cupy.array(b))
        assert found.shape == () and str(found.dtype) == dtype
        assert abs(float(found) - wanted) <= tolerance * abs(wanted) + 1e-15 * size
    out, there = backend.empty((), dtype), cupy.array(b)
    with backend.here:
        backend.xp.dot(there, there, out=out)
        backend.stream.begin_capture()
        backend.xp.dot(wide[1:], there, out=out)
        graph = backend.stream.end_capture()
        graph.launch(backend.stream)
    assert backend.to_host(out) == pytest.approx(wanted, rel=1e-6)


def test_products_of_vectors_that_the_kernel_does_not_serve(cupy: Any, backend: Any) -> None:
    whole = cupy.array(np.arange(4))
    assert int(backend.xp.dot(whole, whole)) == 14
    turned = cupy.array(np.arange(8.0))[::2]
    assert float(backend.xp.dot(turned, turned)) == 56


def test_a_product_may_be_written_over_what_it_reads(cupy: Any, backend: Any) -> None:
    host = np.random.default_rng(0).normal(size=(4, 4))
    array = cupy.array(host)
    backend.xp.matmul(array, array, out=array)
    np.testing.assert_allclose(array.get(), host @ host, rtol=1e-12)


@pytest.mark.parametrize("to", ["float32", "float64"])
@pytest.mark.parametrize("other", ["uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("one", ["float32", "float64"])
def test_products_of_two_types_can_be_captured(
    cupy: Any, backend: Any, calls: Counter[str], one: str, other: str, to: str
) -> None:
    a, b = np.linspace(-1, 1, 12).reshape(3, 4).astype(one), np.arange(20).reshape(4, 5).astype(other)
    out = backend.empty((3, 5), to)
    assert backend.xp.matmul(cupy.asarray(a), cupy.asarray(b), out=out) is out
    assert np.allclose(out.get(), a @ b) and calls["cublasLtMatmul"] == 1
    made = backend.xp.matmul(cupy.asarray(b.T), cupy.asarray(a.T))
    assert made.dtype == np.result_type(a, b) and np.allclose(made.get(), (a @ b).T) and calls["cublasLtMatmul"] == 2


def test_products_of_whole_numbers_and_of_nothing(cupy: Any, backend: Any) -> None:
    whole = cupy.array(np.arange(6).reshape(2, 3))
    assert backend.xp.matmul(whole, whole.T).get().tolist() == [[5, 14], [14, 50]]
    nothing = backend.xp.matmul(cupy.zeros((2, 0)), cupy.zeros((0, 3)), out=cupy.ones((2, 3)))
    assert not nothing.get().any()
    with pytest.raises(ValueError, match=r"\(2, 3\) and b of shape \(2, 3\) do not fit"):
        backend.xp.matmul(cupy.ones((2, 3)), cupy.ones((2, 3)))


@pytest.mark.parametrize("to", ["float32", "float64"])
def test_whole_numbers_are_computed_in_the_type_of_a_floating_out(cupy: Any, backend: Any, to: str) -> None:
    a, out = cupy.array(np.array([[200, 3], [100, 7]], np.uint8)), backend.empty((2, 2), to)
    xp = backend.xp
    assert xp.add(a, a, out=out).get().tolist() == [[400, 6], [200, 14]]
    assert xp.negative(a, out=out).get().tolist() == [[-200, -3], [-100, -7]]
    assert xp.matmul(a, a, out=out).get().tolist() == [[40300, 621], [20700, 349]]
    assert xp.take(a, cupy.array([1, 0]), axis=0, out=out, mode="clip").get().tolist() == [[100, 7], [200, 3]]
    assert xp.add(a, a).get().tolist() == [[144, 6], [200, 14]]


def test_products_are_in_tf32_only_where_that_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    exact, there = 1 + 2.0**-13, 1 + 2.0**-10
    for chosen, wanted in (("", exact), ("0", exact), ("1", 1.0)):
        monkeypatch.setenv("CUPY_TF32", chosen)
        backend = cupy_standin.watched()()
        assert backend.environment()["products"] == ("TF32" if chosen == "1" else "float32")
        for number, found in ((exact, wanted), (there, there)):
            a, ones = backend.cupy.array(np.diag([np.float32(number)] * SIDE)), (SIDE, SIDE)
            assert (backend.xp.matmul(a, backend.cupy.ones(ones, "float32")).get() == found).all()
            assert (backend.xp.matmul(a.astype("float64"), backend.cupy.ones(ones)).get() == number).all()


SIDE = 64
"""Of matrices for which a GPU takes its tensor cores."""


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("neuron", ["Identity", "ReLU"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_bias_and_a_relu_are_within_a_product_where_cublaslt_can(
    cupy: Any, backend: Any, dtype: Any, neuron: str, bias: bool
) -> None:
    x, more = nacre.Input((2, 3), name="x", batch_size=4), nacre.Input((6,), name="more", batch_size=5)
    tops = L.InnerProduct(output_dim=5, name="ip", bias=bias, bias_init=0.5, neuron=neuron)(x, more)
    layers = [L.SumLoss()(one) for one in tops]
    random = np.random.default_rng(0)
    numbers = {"x": random.normal(size=(4, 2, 3)), "more": random.normal(size=(5, 6))}
    found = []
    for one in (backend, "numpy"):
        with Net("ip", layers, backend=one, dtype=dtype, input_gradients=[*numbers]) as net:
            for name, array in numbers.items():
                net.write(name, array)
            loss = net.forward()
            net.backward()
            given = [net.gradient(name) for name in numbers]
            found.append([loss, *given, *(handle.gradient for handle in net.parameters.values())])
            if one is backend:
                kernel = net.node_ops["ip"].state
                assert type(kernel).__name__ == "InnerProductKernel" and kernel.capturable
                alone = any(op.neuron is not None for op in net.ops)
                assert alone == (neuron == "ReLU" and dtype == "float64")
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)
    tried = {key[:2]: one is not None for key, one in backend.products._algorithms.items() if key[1]}
    epilogue = 4 * bias + 2 * (neuron == "ReLU" and dtype == "float32")
    assert tried == ({(dtype, epilogue): dtype == "float32" or cupy_standin.on_gpu()} if epilogue else {})


@cupy_standin.only_standin
@pytest.mark.parametrize("says", ["status", "count", "state"])
@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_what_cublaslt_does_not_know_is_computed_otherwise(backend: Any, dtype: str, says: str) -> None:
    x, y = nacre.Input((7,), name="x", batch_size=6), nacre.Input((7,), name="y", batch_size=3)
    tops = L.InnerProduct(output_dim=5, name="ip", bias_init=0.5, neuron="ReLU")(x, y)
    layers = [L.SumLoss()(one) for one in tops]
    numbers = {name: np.random.default_rng(0).integers(-4, 5, (rows, 7)) for name, rows in (("x", 6), ("y", 3))}
    library = backend.products._library
    library.says, found = says, []
    for lacks in (lambda operation, *_: operation.get(7), lambda _, a, *__: a["kind"] == 14, lambda *_: False):
        library.lacks = lacks
        backend.products._algorithms.clear()
        with Net("ip", layers, backend=backend, compute=dtype, input_gradients=["x", "y"], keep="all") as net:
            net.parameters["ip/weight"].value = np.arange(35).reshape(5, 7) % 9 - 4
            for name, array in numbers.items():
                net.write(name, array)
            for _ in range(3):  # called, captured, replayed
                net.forward()
                net.backward()
            names = [*net.node_ops["ip"].node.tops, *numbers]
            found.append([net.gradient(one) for one in numbers] + [net.blob(one) for one in names])
            found[-1] += [handle.gradient for handle in net.parameters.values()]
    for here in found[:2]:
        for one, other in zip(here, found[2], strict=True):
            np.testing.assert_array_equal(one, other)


@cupy_standin.only_standin
def test_a_product_that_cublaslt_does_not_know_at_all_is_an_error(cupy: Any, backend: Any) -> None:
    backend.products._library.lacks = lambda *_: True
    with pytest.raises(NacreError, match="cuBLASLt knows no way to multiply these matrices"):
        backend.xp.matmul(cupy.ones((3, 3)), cupy.ones((3, 3)))


def test_products_are_captured(cupy: Any, backend: Any) -> None:
    a, b, y = (cupy.ones((3, 3), "float32") for _ in range(3))
    backend.xp.matmul(a, b, out=y)
    with backend.here:
        backend.stream.begin_capture()
        backend.xp.matmul(a, b, out=y)
        graph = backend.stream.end_capture()
    a.fill(2)
    graph.launch(backend.stream)
    assert (backend.to_host(y) == 6).all()


@pytest.mark.long
def test_cublaslt_itself_takes_these_descriptions() -> None:
    """Descriptions are made without a GPU: the real library (nvidia-cublas) says what it was told."""
    pathfinder = pytest.importorskip("cuda.pathfinder")
    try:
        found = pathfinder.load_nvidia_dynamic_lib("cublasLt")
    except RuntimeError as error:
        pytest.skip(str(error))
    real = ctypes.CDLL(found.abs_path)
    for name, types in library.CUBLASLT.items():
        getattr(real, f"cublasLt{name}").argtypes = types
    told = real.cublasLtMatrixLayoutGetAttribute
    told.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    works, made = Products(None, real, None), []
    operation = works._new(made, "MatmulDesc", *TYPES["float32"][1:])
    for attribute in (TRANSPOSED_A, TRANSPOSED_B):
        works._set("MatmulDesc", operation, attribute, ctypes.c_int32(1))
    works._set("MatmulDesc", operation, EPILOGUE, ctypes.c_int32(WITH_BIAS))
    works._set("MatmulDesc", operation, BIAS_POINTER, ctypes.c_void_p(64))
    wishes = works._new(made, "MatmulPreference")
    works._set("MatmulPreference", wishes, MOST_WORKSPACE, ctypes.c_uint64(1 << 20))
    for attribute in ALIGNMENTS:
        works._set("MatmulPreference", wishes, attribute, ctypes.c_uint32(16))
    matrix = Matrix(0, rows=4, columns=5, ahead=7, flipped=False, count=3, step=40)
    layout = works._layout(made, TYPES["float32"][0], matrix)
    for attribute, kind, wanted in (
        *((2, ctypes.c_uint64, 5), (3, ctypes.c_uint64, 4), (4, ctypes.c_int64, 7)),
        *((BATCH_COUNT, ctypes.c_int32, 3), (BATCH_STRIDE, ctypes.c_int64, 40)),
    ):
        value, size = kind(), ctypes.c_size_t()
        assert told(layout, attribute, ctypes.byref(value), ctypes.sizeof(value), ctypes.byref(size)) == 0
        assert (value.value, size.value) == (wanted, ctypes.sizeof(kind))
    for what, thing in made:
        works._check(f"{what}Destroy", thing)
