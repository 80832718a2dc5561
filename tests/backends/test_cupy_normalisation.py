"""BatchNorm of the cupy backend by cuDNN, and with a sum behind it, over the stand-ins for CuPy and for cuDNN."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import cupy_standin
import nacre
from nacre import L, Net, Solver
from nacre_cupy import library
from nacre_cupy.kernels.batch_norm import BatchNormKernel
from nacre_cupy.normalisations import Normalisation, graph_of
from nacre_cupy.plans import build
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


SPLIT = {"insert_splits": True}
TRAINED = {
    "plain": ["norm", "norm_backward"],
    "relu": ["norm relu cmp_gt", "mul norm_backward"],
    "sum": ["norm add relu cmp_gt", "mul norm_backward"],
    "turned": ["norm add relu cmp_gt", "mul norm_backward"],
    "kept": ["norm add relu cmp_gt", "mul norm_backward"],
    "no relu": [],
    "no bias": ["norm", "norm_backward"],
    "neither": ["norm relu cmp_gt", "mul norm_backward"],
}
"""What nets have in front of or behind BatchNorm, and the operations that cuDNN computes in one each."""


def net_of(kind: str) -> list[Any]:
    """Return a net with one BatchNorm: alone, with a ReLU, with a sum, with one whose other blob is no layer's."""
    x, label = nacre.Input((3, 5, 4), name="x", batch_size=4), nacre.Input((), name="label", batch_size=4)
    maps = L.Convolution(n_filter=8, kernel=3, pad=1, bias=False, name="maps")(x)
    given = L.Convolution(n_filter=8, kernel=1, bias=False, name="given")(maps)
    own: dict[str, Any] = {
        "no bias": {"bias": False},
        "relu": {"neuron": "ReLU"},
        "neither": {"scale": False, "bias": False, "neuron": "ReLU"},
    }.get(kind, {})
    made = L.BatchNorm(decay=0.5, name="norm", **own)(given)
    if kind in ("sum", "turned", "no relu", "kept"):
        other = nacre.Input((8, 5, 4), name="other", batch_size=4) if kind == "kept" else L.LRN(kernel=3)(maps)
        ends = [other, made] if kind == "turned" else [made, other]
        made = L.ElementWise(name="added", neuron="Identity" if kind == "no relu" else "ReLU")(*ends)
    return [L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(L.Pooling(kernel=2)(made)), label)]


def computed(backend: Any, kind: str, turns: int = 1, **options: Any) -> list[Any]:
    """Return the loss, the gradients of all that has one, and the running values, after some passes."""
    with Net("maps", net_of(kind), backend=backend, input_gradients=["x"], seed=1, **SPLIT, **options) as net:
        for turn in range(turns):
            random = np.random.default_rng(turn)
            net.write("x", random.normal(size=(4, 3, 5, 4)))
            if kind == "kept":
                net.write("other", random.normal(size=(4, 8, 5, 4)))
            net.write("label", [0, 1, 2, 1])
            loss = net.forward()
            if net.phase == "train":
                net.backward()
        running = [net.parameters[f"norm/{name}"].value for name in ("mean", "variance")]
        if net.phase != "train":
            return [loss, *running]
        trained = [one for one in net.parameters.values() if one.gradient is not None]
        return [loss, net.gradient("x"), *running, *(one.gradient for one in trained)]


def check(found: list[Any], wanted: list[Any], close: float = 1e-5) -> None:
    assert len(found) == len(wanted) > 2
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=close, atol=close)


def ran(frontend: Any, backend: Any) -> list[str]:
    """Return the graphs with a BatchNorm that ran, each once, in their order."""
    known = {id(one.graph): one.graph for one in backend.dnn._made.values() if one is not None}
    found = [" ".join(node[0] for node in graph.nodes) for graph in known.values()]
    modes = {mode for mode, *_ in frontend.ran}
    return [one for one in found if "norm" in one and one.split()[0] in modes]


@pytest.mark.parametrize("kind", TRAINED)
def test_trainings_are_those_on_numpy(backend: Any, kind: str) -> None:
    check(computed(backend, kind, turns=3), computed("numpy", kind, turns=3))
    near_in_bf16(backend, kind)


def near_in_bf16(backend: Any, kind: str) -> None:
    for one, other in zip(computed(backend, kind, compute="bf16"), computed("numpy", kind), strict=True):
        assert np.linalg.norm(one - other) < 0.1 * np.linalg.norm(other) + 1e-3


@pytest.mark.parametrize("kind", TRAINED)
def test_cudnn_computes_these_graphs(backend: Any, frontend: Any, kind: str) -> None:
    computed(backend, kind)
    assert ran(frontend, backend) == TRAINED[kind]


@pytest.mark.parametrize("kind", ["relu", "sum", "turned", "no relu"])
def test_a_net_without_cudnns_plans_has_our_own_kernels(backend: Any, frontend: Any, kind: str) -> None:
    frontend.lacks |= {"norm"}
    check(computed(backend, kind, turns=3), computed("numpy", kind, turns=3))
    assert "norm" not in {mode for mode, *_ in frontend.ran}
    with Net("maps", net_of(kind), backend=backend, **SPLIT) as net:
        (op,) = [op for op in net.ops if isinstance(op.state, BatchNormKernel)]
        assert len(op.inputs) == 1 + (kind != "relu"), "the sum is computed with it"


@pytest.mark.parametrize("phase", ["test", "predict"])
def test_other_phases_use_the_running_values_by_our_own_kernel(backend: Any, frontend: Any, phase: str) -> None:
    for kind in ("relu", "sum"):
        check(computed(backend, kind, phase=phase), computed("numpy", kind, phase=phase))
    assert not ran(frontend, backend)


def test_in_bf16_a_sum_is_rounded_once(backend: Any, frontend: Any) -> None:
    for kind in ("plain", "relu", "sum"):
        near_in_bf16(backend, kind)
        assert ran(frontend, backend)[-2:] == TRAINED[kind]


def test_a_training_is_that_on_numpy_also_where_the_device_runs_late(cupy: Any, backend: Any) -> None:
    def trained(here: Any) -> list[float]:
        x, label = L.MemoryData(
            data=[np.random.default_rng(0).normal(size=(12, 2, 6, 6)), np.arange(12) % 3],
            tops=["x", "label"],
            batch_size=4,
        )()
        first = L.BatchNorm(neuron="ReLU")(L.Convolution(n_filter=8, kernel=3, pad=1)(x))
        second = L.BatchNorm()(L.Convolution(n_filter=8, kernel=3, pad=1)(first))
        added = L.ElementWise(neuron="ReLU")(first, second)
        layers = [L.SoftmaxLoss()(L.InnerProduct(output_dim=3)(added), label)]
        with (
            Net("pictures", layers, backend=here, seed=3, deterministic=True, **SPLIT) as net,
            SOLVER.start(net) as training,
        ):
            return cupy_standin.losses_of(training, 6, backend if here is backend else None)

    wanted, found = trained("numpy"), trained(backend)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    with cupy_standin.lazily(cupy):
        assert trained(cupy_standin.watched()()) == found


SOLVER = Solver(SGD(), lr_policy=0.05, momentum_policy=0.9)


@pytest.mark.parametrize(("add", "relu"), [(False, False), (True, True)])
def test_what_cudnn_does_not_compute_is_refused(frontend: Any, add: bool, relu: bool) -> None:
    """The stand-in's own mistakes: another size, a result without a place, wider numbers in between."""
    one, handle = Normalisation((4, 8, 5, 4), add, relu), frontend.create_handle()

    def made(dtype: str = "float32") -> Any:
        return graph_of(frontend, one, "forward", dtype, handle=handle)

    graph = made()
    graph.tensors[1].set_dim([1, 4, 1, 1])
    with pytest.raises(AssertionError, match="the sizes do not fit"):
        build(frontend, graph)
    graph = made()
    next(node for node in graph.nodes if node[0] == "norm")[3]["more"][0].set_output(False)
    with pytest.raises(AssertionError, match="a result without a place"):
        build(frontend, graph)
    if add:
        graph = made("bf16")
        graph.nodes[0][2].set_data_type(frontend.data_type.FLOAT)
        with pytest.raises(AssertionError, match="no plan with wider numbers"):
            build(frontend, graph)
    with pytest.raises(AssertionError, match="no such graph"):
        build(frontend, graph_of(frontend, Normalisation((4, 8, 5, 4), True, False), "forward", "bf16", handle=handle))
