"""Nets on two backends that forbid what a hurried core would do: see `fake_backends`."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
import pytest

import fake_backends
import nacre
from fake_backends import BlockedBackend, ForeignBackend
from nacre import InputLayer, Layer, LayerState, Names, Net, Own, Parameter, Solver, open_backend
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.initializers import Constant, Gaussian
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.neurons import ReLU, Sigmoid, Tanh
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.pooling.functions import Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.regularizers import L2
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.reshape import ReshapeLayer
from nacre_layers.shapes.split import SplitLayer
from nacre_solvers import SGD, Step
from registries import NewRegistry

KERNELS = {
    "InnerProduct": fake_backends.BlockedInnerProduct,
    "neuron/ReLU": fake_backends.BlockedReLU,
    "solver/SGD": fake_backends.BlockedSGD,
}


@pytest.fixture
def blocked(new_registry: NewRegistry) -> BlockedBackend:
    registry = new_registry()
    registry.register(BlockedBackend, "blocked", "backend")
    for thing, kernel in KERNELS.items():
        registry.register_kernel(kernel, thing, "blocked")
    return cast("BlockedBackend", open_backend("blocked"))


@pytest.fixture
def foreign(new_registry: NewRegistry) -> ForeignBackend:
    new_registry().register(ForeignBackend, "foreign", "backend")
    return cast("ForeignBackend", open_backend("foreign"))


def mixed_layers() -> list[Layer]:
    """Kernels, neurons with and without a kernel, in-place layers and plain states in turn."""
    return [
        InputLayer(name="in", tops="data", shape=(3, 2), batch_size=6),
        InputLayer(name="labels", tops="label", batch_size=6),
        InnerProductLayer(name="ip1", bottoms="data", tops="ip1", output_dim=7, neuron=ReLU()),
        InnerProductLayer(name="ip2", bottoms="ip1", tops="ip2", output_dim=9, neuron=Tanh()),
        DropoutLayer(name="drop", bottoms="ip2", ratio=0.25),
        InnerProductLayer(name="ip3", bottoms="ip2", tops="ip3", output_dim=5, bias=False),
        ActivationLayer(name="relu", bottoms="ip3", tops="relu", neuron="ReLU"),
        InnerProductLayer(name="ip4", bottoms="relu", tops="ip4", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip4", "label"]),
    ]


def write_batch(net: Net, seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    for name, value in net.memory.final.items():
        if name in ("data", "label"):
            shape = value.shape
            net.write(name, random.normal(size=shape) if name == "data" else random.integers(0, 3, shape))


def trained(
    backend: str, layers: list[Layer], iterations: int = 6, **options: Any
) -> tuple[list[float], dict[str, Any], Net]:
    net = Net("net", layers, backend=backend, dtype="float64", seed=3, **options)
    write_batch(net)
    solver = Solver(
        SGD(), max_iter=iterations, lr_policy=Step(base=0.5, gamma=0.5, stepsize=2), momentum_policy=0.9, regu_coef=0.01
    )
    training = solver.start(net)
    losses: list[float] = []
    for _ in range(iterations):
        training.step()
        losses.append(training.loss)
    return losses, {name: handle.value for name, handle in net.parameters.items()}, net


def test_kernels_on_opaque_recorded_blobs_train_like_plain_states(blocked: BlockedBackend) -> None:
    expected, weights, _ = trained("numpy", mixed_layers())
    losses, found, net = trained("blocked", mixed_layers())
    assert [op.name for op in net.ops if op.kernel] == ["ip1", "ip1/ReLU", "ip2", "ip3", "relu/ReLU", "ip4"]
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    for name, value in weights.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_recorded_step_is_replayed_and_sees_scalars_that_change(blocked: BlockedBackend) -> None:
    losses, _, _ = trained("blocked", mixed_layers(), 5)
    assert blocked.replayed >= 4 * blocked.recorded > 0, "later iterations replay what the first one recorded"
    assert len(set(losses)) == 5


def test_a_net_is_arranged_once_and_the_plan_is_kept(blocked: BlockedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    arranged: list[tuple[list[Any], list[Own]]] = []
    arrange = blocked.arrange

    def note(kernels: Any, blobs: Any, plan: Any) -> None:
        arranged.append((kernels, blobs))
        arrange(kernels, blobs, plan)

    monkeypatch.setattr(blocked, "arrange", note)
    _, _, net = trained("blocked", mixed_layers(), 1)
    assert net.plan == {"blocked": {"layout": "blocked"}}
    ((kernels, blobs),) = arranged
    assert kernels == [op.state for op in net.ops if op.kernel]
    assert {blob.layout for blob in blobs} == {"blocked"}
    assert all(one in blobs for kernel in kernels for one in kernel.blobs if one.layout != "plain")


def memory_of(blob: Own) -> tuple[int, int]:
    start = blob.memory.__array_interface__["data"][0]
    return start, start + blob.memory.nbytes


@pytest.mark.parametrize("phase", ["train", "predict"])
def test_own_blobs_share_memory_by_lifetime(blocked: BlockedBackend, phase: str) -> None:
    layers: list[Any] = [InputLayer(name="in", tops="x0", shape=9, batch_size=4)]
    layers += [InnerProductLayer(bottoms=f"x{n}", tops=f"x{n + 1}", output_dim=9) for n in range(8)]
    layers += [InputLayer(name="labels", tops="label", batch_size=4), SoftmaxLossLayer(bottoms=["x8", "label"])]
    layers = layers if phase == "train" else layers[:9]
    net = Net("chain", layers, backend="blocked", dtype="float64", phase=phase)
    blobs = [blob for group in net.memory._groups() for blob in group.own.values()]
    places = {memory_of(blob) for blob in blobs}
    for one, other in itertools.combinations(blobs, 2):
        if memory_of(one)[0] < memory_of(other)[1] and memory_of(other)[0] < memory_of(one)[1]:
            assert one.last < other.first or other.last < one.first
    if phase == "train":  # 8 values that backward reads, the scores and their gradient, two gradients in turn
        assert len(places) == 12
        shared = {value.name for value in net.memory.values if value.shared}
        assert not shared, "a value that backward reads keeps its memory, whatever comes after"
    else:
        assert len(places) == 4, "the data and the predictions, and two in turn"
        shared = {value.name for value in net.memory.values if value.shared}
        assert shared == {f"x{n}" for n in range(1, 8)}
    arena = max(end for _, end in places) - min(start for start, _ in places)
    assert arena == len(places) * 4 * 12 * 8, "the memory of some blobs of 4 rows of 3 blocks, and nothing besides"


def test_blobs_in_opaque_memory_are_read_as_plain_arrays(blocked: BlockedBackend) -> None:
    plain = Net("plain", mixed_layers(), backend="numpy", dtype="float64", seed=3, keep="all")
    opaque = Net("opaque", mixed_layers(), backend="blocked", dtype="float64", seed=3, keep="all")
    for net in (plain, opaque):
        write_batch(net)
        net.forward()
        net.backward()
    for name in ("ip1", "ip2", "ip3", "relu", "ip4"):
        np.testing.assert_allclose(opaque.blob(name), plain.blob(name), rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(opaque.gradient(name), plain.gradient(name), rtol=1e-10, err_msg=name)


def test_blobs_that_have_moved_are_copied_from_where_they_are_now(blocked: BlockedBackend) -> None:
    plain = Net("plain", mixed_layers(), backend="numpy", dtype="float64", seed=3, phase="test")
    moved = Net("moved", mixed_layers(), backend="blocked", dtype="float64", seed=3, phase="test")
    write_batch(moved)
    moved.forward()
    moved.reallocate()
    for net in (plain, moved):
        write_batch(net, 1)
        net.forward()
    np.testing.assert_allclose(moved.blob("ip4"), plain.blob("ip4"), rtol=1e-12)


def test_a_kernel_that_declines_leaves_the_layer_to_its_own_state(blocked: BlockedBackend) -> None:
    two = [
        InputLayer(name="in", tops=["a", "b"], shape=(4,), batch_size=2),
        InnerProductLayer(name="ip", bottoms=["a", "b"], tops=["x", "y"], output_dim=3),
    ]
    op = Net("two", two, backend="blocked").node_ops["ip"]
    assert not op.kernel
    assert [reason for _, reason in op.choice.declined] == ["only one bottom"]


def everything() -> list[Layer]:
    """Nearly every layer of nacre in one net."""
    return [
        InputLayer(name="in", tops="data", shape=(2, 6, 6), batch_size=4),
        InputLayer(name="labels", tops="label", batch_size=4),
        ConvolutionLayer(bottoms="data", tops="conv", n_filter=4, kernel=3, pad=1, n_group=2, neuron=ReLU()),
        BatchNormLayer(name="norm", bottoms="conv", tops="norm"),
        SplitLayer(name="split", bottoms="norm", tops=["left", "right"]),
        PoolingLayer(name="max", bottoms="left", tops="max", kernel=3, stride=2),
        PoolingLayer(name="mean", bottoms="right", tops="mean", kernel=3, stride=2, pooling=Mean(), neuron=Sigmoid()),
        ConcatLayer(name="both", bottoms=["max", "mean"], tops="both"),
        ReshapeLayer(name="flat", bottoms="both", tops="flat", shape=-1),
        DropoutLayer(name="drop", bottoms="flat", ratio=0.5),
        InnerProductLayer(name="ip", bottoms="flat", tops="ip", output_dim=3, neuron=Tanh(), weight_regu=L2()),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
        SoftmaxLayer(name="softmax", bottoms="ip", tops="prob", exclude=["train"]),
        AccuracyLayer(name="accuracy", bottoms=["ip", "label"]),
    ]


def test_nets_run_on_memory_that_numpy_cannot_read(foreign: ForeignBackend) -> None:
    expected, weights, _ = trained("numpy", everything())
    losses, found, net = trained("foreign", everything())
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    for name, value in weights.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
    assert net.statistics()["accuracy"]["records"] == 24
    probabilities = net.predict(np.zeros((9, 2, 6, 6)), "prob")
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


class HostScaleLayer(Layer, has_param=True, can_do_bp=True):
    """y = w x, computed by NumPy wherever the net runs; a buffer counts the batches."""

    bottoms: Names
    tops: Names
    name: str = "host"


class HostScaleState(LayerState, of=HostScaleLayer, host_only=True):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = [Parameter("w", (inputs[0].shape[1],), init=Gaussian())]
        self.parameters += [Parameter("seen", (1,), init=Constant(), trainable=False)]
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: list[Any]) -> None:
        assert isinstance(inputs[0], np.ndarray)
        self.parameters[1].blob += 1
        self.blobs[0][...] = inputs[0] * self.parameters[0].blob

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        np.sum(inputs[0] * self.blobs_diff[0], axis=0, out=self.parameters[0].gradient)
        if diffs[0] is not None:
            diffs[0][...] = self.blobs_diff[0] * self.parameters[0].blob


def host_only_layers() -> list[Layer]:
    return [
        InputLayer(name="in", tops="data", shape=(5,), batch_size=6),
        InputLayer(name="labels", tops="label", batch_size=6),
        InnerProductLayer(name="ip1", bottoms="data", tops="ip1", output_dim=4, neuron=Tanh()),
        HostScaleLayer(bottoms="ip1", tops="scaled"),
        InnerProductLayer(name="ip2", bottoms="scaled", tops="ip2", output_dim=3, bias_init=Constant(value=0.1)),
        SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"]),
    ]


def test_a_state_that_wants_numpy_arrays_gets_them_on_a_device(foreign: ForeignBackend) -> None:
    expected, weights, _ = trained("numpy", host_only_layers())
    losses, found, net = trained("foreign", host_only_layers())
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    for name, value in weights.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, err_msg=name)
    assert found["host/seen"] == 6
    assert {(name, one[0], other[0]) for name, one, other in net.schedule.copies} == {
        ("ip1", "plain", "host"),
        ("ip1", "host", "plain"),
        ("scaled", "host", "plain"),
        ("scaled", "plain", "host"),
    }


def test_a_frozen_state_on_the_host_has_no_gradient_to_copy_to_the_device(foreign: ForeignBackend) -> None:
    expected, weights, _ = trained("numpy", host_only_layers(), freeze=["host"])
    losses, found, _ = trained("foreign", host_only_layers(), freeze=["host"])
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    np.testing.assert_array_equal(found["host/w"], weights["host/w"])


def test_without_fallback_a_layer_without_a_kernel_is_refused(blocked: BlockedBackend) -> None:
    with pytest.raises(nacre.NacreError, match="'blocked' has no kernels for ip2/Tanh"):
        Net("net", mixed_layers(), backend="blocked", fallback="error")
