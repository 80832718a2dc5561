"""Convolutions of the cupy backend by cuDNN, over the stand-ins for CuPy and for cuDNN's frontend."""

from __future__ import annotations

import importlib
import inspect
import json
import mmap
import os
from collections.abc import Callable, Generator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cuda_on_host
import cupy_standin
import nacre
from cuda_expressions import EXPRESSIONS
from cupy_standin import STANDIN
from exact import narrow, widen
from nacre import ConfigError, L, Net, Solver
from nacre_cupy import library
from nacre_cupy.convolutions import Convolution, graph_of
from nacre_cupy.dnn import CALLS, Dnn
from nacre_cupy.kernels import blobs
from nacre_cupy.kernels.bias import BiasGradient, add_bias
from nacre_cupy.kernels.launch import source
from nacre_cupy.plans import TENSORS, build
from nacre_solvers import SGD

pytestmark = pytest.mark.usefixtures("cupy")


@pytest.fixture
def frontend(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """Return the stand-in's frontend; no plan of an earlier test is taken."""
    if cupy_standin.on_gpu():
        pytest.skip("only the stand-in's frontend tells what has run, and lets it be refused")
    monkeypatch.setenv("NACRE_CACHE", "")
    found = library.cudnn()
    found.ran.clear()
    yield found
    found.lacks.clear()


# The whole layer


def maps(**options: Any) -> list[Any]:
    x, label = nacre.Input((3, 9, 8), name="x", batch_size=4), nacre.Input((), name="label", batch_size=4)
    first = L.Convolution(n_filter=8, kernel=3, pad=1, neuron="ReLU", name="conv1", **options)(x)
    second = L.Convolution(n_filter=6, kernel=(3, 2), stride=(2, 1), n_group=2, name="conv2", **options)(first)
    return [L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(L.Pooling(kernel=2)(second)), label)]


def computed(backend: Any, layers: list[Any], turns: int = 1, **options: Any) -> list[Any]:
    """Return the loss, the gradients of the images and of all parameters, after some passes."""
    with Net("maps", layers, backend=backend, input_gradients=["x"], seed=1, **options) as net:
        for turn in range(turns):
            net.write("x", np.random.default_rng(turn).normal(size=(4, 3, 9, 8)))
            net.write("label", [0, 1, 2, 1])
            loss = net.forward()
            net.backward()
        return [loss, net.gradient("x"), *(handle.gradient for handle in net.parameters.values())]


def check(found: list[Any], wanted: list[Any], close: float = 1e-5) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=close, atol=close)


def test_a_net_is_that_on_numpy(backend: Any) -> None:
    check(computed(backend, maps(), turns=3), computed("numpy", maps(), turns=3))


def test_bias_and_relu_are_in_one_graph_and_plans_are_kept_for_each_shape(backend: Any, frontend: Any) -> None:
    computed(backend, maps(), turns=3)
    # in C++ words: conv, bias and ReLU; timed and called, and captured, but replayed without Python
    once = [("forward", 3), ("forward", 2), ("weight", 1), ("data", 1), ("weight", 1), ("data", 1)]
    assert [(way, nodes) for way, _, nodes in frontend.ran] == [one for one in once for _ in range(4)] + once
    made = dict(backend.dnn._made)
    assert len(made) == 6
    computed(backend, maps())
    assert dict(backend.dnn._made) == made
    assert {one.handle.stream for one in made.values()} == {backend.stream.ptr}


def sums(index: int, neuron: str, **options: Any) -> list[Any]:
    """Return a net with a convolution whose top is bottom `index` of a sum."""
    x, label = nacre.Input((3, 9, 8), name="x", batch_size=4), nacre.Input((), name="label", batch_size=4)
    first = L.Convolution(n_filter=8, kernel=3, pad=1)(x)
    ends = [L.Convolution(n_filter=8, kernel=3, pad=1, name="last", **options)(first), L.LRN(kernel=3)(first)]
    added = L.ElementWise(name="added", neuron=neuron)(*(ends if index == 0 else ends[::-1]))
    return [L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(L.Pooling(kernel=2)(added)), label)]


each_sum = pytest.mark.parametrize(("index", "neuron", "options"), [(0, "ReLU", {}), (1, "Identity", {"bias": False})])


@each_sum
def test_a_sum_is_that_on_numpy(backend: Any, index: int, neuron: str, options: Any) -> None:
    layers, split = sums(index, neuron, **options), {"insert_splits": True}
    check(computed(backend, layers, turns=3, **split), computed("numpy", layers, turns=3, **split))
    near_in_bf16(backend, layers, **split)


def near_in_bf16(backend: Any, layers: list[Any], **split: bool) -> None:
    found, wanted = computed(backend, layers, compute="bf16", **split), computed("numpy", layers, **split)
    for one, other in zip(found, wanted, strict=True):
        assert np.linalg.norm(one - other) < 0.1 * np.linalg.norm(other)


@each_sum
def test_a_sum_is_in_the_graph_of_the_convolution_below(
    backend: Any, frontend: Any, index: int, neuron: str, options: Any
) -> None:
    layers, split = sums(index, neuron, **options), {"insert_splits": True}
    computed(backend, layers, turns=3, **split)
    nodes = 1 + options.get("bias", True) + 1 + (neuron == "ReLU")
    assert ("forward", "exact", nodes) in frontend.ran
    frontend.lacks.add("add")
    backend.dnn._made.clear()
    check(computed(backend, layers, **split), computed("numpy", layers, **split))  # in two: cuDNN has no plan for it


def test_a_sum_in_bf16_is_rounded_once(backend: Any, frontend: Any) -> None:
    near_in_bf16(backend, sums(0, "ReLU"), insert_splits=True)
    assert ("forward", "any order", 4) in frontend.ran


def test_a_layer_without_a_bias(backend: Any) -> None:
    check(computed(backend, maps(bias=False)), computed("numpy", maps(bias=False)))


@pytest.mark.parametrize("way", ["forward", "data", "weight"])
def test_what_cudnn_has_no_plan_for_is_computed_by_products(backend: Any, frontend: Any, way: str) -> None:
    frontend.lacks.add(way)
    check(computed(backend, maps(), turns=3), computed("numpy", maps(), turns=3))
    assert {one for one, *_ in frontend.ran} == {"forward", "data", "weight"} - {way}


FILTERS: list[tuple[type[nacre.Layer], tuple[int, ...], dict[str, Any]]] = [
    (L.Convolution, (3, 11), {"kernel": 3, "stride": 2, "pad": 1}),
    (L.Convolution, (1, 9), {"kernel": 2, "dilation": 3, "neuron": "Identity"}),
    (L.Convolution, (4, 5, 6, 4), {"kernel": (2, 3, 1), "stride": (1, 2, 1), "pad": 1, "n_group": 2}),
    (L.Deconvolution, (8, 5), {"kernel": 3, "stride": 2}),
    (L.Deconvolution, (3, 4, 5), {"kernel": 4, "stride": 2, "pad": 1, "extra": (1, 0)}),
    (L.Deconvolution, (8, 5, 5), {"kernel": 3, "pad": 1, "neuron": "Identity", "bias": False}),  # as large as before
    (L.Deconvolution, (6, 1, 1), {"kernel": (4, 3), "n_group": 2, "neuron": "Identity"}),
    (L.Deconvolution, (4, 2, 3, 2), {"kernel": 2, "stride": (1, 2, 2), "bias": False}),
]
each_filter = pytest.mark.parametrize(
    ("layer", "shape", "fields"), FILTERS, ids=[f"{one.__name__} {shape}" for one, shape, _ in FILTERS]
)


def slid(backend: Any, layer: type[nacre.Layer], shape: tuple[int, ...], fields: Any, **options: Any) -> list[Any]:
    """Return a top of a layer with filters, and gradients, after some passes."""
    x = nacre.Input(shape, name="x", batch_size=3)
    y = layer(**{"n_filter": 8, "neuron": "ReLU", "bias_init": 0.1, "name": "y", **fields})(x)
    ends = [L.SumLoss()(L.Power(power=2)(y))]
    with Net("slid", ends, backend=backend, input_gradients=["x"], keep=["y"], seed=1, **options) as net:
        for turn in range(3):
            net.write("x", np.random.default_rng(turn).normal(size=(3, *shape)))
            net.forward()
            net.backward()
        gradients = [handle.gradient for handle in net.parameters.values()]
        return [net.blob("y"), net.gradient("x"), *gradients]


@each_filter
def test_filters_over_any_axes_and_back(backend: Any, layer: Any, shape: tuple[int, ...], fields: Any) -> None:
    wanted = slid("numpy", layer, shape, fields)
    check(slid(backend, layer, shape, fields), wanted)
    for one, other in zip(slid(backend, layer, shape, fields, compute="bf16"), wanted, strict=True):
        assert np.linalg.norm(one - other) < 0.02 * np.linalg.norm(other)


@each_filter
def test_they_are_computed_by_cudnn_or_by_products(
    backend: Any, frontend: Any, layer: Any, shape: tuple[int, ...], fields: Any
) -> None:
    ways = {"forward", "data", "weight"}
    for lacking in ({"forward"}, {"data"}, {"weight"}, set[str]()):
        frontend.ran.clear()
        frontend.lacks.clear()
        frontend.lacks |= lacking
        backend.dnn._made.clear()
        for compute in (None, "bf16"):
            close = 0.02 if compute else 1e-5
            found = slid(backend, layer, shape, fields, compute=compute)
            for one, other in zip(found, slid("numpy", layer, shape, fields), strict=True):
                assert np.linalg.norm(one - other) < close * np.linalg.norm(other)
        assert {way for way, *_ in frontend.ran} == ways - lacking


@pytest.mark.parametrize("fields", [{}, {"bias": False}, {"neuron": "Identity"}], ids=str)
@pytest.mark.parametrize("lacking", ["bias", "relu"])
def test_where_cudnn_has_no_plan_with_what_is_behind_that_is_a_kernel(
    backend: Any, frontend: Any, lacking: str, fields: Any
) -> None:
    """As for a ReLU without a bias over images with three axes."""
    frontend.lacks.add(lacking)
    backend.dnn._made.clear()
    for shape in ((4, 6, 5), (4, 3, 4, 5), (3, 9)):
        case = L.Convolution, shape, {"kernel": 3, "pad": 1, **fields}
        frontend.ran.clear()
        check(slid(backend, *case), slid("numpy", *case))
        assert "forward" in {way for way, *_ in frontend.ran}


def test_plans_are_deterministic_and_exact_where_that_is_asked_for(
    backend: Any, frontend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plans(here: Any, **options: Any) -> set[str]:
        here.dnn._made.clear()
        computed(here, maps(), **options)
        return {one.plan.name for one in here.dnn._made.values()}

    assert plans(backend) == plans(backend, deterministic=True) == {"exact"}  # in float32 those of the stand-in are
    assert {name for _, name, _ in frontend.ran} == {"exact", "exact, too", "unnoted"}, "no other is tried"
    assert plans(backend, compute="bf16") == {"any order"}
    assert plans(backend, compute="bf16", deterministic=True) == {"fast"}
    monkeypatch.setenv("CUPY_TF32", "1")
    fast = cupy_standin.watched()()
    assert plans(fast, deterministic=True) == {"fast"}
    rounded, exact = (computed(one, maps(), deterministic=True) for one in (fast, "numpy"))
    check(rounded, exact, 2e-2)
    assert any(abs(np.asarray(one) - other).max() > 1e-5 for one, other in zip(rounded, exact, strict=True))


def test_without_cudnn_the_layers_own_code_computes(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "without_cudnn", lambda: "cuDNN's frontend is not installed: type this")
    plain = cupy_standin.watched()()
    assert plain.dnn is None and plain.environment()["convolutions"].startswith("cuBLASLt (cuDNN's frontend is not")
    assert backend.environment()["convolutions"] == f"cuDNN {backend.dnn.version}"
    check(computed(plain, maps()), computed("numpy", maps()))
    with Net("maps", maps(), backend=plain) as net:
        choice = net.node_ops["conv1"].choice
        assert choice.kernel is None and "cuDNN's frontend is not installed: type this" in repr(choice)


def test_what_is_missing_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    without = cupy_standin.real_without_cudnn
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    assert without() == f"cuDNN's frontend is not installed: {library.INSTALL}"
    monkeypatch.setattr(library, "find_spec", lambda name: name)

    def broken() -> str:
        raise RuntimeError("Unable to find symbol cudnnGetVersion\nand more")

    for version, text, told in (
        ("1.28.0", broken, "cuDNN cannot be loaded (Unable to find symbol cudnnGetVersion): "),
        ("1.17.1", str, "cuDNN's frontend 1.17.1 is too old: "),
        ("1.18.0", str, None),
    ):
        made = SimpleNamespace(__version__=version, backend_version_string=text)
        monkeypatch.setattr(library, "cudnn", lambda made=made: made)
        assert without() == (told and told + library.INSTALL)
        monkeypatch.setattr(library, "without_cudnn", without)
        found = f"CuPy {library.cupy().__version__}"
        assert library.libraries() == [found, without() or "cuDNN , by its frontend 1.18.0"]
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    assert library.libraries() == [
        "CuPy is not installed",
        f"cuDNN's frontend is not installed: {library.INSTALL}",
    ]


def plans_kept() -> list[Path]:
    return sorted(Path(os.environ["NACRE_CACHE"], "cudnn").glob("*.plan"))


def test_plans_are_kept_for_the_next_start(
    backend: Any, frontend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    first = computed(backend, maps())
    files, built = plans_kept(), len(frontend.built)
    assert len(files) == 6 and built >= 6

    def again(**options: Any) -> int:
        """Compute the same by another backend, as in a process of its own; return how many plans it has built."""
        before = len(frontend.built)
        check(computed(cupy_standin.watched()(), maps(), **options), first)
        return len(frontend.built) - before

    assert again() == 0 and plans_kept() == files
    assert again(deterministic=True) == 6 * 5 and len(plans_kept()) == 12
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"x")  # damaged
    files[1].write_bytes(b"")
    whole = b"exact\n100\nof another cuDNN"  # whole, but not what can be loaded
    files[2].write_bytes(sha256(whole).digest() + whole)
    timed = 5  # the first plan, those that are tried, and the one that is taken
    assert again() == 3 * timed and again() == 0
    monkeypatch.setattr(frontend, "__version__", "1.29.0")
    assert again() == 6 * timed
    with monkeypatch.context() as patch:
        patch.setattr(frontend, "__version__", "1.29.1")

        def refused(graph: Any) -> None:
            raise frontend.cudnnGraphNotSupportedError("this plan cannot be serialized")

        patch.setattr(importlib.import_module("dnn").Graph, "serialize", refused)
        assert again() == again() == 6 * timed
    monkeypatch.setenv("NACRE_CACHE", "")
    assert again() == again() == 6 * timed
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "file"))  # where no folder can be made
    assert again() == 6 * timed


def test_of_the_first_plans_the_fastest_is_taken_and_kept(
    backend: Any, frontend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path))
    tried: list[str] = []

    def seconds(dnn: Dnn, run: Callable[[], None]) -> float:
        run()
        tried.append(frontend.ran[-1][1])
        return {"any order": 3.0, "fast": 1.0}.get(tried[-1], 2.0)

    monkeypatch.setattr(Dnn, "_seconds", seconds)
    first = computed(backend, maps(), compute="bf16", turns=3)
    made = [*backend.dnn._made.values()]
    assert tried == ["any order", "fast", "exact", "exact, too", "unnoted"] * len(made)
    assert {(one.plan.name, one.workspace) for one in made} == {("fast", 4096)} and len(plans_kept()) == len(made)
    there = cupy_standin.watched()()
    check(computed(there, maps(), compute="bf16", turns=3), first, 0)
    assert {one.plan.name for one in there.dnn._made.values()} == {"fast"} and len(tried) == 5 * len(made)
    computed(backend, maps(), compute="bf16", deterministic=True)
    assert len(tried) == 5 * len(made), "another start must take the same plan"


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_plan_whose_results_are_not_those_of_the_others_is_not_taken(
    backend: Any, frontend: Any, monkeypatch: pytest.MonkeyPatch, deterministic: bool
) -> None:
    graph = importlib.import_module("dnn").Graph
    real = graph.create_execution_plans

    def unnoted_first(self: Any, heuristics: Any) -> None:
        real(self, heuristics)
        self.plans.reverse()

    monkeypatch.setattr(graph, "create_execution_plans", unnoted_first)
    check(computed(backend, maps(), deterministic=deterministic), computed("numpy", maps()), 1e-6)
    assert {one.plan.name for one in backend.dnn._made.values()} == {"exact, too"}
    assert "unnoted" in {name for _, name, _ in frontend.ran}


@pytest.mark.parametrize(
    ("clock", "seconds", "calls"), [((0.0, 2e-3), 2e-3, 2), ((0.0, 1e-4, 5.0, 5.001), 5e-5, 2 + CALLS)]
)
def test_short_calls_are_timed_together(
    backend: Any, monkeypatch: pytest.MonkeyPatch, clock: Any, seconds: float, calls: int
) -> None:
    """As in a captured iteration, which does not start each by itself."""
    monkeypatch.setattr("nacre_cupy.dnn.time", SimpleNamespace(perf_counter=iter(clock).__next__))
    ran: list[int] = []
    with backend.here:
        assert cupy_standin.real_seconds(backend.dnn, lambda: ran.append(1)) == pytest.approx(seconds)
    assert len(ran) == calls


@pytest.mark.parametrize("number", [0.0, np.nan])
def test_results_that_show_nothing_of_a_plan_are_not_the_last(
    backend: Any, frontend: Any, monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    """The iteration is not captured before a plan is chosen, if that comes in a few iterations."""
    for turns in (3, 12):
        backend.dnn._made.clear()
        x = nacre.Input((3, 9, 8), name="x", batch_size=4)
        layers = [L.SumLoss()(L.Convolution(n_filter=8, kernel=3, bias=False, name="conv")(x))]
        with Net("maps", layers, backend=backend, phase="test") as net:
            for _ in range(turns):
                net.write("x", np.full((4, 3, 9, 8), number))
                net.forward()
            (made,) = backend.dnn._made.values()
            assert made.choose is not None and made.left == max(8 - turns, 0)
            runs = [one for one in backend.recordings if any(step.name == "conv" for step in one.steps)]
            captured = [one for one in runs if one.graph is not None]
            net.write("x", np.random.default_rng(0).normal(size=(4, 3, 9, 8)))
            net.forward()
            assert bool(captured) == (made.choose is not None) == (turns > 8)


def test_zeros_show_nothing_of_a_plan(backend: Any, frontend: Any) -> None:
    one = Convolution(1, 1, (8, 8), 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1)
    made = backend.dnn.computation(graph_of, one, "forward", "float32", deterministic=False, room=4096, result="y")
    with backend.here:
        arrays = {name: backend.empty((64,), "float32") for name in "xwy"}
        workspace = backend.empty((made.workspace,), "uint8")
        made.enqueue(arrays, workspace)
        assert made.choose is not None
        for name in "xw":
            arrays[name].fill(1)
        made.enqueue(arrays, workspace)
        assert made.choose is None


@pytest.mark.parametrize("result", ["", "dw", 7])
def test_plans_are_not_compared_by_an_array_that_is_not_there(backend: Any, frontend: Any, result: Any) -> None:
    one = Convolution(1, 1, (8, 8), 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1)
    made = backend.dnn.computation(graph_of, one, "forward", "float32", deterministic=False, room=4096, result=result)
    with backend.here:
        arrays = {name: backend.empty((64,), "float32") for name in "xwy"}
        with pytest.raises(ConfigError, match=f"result={result!r} .* is none of its arrays x, w, y"):
            made.enqueue(arrays, backend.empty((made.workspace,), "uint8"))


@pytest.mark.parametrize("wrong", [KeyError, IndexError, LookupError])
def test_an_error_in_anybodys_graph_is_told(backend: Any, wrong: type[Exception]) -> None:
    def graph(*_: Any, **__: Any) -> Any:
        raise wrong("of its own")

    with backend.here, pytest.raises(wrong, match="of its own"):
        backend.dnn.computation(graph, 1, "forward", "bf16", deterministic=False)


def test_plans_that_are_timed_need_no_more_memory_than_there_is(backend: Any, frontend: Any) -> None:
    one = Convolution(1, 1, (8, 8), 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1)
    small = {"any order", "exact", "exact, too", "unnoted"}
    for room, names in ((4096, {*small, "fast"}), (4095, small)):
        frontend.ran.clear()
        made = backend.dnn.computation(graph_of, one, "forward", "bf16", deterministic=False, room=room)
        with backend.here:
            arrays = {name: backend.empty((64,), "uint16") for name in "xwy"}
            made.enqueue(arrays, backend.empty((made.workspace,), "uint8"))
        assert made.workspace <= room and {name for _, name, _ in frontend.ran} == names


def test_a_training_is_that_on_numpy_also_where_the_device_runs_late(cupy: Any, backend: Any) -> None:
    def trained(here: Any) -> list[float]:
        x, label = L.MemoryData(
            data=[np.random.default_rng(0).normal(size=(12, 2, 6, 6)), np.arange(12) % 3],
            tops=["x", "label"],
            batch_size=4,
        )()
        maps = L.Pooling(kernel=2, stride=2)(L.Convolution(n_filter=5, kernel=3, pad=1, neuron="ReLU")(x))
        layers = [L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(maps), label)]
        solver = Solver(SGD(), lr_policy=0.05, momentum_policy=0.9)
        with Net("pictures", layers, backend=here, seed=3, deterministic=True) as net, solver.start(net) as training:
            return cupy_standin.losses_of(training, 8, backend if here is backend else None)

    wanted, found = trained("numpy"), trained(backend)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    with cupy_standin.lazily(cupy):
        assert trained(cupy_standin.watched()()) == found


# Graphs: what the stand-in refuses

ONE = Convolution(2, 6, (9, 7), 4, (3, 2), (2, 1), (1, 0), (1, 0), (1, 2), 2)


class Trial:
    """A graph of `ONE` with random numbers, which an error may be made in."""

    def __init__(self, cupy: Any, frontend: Any, kind: str = "float32") -> None:
        self.cupy, self.frontend = cupy, frontend
        self.handle = frontend.create_handle()
        frontend.set_stream(self.handle, cupy.cuda.get_current_stream().ptr)
        self.graph = graph_of(frontend, ONE, "forward", kind, bias=True, relu=True, handle=self.handle)
        random = np.random.default_rng(0)
        shapes = {"x": ONE.x, "w": ONE.w, "y": ONE.y, "bias": (1, 4, 1, 1)}
        self.arrays = {name: cupy.array(random.normal(size=s).astype(np.float32)) for name, s in shapes.items()}
        self.workspace = cupy.empty((1 << 20,), "uint8")

    def run(self, **changed: Any) -> None:
        places = {TENSORS[name]: array.data.ptr for name, array in self.arrays.items()}
        arguments = {"tensor_dict": places, "workspace": self.workspace.data.ptr, "handle": self.handle, **changed}
        self.graph.execute(**arguments)

    def places(self, **changed: Any) -> dict[int, int]:
        found = {name: array.data.ptr for name, array in self.arrays.items()}
        return {TENSORS[name]: place for name, place in {**found, **changed}.items() if place is not None}


def missing_tensor(trial: Trial) -> None:
    build(trial.frontend, trial.graph)
    trial.run(tensor_dict=trial.places(bias=None))


def wrong_stride(trial: Trial) -> None:
    trial.graph.nodes[0][3]["windows"][2][:] = [1, 1]
    build(trial.frontend, trial.graph)


def wrong_pad(trial: Trial) -> None:
    trial.graph.nodes[0][3]["windows"][0][:] = [0, 1]
    build(trial.frontend, trial.graph)


def wrong_type(trial: Trial) -> None:
    trial.graph.tensors[0].set_data_type(trial.frontend.data_type.BFLOAT16)
    build(trial.frontend, trial.graph)


def wrong_groups(trial: Trial) -> None:
    trial.graph.tensors[1].set_dim([4, 4, 3, 2])
    build(trial.frontend, trial.graph)


def too_early(trial: Trial) -> None:
    trial.graph.create_execution_plans([trial.frontend.heur_mode.FALLBACK])


def not_built(trial: Trial) -> None:
    trial.run()


def no_workspace(trial: Trial) -> None:
    build(trial.frontend, trial.graph, tensor_cores=False, most_workspace=1 << 20)
    trial.run(workspace=0)


def another_handle(trial: Trial) -> None:
    build(trial.frontend, trial.graph)
    trial.run(handle=object())


def not_aligned(trial: Trial) -> None:
    build(trial.frontend, trial.graph)
    trial.run(tensor_dict=trial.places(x=trial.arrays["x"].data.ptr + 4))


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (missing_tensor, r"the variant pack is missing a buffer for tensor uid 4 \('bias'\)"),
        (wrong_stride, "forward: the sizes do not fit"),
        (wrong_pad, "forward: the sizes do not fit"),
        (wrong_type, "a type of its own"),
        (wrong_groups, "no such groups"),
        (too_early, "create_execution_plans comes after build_operation_graph, not after nothing"),
        (not_built, "no plan"),
        (no_workspace, "plan 'exact' needs 100 bytes of workspace"),
        (another_handle, "no handle"),
        (not_aligned, "not aligned"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_mistake_is_refused(cupy: Any, frontend: Any, mistake: Any, told: str) -> None:
    with pytest.raises((AssertionError, ValueError), match=told):
        mistake(Trial(cupy, frontend))


NOT_THEIRS = {"at", "cudnnGraphNotSupportedError", "put", "pygraph"}
"""What the stand-in has besides: two methods of its own, and classes that are no functions."""


def test_it_has_what_the_real_frontend_has(frontend: Any) -> None:
    """Every method takes arguments that the real one takes, by their names."""
    known = json.loads((STANDIN / "dnn.json").read_text(encoding="utf-8"))
    graph = graph_of(frontend, ONE, "forward", "float32", handle=frontend.create_handle())
    for kind, thing in (("pygraph", graph), ("tensor", graph.tensors[0]), ("functions", frontend)):
        for name, listed in known[kind].items():
            if (ours := getattr(type(thing), name, None)) is None or listed is None:
                continue
            some = inspect.signature(ours).parameters.values()
            names = [
                one.name for one in some if not one.kind.name.startswith("VAR") and one.name not in ("self", "frontend")
            ]
            theirs = [one.rstrip("=") for one in listed if not one.startswith("*")]
            assert [one for one in theirs if one in names] == names, name
        methods = {name for name in vars(type(thing)) if name[0] != "_"}
        assert methods - known[kind].keys() <= {*NOT_THEIRS, *known["enums"]}, kind


@pytest.mark.long
def test_the_list_is_that_of_the_real_frontend(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pytest.importorskip("cudnn", reason="pip install 'nvidia-cudnn-frontend<1.29'")
    known = json.loads((STANDIN / "dnn.json").read_text(encoding="utf-8"))
    if real.__version__ != known["version"]:
        pytest.skip(f"the list is of {known['version']}")
    monkeypatch.syspath_prepend(STANDIN)
    found = importlib.import_module("record_dnn").interface()
    assert json.loads(json.dumps(found)) == known


# Kernels in CUDA C++


def numbers(cupy: Any, shape: Any, kind: str, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return an array on the device and its numbers, with NaN and the largest one where there is room."""
    host = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    if host.size > 3:
        host.reshape(-1)[[1, -2]] = np.nan, np.finfo(np.float32).max
    if kind == "float32":
        return cupy.array(host), host
    return cupy.array(narrow(host)), widen(narrow(host))


def read(array: Any) -> np.ndarray:
    host = array.get()
    return widen(host) if host.dtype == np.uint16 else host


def rounded(host: np.ndarray, kind: str) -> np.ndarray:
    return host if kind == "float32" else widen(narrow(host))


KINDS = ["float32", "uint16"]
SIZES = [(0, 3, 4), (1, 1, 1), (1, 1, 77), (2, 33, 5), (3, 32, 64), (2, 3, 1030), (9, 70, 129)]


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.parametrize("given", KINDS)
def test_arrays_are_transposed_and_converted(cupy: Any, backend: Any, given: str, made: str) -> None:
    for shape in SIZES:
        array, host = numbers(cupy, shape, given)
        result = cupy.empty((shape[0], shape[2], shape[1]), made)
        blobs.transpose(backend, array, result, *shape[1:])
        np.testing.assert_array_equal(read(result), rounded(host, made).swapaxes(1, 2), str(shape))
        result = cupy.empty(shape, made)
        blobs.convert(backend, array, result)
        np.testing.assert_array_equal(read(result), rounded(host, made), str(shape))


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_added(cupy: Any, backend: Any, kind: str) -> None:
    for size in (0, 1, 7, 8, 2100):
        (part, more), (total, host) = numbers(cupy, size, kind), numbers(cupy, size, kind, 1)
        blobs.add(backend, part, total)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(read(total), rounded(host + more, kind))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_a_bias_and_below_a_relu(cupy: Any, backend: Any, kind: str, *, relu: bool) -> None:
    view = SimpleNamespace(backend=backend, empty=backend.empty)
    for rows, channels in [(1, 1), (3, 5), (700, 8), (5000, 3), (40, 257), (33, 264), (2, 2056)]:
        random = np.random.default_rng(rows)
        dy, top = (random.integers(-9, 9, (rows, channels)).astype(np.float32) for _ in range(2))
        top[0, 0] = np.nan  # which lets nothing through
        (given, above) = (cupy.array(one if kind == "float32" else narrow(one)) for one in (dy, top))
        below, gradient = cupy.empty((rows, channels), kind), cupy.empty((channels,), "float32")
        sums = BiasGradient(view, rows, channels)
        wanted = np.where(top > 0, dy, 0) if relu else dy
        sums.enqueue(given, gradient, *((above, below) if relu else ()))
        np.testing.assert_array_equal(read(gradient), wanted.sum(axis=0), f"{rows}, {channels}")
        if relu:
            np.testing.assert_array_equal(read(below), wanted)
            below.fill(0)
            sums.enqueue(given, None, above, below)
            np.testing.assert_array_equal(read(below), wanted)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bias_is_added(cupy: Any, backend: Any, kind: str, *, relu: bool) -> None:
    for rows, channels in [(1, 1), (3, 5), (700, 8), (5000, 3), (40, 257), (33, 264), (0, 4)]:
        random = np.random.default_rng(rows)
        before, bias = random.normal(size=(rows, channels)).astype(np.float32), np.arange(channels, dtype=np.float32)
        before[:1, 0] = np.nan  # which stays one
        y = cupy.array(before if kind == "float32" else narrow(before))
        given = read(y)
        for added in (cupy.array(bias), None):
            add_bias(backend, y, added, channels, relu=relu)
            given = rounded(given + (0 if added is None else bias), kind)
            given = np.maximum(given, 0) if relu else given
            np.testing.assert_array_equal(read(y), given)


@cupy_standin.only_standin
def test_a_gradient_of_more_numbers_than_32_bits_count() -> None:
    """Of three rows that lie 2^31 numbers apart the first block reads the first channels; the others are not there."""
    channels, here = 1 << 31, 2048
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    with mmap.mmap(-1, 2 * (2 * channels + here), flags=flags) as memory:
        dy = np.frombuffer(memory, np.uint16)
        for row in range(3):
            dy[row * channels :][:here] = narrow(np.full(here, 4.0**row, np.float32))
        parts, names = np.zeros(here), tuple(EXPRESSIONS["bias"])
        run = cuda_on_host.compiled(source("bias"), names)[names.index("bias_parts<bf16>")]
        run((1,), (256,), (0, dy, 0, parts, 1, 3, channels))
        del dy
    assert (parts == 21).all()
