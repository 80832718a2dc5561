"""The onednn backend in whole nets: agreement with numpy, plans, recorded runs, and life without its library."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from helper_calls import without_helper
from mixed_nets import EXAMPLES, from_file, mixed_net, trained
from nacre import DataError, InputLayer, Layer, NacreError, Net, NotFiniteError, Own, Solver, open_backend
from nacre.config import load
from nacre.protocols.backend import Step as NetStep
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example
from nacre_layers.containers.residual import ResidualLayer
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.linear.embedding import EmbeddingLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl import library
from nacre_onednn.helper import native
from nacre_onednn.kernels.dropout import DropoutKernel
from nacre_onednn.kernels.embedding import EmbeddingKernel
from nacre_onednn.kernels.loss import SoftmaxLossKernel
from nacre_onednn.kernels.update import AdamKernel
from nacre_onednn.record import FUNCTION, Record
from nacre_solvers import SGD, Adam, AdamW, Step

REASON = OnednnBackend.unusable()
needs_onednn = pytest.mark.skipif(REASON is not None, reason=f"oneDNN cannot be used here: {REASON}")
needs_helper = pytest.mark.skipif(
    REASON is not None or native.helper() is None, reason="the native helper was not compiled"
)


# --- finding the library ---------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library be looked for anew, beside the one that the process has."""
    monkeypatch.setattr("nacre_onednn.backend.find", library.find.__wrapped__)


def test_a_path_that_leads_nowhere_is_told(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    monkeypatch.setenv("NACRE_DNNL", "/nowhere/libdnnl.so.3")
    reason = OnednnBackend.unusable()
    assert reason is not None
    assert "/nowhere/libdnnl.so.3 cannot be loaded" in reason
    assert "NACRE_DNNL" in reason


def test_another_library_is_told(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    other = ctypes.util.find_library("m") if hasattr(ctypes, "util") else None
    monkeypatch.setenv("NACRE_DNNL", other or "libm.so.6")
    reason = OnednnBackend.unusable()
    assert reason is not None
    assert "is not oneDNN" in reason or "cannot be loaded" in reason


@pytest.mark.parametrize(
    ("major", "runtime", "told"),
    [
        (2, 2, "is oneDNN 2.6.3, but version 3 is needed"),
        (3, 512, "with the runtime SYCL"),
        (3, 7, "with the runtime number 7"),
    ],
)
def test_an_unfit_library_is_refused(monkeypatch: pytest.MonkeyPatch, major: int, runtime: int, told: str) -> None:
    version = library.Version(major, 6, 3, b"", runtime, 0)

    class Fake:
        class dnnl_version:
            restype: Any = None

            def __new__(cls) -> Any:
                return ctypes.pointer(version)

    monkeypatch.setattr(library, "_load", lambda path: Fake)
    with pytest.raises(NacreError, match="libdnnl") as caught:
        library.Library("libdnnl.so.3")
    assert told in str(caught.value)


def test_without_a_library_numpy_serves(tmp_path: Path) -> None:
    script = (
        "from nacre import open_backend, NacreError\n"
        "print(open_backend('auto').name)\n"
        "try:\n    open_backend('onednn')\nexcept NacreError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "NACRE_DNNL": str(tmp_path / "none.so")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("numpy\nbackend 'onednn' cannot be used here: ")


@needs_onednn
def test_the_spin_count_is_set_for_loading_only() -> None:
    script = (
        "import ctypes, os\n"
        "from nacre import open_backend\n"
        "open_backend('onednn')\n"
        "print(os.environ.get('GOMP_SPINCOUNT'))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**environment, "OMP_DISPLAY_ENV": "VERBOSE"},
    )  # fmt: skip
    assert done.stdout == "None\n"
    if "GOMP_SPINCOUNT" in done.stderr:  # only libgomp tells it
        assert f"GOMP_SPINCOUNT = '{library.SPINS}'" in done.stderr


# --- the same numbers as numpy ---------------------------------------------------------------------------------------


def assert_near(actual: Any, expected: Any, what: str, tolerance: float = 1e-5) -> None:
    error = np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-12)
    assert error < tolerance, f"{what}: {error:.2g}"


def assert_same_gradients(net: Net, other: Net) -> None:
    for one in (net, other):
        one.forward()
        one.backward()
    assert net.loss() == pytest.approx(other.loss(), rel=1e-5)
    for name, handle in net.parameters.items():
        if handle.gradient is None:  # a buffer
            assert_near(handle.value, other.parameters[name].value, name)
        else:
            assert_near(handle.gradient, other.parameters[name].gradient, name)


@needs_onednn
@pytest.mark.parametrize("path", ["lenet/lenet.toml", "mlp/mlp.toml", "cifar/quick.toml"])
def test_whole_nets_agree_with_numpy(path: str) -> None:
    nets = [from_file(path, backend) for backend in ("onednn", "numpy")]
    assert_same_gradients(*nets)
    trainings = [Solver(SGD(), lr_policy=0.01, momentum_policy=0.9, regu_coef=5e-4).start(net) for net in nets]
    for _ in range(5):
        for training in trainings:
            training.step()
        assert trainings[0].loss == pytest.approx(trainings[1].loss, rel=1e-4)


@needs_onednn
def test_nets_of_kernels_and_other_states_agree_with_numpy() -> None:
    net, other = mixed_net("onednn", keep="all"), mixed_net("numpy", keep="all")
    assert_same_gradients(net, other)
    for name in ("conv1", "norm", "pool1", "conv2", "pool2", "ip1", "ip2"):
        assert_near(net.blob(name), other.blob(name), name)
        assert_near(net.gradient(name), other.gradient(name), f"gradient of {name}")


@needs_onednn
def test_gradients_of_sharers_are_added_in_recorded_runs() -> None:
    layers = [InputLayer(tops="data", shape=(8,), batch_size=4), InputLayer(tops="label", shape=(8,), batch_size=4)]
    names = ["data", *(f"ip{number}" for number in range(4))]
    for below, name in itertools.pairwise(names):
        layers.append(InnerProductLayer(bottoms=below, tops=name, output_dim=8, neuron="Tanh", param_key="all"))
    layers.append(SquareLossLayer(name="loss", bottoms=["ip3", "label"]))
    nets = [Net("sharers", layers, backend=backend) for backend in ("onednn", "numpy")]
    added = [step.own for step in nets[0].steps("backward") if step.kind == "accumulate"]
    assert len(added) == 2 * 3  # of the weight and the bias
    assert set(added) == {nets[0].backend}
    x = np.random.default_rng(0).normal(size=(2, 4, 8))
    for net in nets:
        net.write("data", x[0])
        net.write("label", x[1])
    assert_same_gradients(*nets)
    assert_same_gradients(*nets)  # what is added up begins anew in each pass


@needs_onednn
def test_blobs_of_one_shape_lie_alike_in_all_runs_of_a_net() -> None:
    """States over elements, such as STanh's, read one and write another, and they split a net into runs."""
    for layout in ("channels last", "blocked"):
        plan = {name: {"layout": layout} for name in mixed_net("onednn", keep="all").plan}
        net = mixed_net("onednn", keep="all", plan=plan)
        blobs = [one for op in net.ops for one in op.input_arrays if isinstance(one, Own)]
        assert {blob.layout for blob in blobs if blob.shape[1:2] == (16,) and blob.layout != "plain"} == {layout}
        assert_same_gradients(net, mixed_net("numpy"))


@needs_onednn
def test_sharing_memory_changes_no_number() -> None:
    """Values and gradients lie in one memory where their lifetimes do not meet; backward may be called twice."""
    plan = mixed_net("onednn").plan
    sharing, keeping = mixed_net("onednn", plan=plan), mixed_net("onednn", plan=plan, keep="all")
    for _ in range(2):
        for net in (sharing, keeping):
            net.forward()
            net.backward()
            net.backward()
        assert sharing.loss() == keeping.loss()
        for name, handle in keeping.parameters.items():
            np.testing.assert_array_equal(sharing.parameters[name].gradient, handle.gradient, err_msg=name)
    bytes_of = sharing.memory.planned_bytes()
    assert bytes_of["peak"] <= bytes_of["planned"] < 0.7 * keeping.memory.planned_bytes()["planned"]


@needs_onednn
@pytest.mark.parametrize(
    ("path", "phase", "share"), [("lenet/lenet.toml", "train", 0.75), ("cifar/quick.toml", "train", 0.75),
                                 ("cifar/quick.toml", "predict", 0.75)]
)  # fmt: skip
def test_blobs_share_memory_as_a_summary_without_memory_says(path: str, phase: str, share: float) -> None:
    file = load(EXAMPLES / path)
    plans = [file.net(phase, backend="onednn", allocate=one).memory.planned_bytes() for one in (False, True)]
    assert plans[0] == plans[1]
    assert plans[0]["peak"] <= plans[0]["planned"] < share * plans[0]["blobs"]


@needs_onednn
def test_a_net_runs_in_another_thread_than_it_was_made_in() -> None:
    net, expected = mixed_net("onednn"), mixed_net("numpy")
    thread = threading.Thread(target=net.forward)
    thread.start()
    thread.join()
    assert net.loss() == pytest.approx(expected.forward(), rel=1e-5)


@needs_onednn
def test_pytorchs_threads_are_left_alone() -> None:
    here = library.library()
    before = here.set_threads(3)
    try:
        mixed_net("onednn").forward()
        assert here.set_threads(3) == 3
    finally:
        here.set_threads(before)


@needs_onednn
def test_sums_of_gradients_are_part_of_the_run() -> None:
    """Also those of blobs with three axes, which lie as NumPy's arrays."""
    inside = [InnerProductLayer(output_dim=6, axis=-1, neuron="GELU")]
    layers = [
        InputLayer(tops=("x", "target"), shape=(5, 6), batch_size=3),
        ResidualLayer(name="residual", bottoms="x", tops="y", layer=inside),
        SquareLossLayer(name="loss", bottoms=("y", "target")),
    ]
    found: list[dict[str, Any]] = []
    for backend in ("numpy", "onednn"):
        net = Net("net", layers, backend=backend, seed=1, input_gradients=("x",))
        net.write("x", np.random.default_rng(0).normal(size=(3, 5, 6)))
        net.write("target", np.ones((3, 5, 6)))
        net.forward()
        net.backward()
        found.append({"x": net.gradient("x"), **{name: one.gradient for name, one in net.parameters.items()}})
        assert backend == "numpy" or all(step.own is net.backend for step in net.steps("backward"))
    for name, one in found[0].items():
        np.testing.assert_allclose(found[1][name], one, rtol=1e-4, atol=1e-6)


@needs_onednn
@pytest.mark.parametrize("helped", [True, False])
def test_a_run_has_its_threads_and_leaves_those_of_the_caller(helped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not helped:
        without_helper(monkeypatch)
    here = library.library()
    if here.runtime != library.OPENMP:
        pytest.skip("this oneDNN has no OpenMP")
    seen: list[int] = []

    @FUNCTION
    def look(*_: object) -> None:
        seen.append(here.functions.omp_get_max_threads())

    run = Record()
    run.add_shared(look, library.Argument(), 1, 1, None)
    before = here.set_threads(3)
    try:
        run.replay(2)()
        assert here.set_threads(3) == 3
    finally:
        here.set_threads(before)
    assert seen == [2]


@needs_onednn
def test_a_run_is_recorded_on_its_threads() -> None:
    """Primitives that are made then, such as copies between layouts, are made for their number."""
    here, backend = library.library(), open_backend("onednn")
    assert isinstance(backend, OnednnBackend)
    if here.runtime != library.OPENMP:
        pytest.skip("this oneDNN has no OpenMP")
    seen: list[int] = []
    run = backend.compile([NetStep("copy", "blob", lambda: seen.append(here.functions.omp_get_max_threads()), backend)])
    before = here.set_threads(backend.threads + 1)
    try:
        run()
        run()
        assert here.set_threads(before) == backend.threads + 1
    finally:
        here.set_threads(before)
    assert seen == [backend.threads]


@needs_onednn
def test_learning_curves_agree_with_numpy() -> None:
    losses: dict[str, list[float]] = {}
    for backend in ("onednn", "numpy"):
        net = mixed_net(backend)
        solver = Solver(SGD(), lr_policy=Step(base=0.1, gamma=0.5, stepsize=5), momentum_policy=0.9, regu_coef=0.01)
        with solver.start(net) as training:
            losses[backend] = []
            for _ in range(12):
                training.step()
                losses[backend].append(training.loss)
    np.testing.assert_allclose(losses["onednn"], losses["numpy"], rtol=1e-3)
    assert len(set(losses["onednn"])) == 12, "the recorded steps see the rates and the masks of their iteration"


@needs_onednn
def test_predictions_see_updated_parameters() -> None:
    net = mixed_net("onednn")
    data = np.random.default_rng(1).normal(size=(9, 3, 9, 9)).astype(np.float32)
    before = net.predict(data, "ip2")
    with Solver(SGD(), lr_policy=0.1).start(net) as training:
        training.step()
    after = net.predict(data, "ip2")
    assert np.abs(after - before).max() > 1e-4
    other = mixed_net("numpy")
    for name, handle in other.parameters.items():
        handle.value = net.parameters[name].value
    assert_near(after, other.predict(data, "ip2"), "prediction")


@needs_onednn
def test_data_that_are_not_finite_stop_the_training() -> None:
    """oneDNN's ReLU and max pooling pass over NaN, so the loss may be finite: the gradients are not."""
    net = mixed_net("onednn")
    data = np.zeros((6, 3, 9, 9))
    data[2, 1, 4, 4] = np.nan
    net.write("data", data)
    with Solver(SGD(), lr_policy=0.1).start(net) as training, pytest.raises(NotFiniteError):
        training.step()


@needs_onednn
def test_threads_change_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    two = from_file("lenet/lenet.toml", "onednn")
    two.forward()
    two.backward()
    monkeypatch.setattr(open_backend("onednn"), "threads", 1)
    assert_same_gradients(from_file("lenet/lenet.toml", "onednn"), two)


# --- plans -----------------------------------------------------------------------------------------------------------


@needs_onednn
def test_a_plan_is_followed() -> None:
    plan = json.loads(json.dumps(mixed_net("onednn").plan))
    part = plan["onednn"]
    assert part["layout"] in ("channels last", "blocked")
    part["layout"] = {"blocked": "channels last", "channels last": "blocked"}[part["layout"]]
    del part["ways"]  # those of another layout
    net = mixed_net("onednn", plan=plan)
    assert net.node_ops["conv1"].state.blobs[0].layout == part["layout"]
    assert {**net.plan["onednn"], "ways": None} == {**part, "ways": None}
    assert_same_gradients(net, mixed_net("numpy"))


@needs_onednn
@pytest.mark.parametrize(
    "change", [{"layout": "in the air"}, {"layout": 3}, {"ways": "all"}, {"ways": {"conv1": {"forward": "backwards"}}}]
)
def test_a_plan_of_another_library_is_decided_anew(change: dict[str, Any]) -> None:
    plan = mixed_net("onednn").plan
    for part in plan.values():
        part.update(change)
    assert_same_gradients(mixed_net("onednn", plan=plan), mixed_net("numpy"))


@needs_onednn
def test_training_resumes_bit_for_bit_with_its_plan() -> None:
    expected = trained(mixed_net("onednn", plan=(plan := mixed_net("onednn").plan)), 6)
    first = mixed_net("onednn", plan=plan)
    solver = Solver(SGD(), lr_policy=0.05, momentum_policy=0.9)
    with solver.start(first) as training:
        for _ in range(3):
            training.step()
        snapshot = training.snapshot()
    second = mixed_net("onednn", plan=snapshot.state["plan"])
    told: list[dict[str, Any]] = []
    with solver.start(second, [lambda event, data: told.append({"event": event, **data})]) as training:
        training.restore(snapshot)
        for _ in range(3):
            training.step()
    assert {name: handle.value.tobytes() for name, handle in second.parameters.items()} == expected
    assert [one for one in told if one["event"] == "warning"] == []


# --- the helper and ctypes -------------------------------------------------------------------------------------------


@pytest.fixture
def no_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    without_helper(monkeypatch)


@needs_onednn
def test_without_the_helper_ctypes_does_the_same(no_helper: None) -> None:
    net = mixed_net("onednn")
    assert not isinstance(net.node_ops["loss"].state, SoftmaxLossKernel)
    assert_same_gradients(net, mixed_net("numpy"))


@needs_helper
def test_updates_and_masks_have_the_same_bits_with_and_without_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_backend("onednn"), "threads", 2)
    with_helper = dropped("onednn")
    with monkeypatch.context() as patch:
        without_helper(patch)
        without = dropped("onednn")
    for name, value in with_helper.items():
        np.testing.assert_array_equal(value, without[name], err_msg=name)


@needs_helper
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("place", ["outside", "uncorrected", "inside"])
@pytest.mark.parametrize("method", [Adam, AdamW])
def test_adam_has_the_bits_of_numpy(method: Any, place: Any, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_backend("onednn"), "threads", threads)
    found: list[dict[str, Any]] = []
    for backend in ("onednn", "numpy"):
        layers: list[Layer] = [
            InputLayer(name="in", tops="data", shape=40013, batch_size=1),
            InputLayer(name="labels", tops="label", shape=1, batch_size=1),
            InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=1, bias=False, weight_init="Constant"),
            SquareLossLayer(name="loss", bottoms=["ip", "label"]),
        ]
        net = Net("adam", layers, backend=backend, seed=11)
        net.write("label", [[1]])
        solver = Solver(method(epsilon_place=place, beta1=0.7), lr_policy=0.01, regu_coef=0.5)
        with solver.start(net) as training:
            assert isinstance(training.method, AdamKernel) == (backend == "onednn")
            for number in range(3):
                data = np.random.default_rng(number).integers(-1, 2, 40013)
                data[:] = 0 if number else data  # the gradients of later steps are 0, and those of the first exact
                net.write("data", data.reshape(1, -1))
                training.step()
            memory = dict(training.method.memory())
        found.append({**{name: handle.value for name, handle in net.parameters.items()}, **memory})
        net.shutdown()
        net.backend.parameters.clear()
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name], err_msg=name)
    assert np.unique(found[0]["ip/weight"]).size > 2


def dropped(backend: str) -> dict[str, Any]:
    """Return masks and parameters after some steps in which no gradient depends on how a sum is rounded."""
    layers: list[Layer] = [
        InputLayer(name="in", tops="data", shape=40013, batch_size=1),
        InputLayer(name="labels", tops="label", batch_size=1),
        DropoutLayer(name="drop", bottoms="data", ratio=0.3),
        InnerProductLayer(bottoms="data", tops="ip", output_dim=1, bias=False),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"], weight=3.0),
    ]
    net = Net("dropped", layers, backend=backend, seed=11, keep=("data",))
    net.write("data", np.random.default_rng(2).normal(size=(1, 40013)))
    net.write("label", [0])
    found: dict[str, Any] = {}
    with Solver(SGD(), lr_policy=0.1, momentum_policy=0.9, regu_coef=0.5).start(net) as training:
        for number in range(3):
            training.step()
            found[f"mask {number}"] = net.blob("data")
    assert 0.28 < (found["mask 0"] == 0).mean() < 0.32
    return found | {name: handle.value for name, handle in net.parameters.items()}


@needs_helper
def test_a_whole_iteration_is_one_call() -> None:
    net = from_file("lenet/lenet.toml", "onednn")
    assert net.schedule.copies == []
    runs = [step.own for step in [*net.steps("forward"), *net.steps("backward")]]
    assert set(runs) == {open_backend("onednn")}


@needs_helper
class TestSoftmaxLossKernel(KernelTests):
    layer = SoftmaxLossLayer
    kernel = SoftmaxLossKernel
    backend_name = "onednn"

    def examples(self):
        labels = np.array([2, 0, 1, 2])
        yield Example({}, [(4, 3), labels])
        yield Example({"weight": 0.5}, [(4, 3), labels.astype(np.float32)], wanted=[0], label="labels of float32")
        yield Example({}, [(4, 3), labels.astype(np.int32).reshape(4, 1)], label="labels of int32")
        yield Example({}, [(4, 3), labels.astype(np.uint8)], label="labels of uint8")
        yield Example(
            {}, [np.array([[1e4, 0, -1e4], [-200, 0, 0]], np.float32), labels[:2]], wanted=[0], label="far apart"
        )
        yield Example({}, [(4, 3, 2), np.array([[[0, 2]], [[1, 1]], [[2, 0]], [[2, 2]]])], label="pixels")
        pixels = np.random.default_rng(0).integers(-1, 5, (3, 1, 4, 7))
        yield Example({"ignore_label": -1}, [(3, 5, 4, 7), pixels], label="pixels of images, ignored ones")
        yield Example({"axis": 2}, [(2, 3, 4, 5), np.arange(30).reshape(2, 3, 1, 5) % 4], label="an axis between")
        yield Example({"normalize": "batch"}, [(4, 3), labels], label="the same for one label a record")
        yield Example({"axis": -1}, [(4, 3, 17), np.arange(12).reshape(4, 3)], label="steps")
        steps = np.array([[0, 7, 7], [3, 7, 39], [7, 7, 7], [2, 1, 0]])
        for normalize in ("valid", "full", "batch", "none"):
            fields = {"axis": -1, "ignore_label": 7, "normalize": normalize, "weight": 0.3}
            yield Example(fields, [(4, 3, 40), steps.reshape(4, 3, 1)], label=f"an ignored label, {normalize}")
        yield Example({"ignore_label": -1}, [(3, 2), np.full(3, -1)], label="all are ignored")
        yield Example({"weights": [1, 2, 3]}, [(4, 3), labels], label="weights: declined")
        yield Example({"label_smoothing": 0.1}, [(4, 3), labels], label="smoothing: declined")

    def strategy(self):
        def example(images: int, steps: int, classes: int, seed: int) -> Example:
            labels = np.random.default_rng(seed).integers(-1, classes, (images, steps))
            return Example({"axis": -1, "ignore_label": -1}, [(images, steps, classes), labels])

        return st.builds(example, st.integers(1, 5), st.integers(1, 4), st.integers(1, 70), st.integers(0, 99))


@needs_helper
class TestEmbeddingKernel(KernelTests):
    layer = EmbeddingLayer
    kernel = EmbeddingKernel
    backend_name = "onednn"

    def examples(self):
        fields = {"input_dim": 5, "output_dim": 3}
        yield Example(fields, [np.array([[0, 4, 4], [1, 0, 4]])], label="rows twice")
        yield Example({**fields, "bias": False}, [np.array([3.0, 0, 2], np.float32)], label="no bias, one axis")
        yield Example({**fields, "output_dim": 40}, [np.zeros((2, 3, 2), np.uint8)], label="several registers")
        yield Example(fields, [np.zeros((2, 3), np.int32)] * 2, label="two bottoms: declined")
        yield Example(fields, [np.zeros((2, 3), np.int8)], label="numbers of int8: declined")

    def strategy(self):
        def example(shape: list[int], kind: str, seed: int, **fields: Any) -> Example:
            return Example(fields, [np.random.default_rng(seed).integers(0, fields["input_dim"], shape).astype(kind)])

        shapes, kinds = st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from(["int64", "float32"])
        sizes = {"input_dim": st.integers(1, 20), "output_dim": st.integers(1, 40), "bias": st.booleans()}
        return st.builds(example, shapes, kinds, st.integers(0, 99), **sizes)


@needs_helper
def test_numbers_beyond_an_embedding_are_told() -> None:
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=3, dtype="int64", batch_size=2),
        EmbeddingLayer(name="words", bottoms="x", tops="y", input_dim=5, output_dim=4),
    ]
    with Net("n", layers, backend="onednn", phase="predict") as net:
        assert isinstance(net.ops[1].state, EmbeddingKernel)
        for wrong in (5, -1):
            net.write("x", [[0, 1, 2], [0, wrong, 2]])
            with pytest.raises(DataError, match=f"words: number {wrong} of record 1 of the batch"):
                net.forward()
        net.write("x", [[0, 1, 2], [0, 4, 2]])
        net.forward()


@needs_helper
class TestDropoutKernel(KernelTests):
    layer = DropoutLayer
    kernel = DropoutKernel
    backend_name = "onednn"

    def examples(self):
        yield Example({"ratio": 0.4}, [(5, 7)])
        yield Example({"auto_scale": False}, [(2, 3, 4, 4)], label="unscaled")
        yield Example({}, [(3, 8, 4, 4)], label="images: declined")


@needs_helper
def test_wrong_labels_are_told_before_anything_is_updated() -> None:
    net = from_file("lenet/lenet.toml", "onednn")
    labels = np.zeros(64)
    labels[7] = 10
    net.write("label", labels)
    before = {name: handle.value for name, handle in net.parameters.items()}
    told = r"loss: label 10 of record 7 of the batch is not a whole number from 0 to 9"
    with Solver(SGD(), lr_policy=0.1).start(net) as training, pytest.raises(DataError, match=told):
        training.step()
    for name, value in before.items():
        np.testing.assert_array_equal(net.parameters[name].value, value)
    net.write("label", np.zeros(64))
    net.forward()
    assert np.isfinite(net.loss()), "the net goes on with right labels"


@needs_onednn
def test_a_loss_that_is_not_finite_names_the_blob() -> None:
    """Blobs are looked into between passes; conv2 has lost its memory by then, as nothing in backward reads it."""
    net = from_file("lenet/lenet.toml", "onednn")
    for name, number in (("conv2/bias", np.inf), ("ip2/weight", np.nan)):  # ReLU would hide the first alone
        net.parameters[name].value = np.full(net.parameters[name].shape, number)
    with Solver(SGD(), lr_policy=0.1).start(net) as training, pytest.raises(NotFiniteError, match="blob 'pool2'"):
        training.step()


# --- processes and memory --------------------------------------------------------------------------------------------


@needs_onednn
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_is_told() -> None:
    script = (
        "import os, sys\n"
        "from nacre import InputLayer, NacreError, Net\n"
        "from nacre_layers import InnerProductLayer\n"
        "layers = [InputLayer(name='in', tops='x', shape=3), InnerProductLayer(bottoms='x', tops='y', output_dim=2)]\n"
        "net = Net('net', layers, backend='onednn')\n"
        "net.forward()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        net.forward()\n"
        "    except NacreError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600)
    assert "opened before this process was forked" in done.stdout


@needs_onednn
@pytest.mark.long
def test_a_long_learning_curve_is_that_of_numpy() -> None:
    losses: list[list[float]] = []
    for backend in ("onednn", "numpy"):
        with Solver(SGD(), lr_policy=0.001, momentum_policy=0.9).start(from_file("lenet/lenet.toml", backend)) as one:
            losses.append([])
            for _ in range(200):
                one.step()
                losses[-1].append(one.loss)
    np.testing.assert_allclose(*losses, rtol=1e-3)


@needs_onednn
@pytest.mark.long
def test_memory_does_not_grow() -> None:
    script = (
        "import resource\n"
        "from nacre import Solver\n"
        "from nacre_solvers import SGD\n"
        "from nacre.config import load\n"
        f"net = load({str(EXAMPLES / 'mlp/mlp.toml')!r}).net('train', backend='onednn')\n"
        "with Solver(SGD(), lr_policy=0.01, momentum_policy=0.9).start(net) as training:\n"
        "    for number in range(10000):\n"
        "        training.step()\n"
        "        if number in (100, 9999):\n"
        "            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    early, late = map(int, done.stdout.split())
    assert late - early < 1024


@pytest.mark.parametrize("compute", ["float32", "bf16"])
def test_packed_parameters_are_packed_again_when_they_change(compute: str) -> None:
    """Nets that do not train keep their packed weights: also where another net trains them, or somebody writes them."""
    if compute not in ("float32", *open_backend("onednn").computes):
        pytest.skip("this processor does not compute in bf16")
    random = np.random.default_rng(0)
    layers = [
        InputLayer(name="in", tops=["x"], shape=(16, 6, 6), batch_size=4),
        InputLayer(name="labels", tops=["label"], batch_size=4, dtype="int64", exclude=["predict"]),
        ConvolutionLayer(name="conv", bottoms=["x"], tops=["conv"], n_filter=16, kernel=3),
        InnerProductLayer(name="ip", bottoms=["conv"], tops=["score"], output_dim=5),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"], exclude=["predict"]),
    ]
    training = Net("trained", layers, backend="onednn", compute=compute)
    kept = Net("kept", layers, backend="onednn", compute=compute, phase="predict")
    assert kept.parameters["ip/weight"].storage is training.parameters["ip/weight"].storage
    x = random.normal(size=(4, 16, 6, 6))
    training.write("x", x)
    training.write("label", [0, 0, 0, 0])

    def check() -> None:
        kept.write("x", x)
        kept.forward()
        fresh = Net("fresh", layers, backend="onednn", compute=compute, phase="predict", share=training)
        fresh.write("x", x)
        fresh.forward()
        assert np.array_equal(kept.blob("score"), fresh.blob("score"))

    check()
    before = kept.blob("score")
    Solver("SGD", max_iter=2, lr_policy=0.1, callbacks=[]).solve(training)
    check()
    assert not np.array_equal(kept.blob("score"), before)
    for name in ("ip/weight", "conv/weight"):
        before = kept.blob("score")
        training.parameters[name].value = 2 * training.parameters[name].value
        check()
        assert not np.array_equal(kept.blob("score"), before)
