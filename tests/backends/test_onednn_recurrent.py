"""The onednn backend's RNN, GRU and LSTM: each way to compute them against the layer's state, and beside PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forging import trials
from nacre import DataError, InputLayer, Layer, Net
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example, ProbeLayer, without_kernels
from nacre_layers import GRULayer, LSTMLayer, RNNLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl.primitives import CHANNELS_LAST
from nacre_onednn.helper import native
from nacre_onednn.kernels.products import BOTTOM, GEMM, PACKED, PANELS, PRODUCT, TOP
from nacre_onednn.kernels.recurrent import BY_IMAGES, BY_UNITS, GRUKernel, LSTMKernel, RecurrentKernel, RNNKernel

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
if native.helper() is None or native.most_instructions() == native.CONSTANTS["ANY"]:
    pytest.skip("no helper was compiled, or the processor has no AVX2", allow_module_level=True)

STEPS, PRODUCTS = (BY_UNITS, BY_IMAGES), (PRODUCT, GEMM, PACKED, TOP, BOTTOM, PANELS)
CELLS: list[Any] = [RNNLayer, GRULayer, LSTMLayer]


class Steps:
    """What the tests of the three kernels have in common."""

    dtypes = ("float32",)
    backend_name = "onednn"

    def examples(self):
        both = {"output_dim": 2, "direction": "both", "n_layer": 2}
        cont = np.random.default_rng(0).integers(0, 2, (5, 3))
        yield Example({"output_dim": 3}, [(4, 3, 2)])
        yield Example({"output_dim": 40}, [(7, 5, 20)], label="a whole panel of units, and a part")
        yield Example({"output_dim": 3, "bias": False}, [(4, 3, 2)], label="no bias")
        yield Example({"output_dim": 3, "hidden_bias": False}, [(4, 3, 2)], label="one bias")
        yield Example({"output_dim": 3, "sequences": "lengths"}, [(4, 3, 2), np.array([2, 0, 3, 1])], tops=1)
        yield Example({**both, "sequences": "cont"}, [(5, 3, 2), cont], tops=1, label="cont, both ways")
        yield Example({"output_dim": 3, "sequences": "cont", "direction": "backward"}, [(5, 3, 2), cont], tops=1)
        yield Example({"output_dim": 3, "time_major": True}, [(4, 3, 2)], label="time major")


class TestRNNKernel(Steps, KernelTests):
    layer = RNNLayer
    kernel = RNNKernel

    def examples(self):
        yield from super().examples()
        yield Example({"output_dim": 3, "activation": "ReLU"}, [(4, 3, 2)], label="ReLU")
        yield Example({"output_dim": 3}, [(4, 3, 2), (4, 3)], tops=2, label="first and last state")


class TestGRUKernel(Steps, KernelTests):
    layer = GRULayer
    kernel = GRUKernel

    def examples(self):
        yield from super().examples()
        yield Example({"output_dim": 3, "reset_gate": "before"}, [(4, 3, 2)], label="reset before: declined")
        yield Example({"output_dim": 3}, [(4, 3, 2), (4, 3)], tops=2, label="first and last state")


class TestLSTMKernel(Steps, KernelTests):
    layer = LSTMLayer
    kernel = LSTMKernel

    def examples(self):
        yield from super().examples()
        yield Example({"output_dim": 3, "peepholes": True, "projection": 2}, [(5, 3, 2)], label="declined")
        yield Example({"output_dim": 3}, [(4, 3, 2), (4, 3), (4, 3)], tops=3, label="first and last states")


def forced(kernel: RecurrentKernel, steps: str, product: str) -> dict[str, str]:
    """Return a way for each stage."""
    ways = {stage: kernel.ways_of(stage, lambda _: "plain") for stage in kernel.stages()}
    return {stage: next((one for one in (steps, product) if one in each), each[0]) for stage, each in ways.items()}


def computed(
    layers: Sequence[Layer], given: dict[str, Any], wanted: Sequence[str], ways: tuple[str, str] | None
) -> dict[str, Any]:
    """Return tops and gradients of the layer `it`, in these ways of the kernel or by its own state."""
    options: dict[str, Any] = {"backend": "onednn", "seed": 1, "input_gradients": wanted, "keep": "all"}
    if ways is None:
        with without_kernels():
            net = Net("own", layers, **options)
    else:
        some = Net("some", layers, deterministic=True, **options)
        kernel = some.node_ops["it"].state
        assert isinstance(kernel, RecurrentKernel)
        plan = {"onednn": {"layout": CHANNELS_LAST, "ways": {"it": forced(kernel, *ways)}}}
        net = Net("forced", layers, plan=plan, **options)
        assert net.plan == plan
    for name, values in given.items():
        net.write(name, values)
    for number, handle in enumerate(net.parameters.values()):
        handle.value = weights(number, handle.value.shape)
    for _ in range(2):  # scratch memory is not clean
        net.forward()
        net.backward()
    tops = {top: net.blob(top) for top in net.node_ops["it"].node.tops}
    gradients = {one.name: one.gradient for one in net.parameters.values()}
    return {**tops, **gradients, **{f"d{name}": net.gradient(name) for name in wanted}}


def weights(number: int, shape: tuple[int, ...]) -> Any:
    """Return values for a parameter, under which states neither vanish nor explode."""
    return np.random.default_rng(number).normal(0, shape[-1] ** -0.5, shape).astype(np.float32)


@st.composite
def uses(draw: Any, cell: Any) -> tuple[list[Layer], dict[str, Any], list[str]]:
    """Draw a layer, what its bottoms hold, and which of their gradients are wanted."""
    images, steps, features = draw(st.integers(1, 14)), draw(st.integers(1, 5)), draw(st.integers(1, 20))
    hidden = draw(st.one_of(st.integers(1, 40), st.just(300)))
    fields: dict[str, Any] = {
        "output_dim": hidden,
        "n_layer": draw(st.integers(1, 2)),
        "direction": draw(st.sampled_from(["forward", "backward", "both"])),
        "sequences": draw(st.sampled_from(["full", "lengths", "cont"])),
        "bias": draw(st.booleans()),
        "hidden_bias": draw(st.booleans()),
        "time_major": draw(st.booleans()),
    }
    if cell is RNNLayer:
        fields["activation"] = draw(st.sampled_from(["Tanh", "ReLU"]))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    major = (steps, images) if fields["time_major"] else (images, steps)
    given: dict[str, Any] = {"x": random.normal(size=(*major, features)).astype(np.float32)}
    if fields["sequences"] != "full":
        told = (images,) if fields["sequences"] == "lengths" else major
        given["told"] = random.integers(0, (steps if fields["sequences"] == "lengths" else 1) + 1, told)
    states = cell.states
    several = fields["n_layer"] * (2 if fields["direction"] == "both" else 1)
    tops = ["y"]
    if draw(st.booleans()):
        tops += [f"last-{name}" for name in states]
    if draw(st.booleans()):
        shape = (images, several, hidden) if several > 1 else (images, hidden)
        given |= {f"first-{name}": random.normal(size=shape).astype(np.float32) for name in states}
    layers: list[Layer] = [
        InputLayer(name=f"in-{name}", tops=name, shape=one.shape[1:], batch_size=one.shape[0])
        for name, one in given.items()
    ]
    layers.append(cell(name="it", bottoms=list(given), tops=tops, **fields))
    layers.append(ProbeLayer(name="loss", bottoms=tops))
    return layers, given, [name for name in given if name != "told"]


@pytest.mark.parametrize("cell", CELLS)
@settings(max_examples=trials(15, 200))
@given(data=st.data())
def test_every_way_computes_what_the_own_state_does(cell: Any, data: Any) -> None:
    layers, given, wanted = data.draw(uses(cell))
    ways = data.draw(st.sampled_from(list(itertools.product(STEPS, PRODUCTS))))
    expected = computed(layers, given, wanted, None)
    for name, one in computed(layers, given, wanted, ways).items():
        right, units = expected[name], layers[-2].output_dim  # what sums up the gates of all units may nearly be 0
        assert np.linalg.norm(one - right) <= 1e-5 * max(np.linalg.norm(right), units**0.5), name


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("steps", [BY_UNITS, BY_IMAGES])
def test_errors_are_no_larger_than_those_of_pytorch(cell: Any, steps: str) -> None:
    torch = pytest.importorskip("torch")
    images, length, features = 16, 40, 96
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=(length, features), batch_size=images),
        cell(name="it", bottoms="x", tops="y", output_dim=features),
        ProbeLayer(name="loss", bottoms="y"),
    ]
    x = np.random.default_rng(0).normal(size=(images, length, features)).astype(np.float32)
    ours = computed(layers, {"x": x}, ["x"], (steps, PACKED))
    results = []
    for dtype in (torch.float32, torch.float64):
        module = getattr(torch.nn, cell.__name__.removesuffix("Layer"))(features, features, batch_first=True).to(dtype)
        with torch.no_grad():
            for number, parameter in enumerate(module.parameters()):
                parameter.copy_(torch.from_numpy(weights(number, tuple(parameter.shape))))
        given = torch.tensor(x, dtype=dtype, requires_grad=True)
        y = module(given)[0]
        y.backward(torch.tensor(probe_of(layers, x), dtype=dtype))
        named = {f"it/{name}": one.grad.numpy() for name, one in module.named_parameters()}
        results.append({"y": y.detach().numpy(), "dx": given.grad.numpy(), **named})
    theirs, exact = results
    for name, right in exact.items():
        error, other = (np.linalg.norm(one[name] - right) / np.linalg.norm(right) for one in (ours, theirs))
        assert error <= 2 * other, name


def probe_of(layers: Sequence[Layer], x: Any) -> Any:
    """Return the gradient that the probe gives the top."""
    net = Net("probe", layers, backend="onednn", seed=1, keep="all", deterministic=True)
    net.write("x", x)
    net.forward()
    net.backward()
    return net.gradient("y")


@pytest.mark.parametrize("cell", CELLS)
def test_what_lies_behind_a_sequence_has_no_influence(cell: Any) -> None:
    lengths = np.array([3, 0, 5, 1])
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=(5, 6), batch_size=4),
        InputLayer(name="told", tops="told", shape=(), batch_size=4),
        cell(name="it", bottoms=["x", "told"], tops="y", output_dim=7, sequences="lengths", direction="both"),
        ProbeLayer(name="loss", bottoms="y"),
    ]
    x = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
    torn = x.copy()
    torn[np.arange(5) >= lengths[:, None]] = np.nan
    results = [computed(layers, {"x": one, "told": lengths}, ["x"], (BY_UNITS, GEMM)) for one in (x, torn)]
    for name, one in results[0].items():
        np.testing.assert_array_equal(results[1][name], one, name)


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # by NumPy's products, on some processors
@pytest.mark.parametrize("cell", CELLS)
def test_a_nan_goes_where_the_own_state_lets_it(cell: Any) -> None:
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=(5, 6), batch_size=4),
        cell(name="it", bottoms="x", tops="y", output_dim=7),
        ProbeLayer(name="loss", bottoms="y"),
    ]
    x = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
    x[1, 2, 3], x[2, 0, 0], x[3, 3, 1] = np.nan, np.inf, -np.inf
    own, *found = (computed(layers, {"x": x}, ["x"], ways) for ways in (None, (BY_UNITS, GEMM), (BY_IMAGES, PRODUCT)))
    for one in found:
        np.testing.assert_array_equal(np.isnan(one["y"]), np.isnan(own["y"]))


@pytest.mark.parametrize(("sequences", "wrong"), [("lengths", 6.0), ("lengths", 1.5), ("cont", 2.0), ("cont", np.nan)])
def test_wrong_lengths_and_starts_are_refused(sequences: Any, wrong: float) -> None:
    shape = () if sequences == "lengths" else (5,)
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=(5, 6), batch_size=4),
        InputLayer(name="told", tops="told", shape=shape, batch_size=4),
        LSTMLayer(name="it", bottoms=["x", "told"], tops="y", output_dim=7, sequences=sequences),
    ]
    net = Net("net", layers, backend="onednn", phase="predict")
    assert isinstance(net.node_ops["it"].state, LSTMKernel)
    told = np.ones((4, *shape), np.float32)
    told[2] = wrong
    net.write("x", np.zeros((4, 5, 6)))
    net.write("told", told)
    with pytest.raises(DataError, match=r"it: 'told' has .* for record 2 of the batch, but it must be a whole number"):
        net.forward()
    told[2] = 1
    net.write("told", told)
    net.forward()


def test_states_are_carried_and_go_in_and_out() -> None:
    x, first = (np.random.default_rng(seed).normal(size=shape) for seed, shape in enumerate([(4, 3, 2), (4, 5)]))
    found = []
    for backend in ("onednn", "numpy"):
        layers: list[Layer] = [
            InputLayer(name="in", tops="x", shape=(3, 2), batch_size=4),
            InputLayer(name="begin", tops="h", shape=5, batch_size=4),
            GRULayer(name="one", bottoms=["x", "h"], tops=["y", "end"], output_dim=5),
            LSTMLayer(name="two", bottoms="y", tops=["z", "hidden", "cell"], output_dim=5, carry=True),
            ProbeLayer(name="loss", bottoms=["z", "end", "hidden", "cell"]),
        ]
        net = Net("n", layers, backend=backend, seed=1, input_gradients=["x", "h"], keep="all")
        net.write("h", first)
        net.write("x", x)
        for _ in range(3):
            net.forward()
            net.forward()
            net.backward()
            net.advance()
        tops = [net.blob(name) for name in ("z", "end", "hidden", "cell")]
        found.append([*tops, net.gradient("x"), net.gradient("h"), *net.node_ops["two"].state.memory().values()])
        net.rewind()
        net.forward()
        found[-1].append(net.blob("z"))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_frozen_layer_learns_again_when_it_is_free() -> None:
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=(3, 2), batch_size=4),
        GRULayer(name="one", bottoms="x", tops="y", output_dim=5),
        GRULayer(name="two", bottoms="y", tops="z", output_dim=5),
        ProbeLayer(name="loss", bottoms="z"),
    ]
    found = []
    for backend in ("onednn", "numpy"):
        net = Net("n", layers, backend=backend, freeze=["two"], seed=1)
        net.write("x", np.random.default_rng(0).normal(size=(4, 3, 2)))
        for change in (net.unfreeze, net.freeze, net.unfreeze):
            net.forward()
            net.backward()
            change("two")
        net.forward()
        net.backward()
        found.append(net.parameters["two/weight_hh_l0"].gradient)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_predictions_follow_the_parameters() -> None:
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=(3, 2), batch_size=4),
        LSTMLayer(name="it", bottoms="x", tops="y", output_dim=5),
    ]
    nets = [Net("n", layers, backend=backend, phase="predict", seed=1) for backend in ("onednn", "numpy")]
    for scale in (1, 2):
        tops = []
        for net in nets:
            net.write("x", np.random.default_rng(0).normal(size=(4, 3, 2)))
            for handle in net.parameters.values():
                handle.value = np.random.default_rng(1).normal(0, scale, handle.value.shape)
            net.forward()
            tops.append(net.blob("y"))
        np.testing.assert_allclose(*tops, rtol=1e-5, atol=1e-6)
