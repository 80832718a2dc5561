"""Chains of layers that the cupy backend computes in one kernel: on the processor, and in nets over the stand-in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cupy_standin
from cuda_bench import check
from cuda_on_host import missing
from nacre import BlobError, L, Net, Solver
from nacre_cupy.kernels.chain import ChainKernel
from nacre_cupy.kernels.functions import FunctionKernel
from nacre_layers.elementwise.functions import AbsValLayer, ClipLayer, ExpLayer, FunctionLayer, LogLayer, PowerLayer
from nacre_solvers import SGD

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

ENDS: dict[str, Any] = {"bottoms": "x", "tops": "y"}
FUNCTIONS: list[FunctionLayer] = [
    AbsValLayer(**ENDS),
    ClipLayer(**ENDS, low=-0.5, high=1.25),
    ClipLayer(**ENDS, low=0.0, high=float("inf")),
    ExpLayer(**ENDS),
    ExpLayer(**ENDS, base=2.0, scale=0.5, shift=-1.0),
    LogLayer(**ENDS, shift=4.0),
    LogLayer(**ENDS, base=10.0, scale=-0.5, shift=3.0),
    *(PowerLayer(**ENDS, power=power, scale=0.5, shift=0.25) for power in (1.0, 2.0, 3.0, -1.0, -2.0, 0.0)),
    *(PowerLayer(**ENDS, power=power) for power in (0.5, 1.5, -0.5, 0.25)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bf16"])
@pytest.mark.parametrize("layer", FUNCTIONS, ids=repr)
def test_function(layer: FunctionLayer, dtype: str) -> None:
    for shape in ((1, 1), (2, 9, 7, 11), (3, 1001)):
        x = np.random.default_rng(0).normal(size=shape)
        x = np.abs(x) + 0.1 if isinstance(layer, PowerLayer) and layer.power % 1 else x
        check(layer, FunctionKernel, [x], dtype, last=True)
    largest = np.finfo("float64" if dtype == "float64" else "float32").max
    every = np.array([0.0, -0.0, largest, -largest, np.inf, -np.inf, np.nan, 1.0, 3.0, -3.0])
    check(layer, FunctionKernel, [every], dtype, wanted=(), each=True)


pytestmark = pytest.mark.usefixtures("cupy")


UNIFORM = {"type": "Uniform", "low": -0.5, "high": 0.5}


def layers() -> list[Any]:
    """Return a net with chains: x ⊙ sigmoid(z) + x with a SiLU, functions of functions, and sums of three."""
    random = np.random.default_rng(3)
    data = [random.normal(size=(8, 7)), random.normal(size=(8, 7))]
    x, t = L.MemoryData(data=data, tops=["x", "t"], batch_size=4, name="data")()
    parts = [L.InnerProduct(output_dim=7, name=f"ip{n}", weight_init=UNIFORM)(x) for n in range(9)]
    gate = L.Sigmoid(name="gate")(parts[0])
    gated = L.ElementWise(operation="Multiply", name="gated")(parts[1], gate)
    summed = L.ElementWise(name="summed", neuron="SiLU")(gated, parts[2])
    logs = L.Log(shift=1.0, name="logs")(L.Power(power=2.0, name="squares")(parts[3]))
    both = L.ElementWise(name="both", operation="Subtract")(logs, summed)
    most = L.ElementWise(name="most", operation="Maximum", neuron="Tanh")(parts[4], both)
    three = L.ElementWise(name="three", operation="Multiply")(
        parts[5], L.Exp(scale=0.5, name="bent")(parts[6]), parts[7]
    )
    mean = L.ElementWise(name="mean", operation="Mean")(parts[8], x, three)
    weighed = L.ElementWise(name="weighed", operation={"type": "Add", "coefficients": [0.5, -1.0, 2.0]})(x, mean, x)
    largest = L.ElementWise(name="largest", operation="Maximum", neuron="ReLU")(weighed, x, t)
    last = L.InnerProduct(output_dim=7, name="last", weight_init=UNIFORM)(most)
    return [L.SquareLoss(name="loss")(L.ElementWise(name="ends")(last, largest), t)]


def trained(backend: Any, steps: int = 4, **options: Any) -> tuple[list[float], dict[str, Any]]:
    """Return the losses of a training, and the parameters after it."""
    with Net("chains", layers(), backend=backend, **options) as net:
        with Solver(SGD(), lr_policy=0.05, max_iter=steps).start(net) as training:
            losses: list[float] = []
            for _ in range(steps):
                training.step()
                losses.append(float(training.loss))
        return losses, {name: handle.value for name, handle in net.parameters.items()}


def chains(net: Net) -> dict[str, list[str]]:
    """Return the layers that each chain computes, by the name of the last one, and its links."""
    found = {op.name: op for op in net.ops if isinstance(op.state, ChainKernel) and len(op.members) > 1}
    return {name: [one.name for one in op.members] for name, op in found.items()}


def test_layers_in_a_row_are_one_kernel(backend: Any) -> None:
    with Net("chains", layers(), backend=backend) as net:
        found = chains(net)
        assert found == {
            "summed": ["gate/Sigmoid", "gated", "summed", "summed/SiLU"],
            "most": ["squares", "logs", "both", "most", "most/Tanh"],
            "mean": ["bent", "three", "mean"],
            "ends": ["weighed", "largest", "largest/ReLU", "ends"],
        }
        with pytest.raises(BlobError, match="'gated' is not written: one kernel computes it together"):
            net.blob("gated")
    with Net("chains", layers(), backend=backend, keep=["gated"]) as net:
        net.forward()
        assert net.blob("gated").shape == (4, 7)
        assert "gated" not in chains(net)["summed"]
    with Net("chains", layers(), backend=backend, keep="all") as net:
        assert not chains(net)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_training_is_that_of_the_numpy_backend(backend: Any, dtype: str) -> None:
    losses, values = trained(backend, dtype=dtype)
    own_losses, own_values = trained("numpy", dtype=dtype)
    close = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(losses, own_losses, rtol=close)
    for name, value in own_values.items():
        np.testing.assert_allclose(values[name], value, rtol=close, atol=close, err_msg=name)
    assert losses[-1] < losses[0]


def test_in_bf16_a_chain_rounds_once(backend: Any) -> None:
    losses, values = trained(backend, compute="bf16")
    own_losses, own_values = trained("numpy")
    np.testing.assert_allclose(losses, own_losses, rtol=2e-2)
    for name, value in own_values.items():
        np.testing.assert_allclose(values[name], value, atol=2e-2, err_msg=name)


def with_dropout() -> list[Any]:
    """Return a net with Dropouts behind functions and before them."""
    random = np.random.default_rng(3)
    data = [random.normal(size=(9, 7)), random.normal(size=(9, 7))]
    x, t = L.MemoryData(data=data, tops=["x", "t"], batch_size=3)()
    one, two, three = (L.InnerProduct(output_dim=7, name=f"ip{n}", weight_init=UNIFORM)(x) for n in range(3))
    bent = L.Dropout(ratio=0.4, name="drop1")(L.SiLU(name="bent")(one))
    masked = L.RandomMask(ratio=0.25, name="mask")(L.ElementWise(name="sum")(bent, two))
    gated = L.ElementWise(operation="Multiply", name="gated")(L.Sigmoid(name="gate")(masked), three)
    last = L.InnerProduct(output_dim=7, name="last", weight_init=UNIFORM)(gated)
    return [L.SquareLoss(name="loss")(L.ReLU(name="top")(L.Dropout(ratio=0.1, name="drop2")(last)), t)]


DROPS = {
    "gated": ["bent/SiLU", "drop1", "sum", "mask", "gate", "gate/Sigmoid", "gated"],
    "top": ["drop2", "top", "top/ReLU"],
}


@pytest.mark.parametrize("options", [{}, {"dtype": "float64"}, {"compute": "bf16"}], ids=repr)
def test_dropout_in_a_chain_draws_what_the_layer_draws(backend: Any, options: dict[str, str]) -> None:
    found: list[tuple[list[float], dict[str, Any]]] = []
    for one in (backend, "numpy"):
        given = options if one is backend else {"dtype": options.get("dtype", "float32")}
        with Net("drops", with_dropout(), backend=one, seed=5, **given) as net:
            assert one == "numpy" or chains(net) == DROPS
            with Solver(SGD(), lr_policy=0.05).start(net) as training:
                losses = cupy_standin.losses_of(training, 6)
            found.append((losses, {name: handle.value for name, handle in net.parameters.items()}))
    (losses, values), (own_losses, own_values) = found
    close = 2e-2 if "compute" in options else 1e-12 if options else 1e-4
    np.testing.assert_allclose(losses, own_losses, rtol=close)
    for name, value in own_values.items():
        np.testing.assert_allclose(values[name], value, rtol=close, atol=close, err_msg=name)


@pytest.mark.parametrize("phase", ["train", "test"])
def test_where_dropout_does_nothing_a_chain_goes_on(backend: Any, phase: str) -> None:
    with (
        Net("drops", with_dropout(), backend=backend, phase="train", seed=5) as net,
        net.derive(phase) as other,
        Net("drops", with_dropout(), backend="numpy", seed=5) as own,
        own.derive(phase) as plain,
    ):
        assert "drop1" in chains(other)["gated"]
        other.forward()
        plain.forward()
        np.testing.assert_allclose(other.loss(), plain.loss(), rtol=1e-5)


def test_a_pass_in_a_phase_of_an_algorithm_drops_nothing(backend: Any) -> None:
    found = []
    for one in (backend, "numpy"):
        with Net("drops", with_dropout(), backend=one, seed=5) as net:
            run = net.compile([*net.steps("feed"), *net.in_phase("positive", net.steps("forward"))])
            for _ in range(3):
                run()
            found.append(net.loss())
    np.testing.assert_allclose(*found, rtol=1e-5)
