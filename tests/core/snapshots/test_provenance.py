"""Whose code works in a training: what snapshots record, how they compare it, and what they tell who lacks it."""

from __future__ import annotations

from typing import Any

import pytest

import nacre.discovery.registry
from nacre import Neuron, Regularizer, register, register_kernel
from nacre.protocols.components import ComponentKernel
from nacre.snapshots.provenance import origins_of, part_differences, parts_of, remedies
from nacre.training.solver import Solver
from nacre.training.training import Training
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.regularizers import L1
from nacre_solvers import SGD, Snapshot, TrainingSummary
from registries import NewRegistry
from toy_training import pulled_net, toy_net

SWIRL = {"layer Swirl": {"distribution": "nacre-swirl", "version": "1.2.0"}}


@pytest.fixture(autouse=True)
def _fresh_registry(new_registry: NewRegistry) -> None:
    new_registry()


def training(net: Any, **fields: Any) -> Training:
    return Solver(SGD(), **{"lr_policy": 0.1, **fields}).start(net)


def test_every_part_has_its_type_and_its_distribution() -> None:
    with training(toy_net(dtype="float32"), regu_coef=0.1, callbacks=[TrainingSummary()]) as one:
        parts = parts_of(one.members().working)
    names = {"layer.train", "layer.ip1", "neuron.ip1", "layer.norm", "layer.loss", "regularizer.ip1/weight"}
    assert names | {"solver", "algorithm", "lr_policy", "momentum_policy", "callback.TrainingSummary"} <= set(parts)
    assert [parts[name]["type"] for name in ("layer.ip1", "neuron.ip1", "lr_policy")] == [
        "InnerProduct",
        "Sigmoid",
        "Fixed",
    ]
    assert {part["distribution"] for part in parts.values()} == {"nacre"}
    assert {part["version"] for part in parts.values()} == {nacre.__version__}
    assert parts["layer.ip1"]["kernel"].startswith("nacre_numpy.")
    assert parts["layer.ip1"]["kernel_distribution"] == "nacre"
    assert "kernel" not in parts["layer.drop"]


def test_a_neuron_that_its_layers_kernel_applies_names_that_kernel() -> None:
    from nacre import InputLayer, Net
    from nacre_layers.convolution.convolution import ConvolutionLayer
    from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
    from nacre_layers.neurons import ReLU

    layers = [
        InputLayer(name="in", tops="x", shape=(2, 4, 4), batch_size=2),
        InputLayer(name="labels", tops="label", batch_size=2),
        ConvolutionLayer(name="conv", bottoms="x", tops="y", n_filter=3, kernel=2, neuron=ReLU()),
        InnerProductLayer(name="ip", bottoms="y", tops="z", output_dim=2),
        SoftmaxLossLayer(name="loss", bottoms=["z", "label"]),
    ]
    with training(Net("conv", layers, backend="numpy")) as one:
        parts = parts_of(one.members().working)
    assert parts["neuron.conv"]["type"] == "ReLU"
    assert "kernel" in parts["neuron.conv"]


def test_the_kernels_of_regularisers_are_parts() -> None:
    class Doubled(ComponentKernel):
        def add_gradient(self, backend: Any, value: Any, gradient: Any, coefficient: float) -> None:
            gradient += 2 * coefficient * value

    with training(pulled_net(), regu_coef=0.1) as one:
        before = parts_of(one.members().working)
    register_kernel(Doubled, "regularizer/L2", "numpy")
    pins = {"kernel:regularizer/L2@numpy": "local"}
    with training(pulled_net(regu=L1()), regu_coef=0.1) as one:
        assert parts_of(one.members().working)["regularizer.pull/w"]["type"] == "L1"
    net = pulled_net()
    net.pins.update(pins)
    with training(net, regu_coef=0.1) as one:
        after = parts_of(one.members().working)
    assert after["regularizer.pull/w"]["kernel_distribution"] == "local"
    assert part_differences(before, before) == []
    (told,) = part_differences(before, after)
    assert told.startswith("regularizer.pull/w was run by")
    assert told.endswith("of local")


def test_a_regulariser_that_does_not_work_is_no_part() -> None:
    with training(pulled_net()) as one:
        assert "regularizer.pull/w" not in parts_of(one.members().working)


def test_a_version_is_told_once_however_many_parts_have_it() -> None:
    then = {
        name: {"type": "Swirl", "distribution": "nacre-swirl", "version": "1.2.0"} for name in ("layer.a", "layer.b")
    }
    now = {name: part | {"version": "1.3.0"} for name, part in then.items()}
    assert part_differences(then, now) == ["nacre-swirl was 1.2.0, is 1.3.0"]
    other = {name: part | {"distribution": "other"} for name, part in then.items()}
    assert part_differences(then, other) == ["layer.a, layer.b was Swirl of nacre-swirl, is Swirl of other"]
    kernel = {"kernel": "fast:Swirl", "kernel_distribution": "fast", "kernel_version": "1"}
    assert part_differences({"layer.a": then["layer.a"] | kernel}, then) == [
        "layer.a was run by Swirl of fast, is run by its own code"
    ]
    moved = kernel | {"kernel": "fast.kernels.swirl:Swirl"}
    assert part_differences({"layer.a": then["layer.a"] | kernel}, {"layer.a": then["layer.a"] | moved}) == []
    newer = kernel | {"kernel_version": "2"}
    assert part_differences({"layer.a": then["layer.a"] | kernel}, {"layer.a": then["layer.a"] | newer}) == [
        "fast was 1, is 2"
    ]


def test_origins_reach_into_every_component() -> None:
    @register
    class Mine(Neuron):
        def forward(self, backend: Any, x: Any, y: Any) -> None: ...
        def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None: ...

    class Unknown(Regularizer):
        pass

    layers = [InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=2, neuron=Mine(), weight_regu=Unknown())]
    origins = origins_of([*layers, Solver(SGD(), callbacks=[Snapshot()])])
    assert {"layer InnerProduct", "initializer Xavier", "solver SGD", "lr_policy Fixed", "callback Snapshot"} <= set(
        origins
    )
    assert origins["layer InnerProduct"] == {"distribution": "nacre", "version": nacre.__version__}
    assert origins["neuron Mine"]["distribution"] == "local"
    assert origins["neuron Mine"]["file"] == __file__
    assert origins["regularizer Unknown"]["distribution"] == ""


@pytest.mark.parametrize("name", ["Swirl", "nacre-swirl:Swirl"])
def test_what_nobody_offers_is_told_with_its_version(name: str) -> None:
    assert remedies(SWIRL, {name, "InnerProduct"}) == [
        "pip install \"nacre-swirl==1.2.0\" (the snapshot used its layer 'Swirl')"
    ]
    assert remedies(SWIRL, {"InnerProduct"}) == []


def test_what_is_offered_by_somebody_is_not_missing() -> None:
    assert remedies({"layer InnerProduct": {"distribution": "other", "version": "1"}}, {"InnerProduct"}) == []
    here = {"layer Swirl": {"distribution": "nacre", "version": nacre.__version__}}  # installed, so it does not help
    assert remedies(here, {"Swirl"}) == []


def test_a_plugin_file_is_told() -> None:
    origin = {"layer Swirl": {"distribution": "my-layers", "version": "", "file": "/my files/my_layers.py"}}
    assert remedies(origin, {"Swirl"}) == [
        "load the file again: --plugin '/my files/my_layers.py' (the snapshot used its layer 'Swirl')"
    ]


@pytest.mark.parametrize(
    "origins",
    [
        None,
        [],
        {"layer Swirl": None},
        {"layer Swirl": {}},
        {"layer Swirl": {"distribution": "x; rm -rf", "version": "1"}},
        {"layer Swirl": {"distribution": "x", "version": '1"; rm'}},
        {"layer Swirl": {"distribution": "x", "version": "", "file": "a\x1b[31m"}},
    ],
)
def test_nonsense_in_a_snapshot_advises_nothing(origins: Any) -> None:
    assert remedies(origins, {"Swirl"}) == []
