"""Who shares parameters: the same layer in several nets, `share=`, `param_key`, and tied parameters."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from fake_backends import ForeignBackend
from nacre import ConfigError, InputLayer, Layer, Names, Net, Parameter, Solver, TopologyError
from nacre_layers.initializers import Constant
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_solvers import SGD
from registries import NewRegistry
from small_layers import (
    AddLayer,
    MatrixLayer,
    PlainBackend,
    SquareLossLayer,
    State,
    check_gradients,
    data,
    fill,
)


def ip(name: str, bottoms: Any = "data", tops: Any = "", **fields: Any) -> InnerProductLayer:
    return InnerProductLayer(name=name, bottoms=bottoms, tops=tops or name, **{"output_dim": 3} | fields)


def loss(bottom: str, name: str = "") -> SquareLossLayer:
    return SquareLossLayer(name=name or f"loss-{bottom}", bottoms=bottom)


def net_of(*layers: Layer, name: str = "net", **options: Any) -> Net:
    net = Net(name, layers, **{"backend": "numpy", "dtype": "float64"} | options)
    fill(net)
    return net


def same(one: Net, other: Net, name: str, other_name: str = "") -> bool:
    return one.parameters[name].storage is other.parameters[other_name or name].storage


def train(net: Net, steps: int = 3) -> None:
    training = Solver(SGD(), lr_policy=0.01, regu_coef=0.01).start(net)
    for _ in range(steps):
        training.step()


# The same layer in several nets


@pytest.mark.parametrize("first", ["train", "validation"])
def test_the_same_layer_in_two_nets(first: str) -> None:
    shared = ip("ip")
    phases = [first, "validation" if first == "train" else "train"]
    nets = {phase: net_of(data(4), shared, loss("ip"), phase=phase) for phase in phases}
    assert same(nets["train"], nets["validation"], "ip/weight")
    assert nets["train"].forward() == nets["validation"].forward()
    train(nets["train"])
    assert nets["train"].forward() == nets["validation"].forward()


def test_a_layer_keeps_its_parameters_when_its_net_is_gone() -> None:
    shared = ip("ip")
    with net_of(data(4), shared, loss("ip")) as net:
        train(net)
        weight = net.parameters["ip/weight"].value
    del net
    gc.collect()
    np.testing.assert_array_equal(net_of(data(4), shared).parameters["ip/weight"].value, weight)


def test_parameters_go_with_the_layer_and_its_nets() -> None:
    backend = PlainBackend()
    shared = ip("ip")
    net = net_of(data(4), shared, loss("ip"), backend=backend)
    storage = weakref.ref(net.parameters["ip/weight"].storage)
    del shared
    gc.collect()
    assert storage() is not None
    assert len(backend.parameters) == 1
    del net
    gc.collect()
    assert storage() is None
    assert len(backend.parameters) == 0


def test_layers_of_equal_values_do_not_share() -> None:
    one, other = net_of(data(4), ip("ip")), net_of(data(4), ip("ip"))
    assert not same(one, other, "ip/weight")
    one.parameters["ip/weight"].value = np.zeros((3, 4))
    assert np.any(other.parameters["ip/weight"].value)


def test_a_layer_that_a_rewrite_replaced_still_shares() -> None:
    class Rewriting(PlainBackend):
        def rewrite(self, graph: Any) -> Any:
            replace = dataclasses.replace
            return graph.with_nodes(
                replace(node, layer=replace(node.layer, bias_lr=2.0)) if node.name == "ip" else node
                for node in graph.nodes
            )

    backend, shared = Rewriting(), ip("ip")
    one, other = (net_of(data(4), shared, loss("ip"), backend=backend) for _ in range(2))
    plain = net_of(data(4), shared, loss("ip"), backend=backend, keep="all")
    assert same(one, other, "ip/weight")
    assert same(one, plain, "ip/weight")
    assert [net.slots[0].parameters[0].lr for net in (one, plain)] == [2.0, 1.0]


def test_a_rewrite_is_told_what_is_kept() -> None:
    seen: list[Any] = []

    class Rewriting(PlainBackend):
        def rewrite(self, graph: Any) -> Any:
            seen.append(graph.keep)
            return graph

    net_of(data(4), ip("ip"), backend=Rewriting(), keep="ip")
    assert seen == [{"ip"}]


def test_another_backend_has_parameters_of_its_own() -> None:
    shared = ip("ip")
    one, other = (net_of(data(4), shared, backend=PlainBackend()) for _ in range(2))
    assert not same(one, other, "ip/weight")
    np.testing.assert_array_equal(one.parameters["ip/weight"].value, other.parameters["ip/weight"].value)


def test_the_name_of_a_backend_means_the_same_backend() -> None:
    shared = ip("ip")
    assert net_of(data(4), shared).backend is net_of(data(4), shared, backend="numpy").backend


@pytest.mark.parametrize(
    ("other", "options", "words"),
    [
        (5, {}, r"\(3, 5\) and type float64, .*'ip/weight', .* \(3, 4\) and float64"),
        (
            4,
            {"dtype": "float32"},
            "layer 'ip' has float64 parameters .* float32",
        ),
    ],
)
def test_shapes_and_types_must_agree(other: int, options: dict[str, Any], words: str) -> None:
    shared = ip("ip")
    net = net_of(data(4), shared)
    with pytest.raises(TopologyError, match=words):
        net_of(data(other), shared, **options)
    assert net.parameters["ip/weight"].shape == (3, 4)


def test_a_net_that_cannot_be_made_leaves_nothing_behind() -> None:
    one, other = ip("one", param_key="k"), ip("other", "wide", param_key="k")
    with pytest.raises(TopologyError, match="'one/weight', with which it is shared"):
        net_of(data(4), data(5, top="wide"), one, other)
    assert net_of(data(6), one).parameters["one/weight"].shape == (3, 6)


def test_a_net_that_only_plans_leaves_nothing_behind() -> None:
    shared = ip("ip")
    Net("plan", [data(4), shared], backend="numpy", allocate=False)
    assert net_of(data(6), shared).parameters["ip/weight"].shape == (3, 6)


def test_buffers_are_shared_but_not_trained() -> None:
    norm = BatchNormLayer(name="norm", bottoms="data", tops="norm")
    trained, validation = net_of(data(4), norm, loss("norm")), net_of(data(4), norm, phase="validation")
    fill(validation)
    train(trained)
    assert np.any(validation.parameters["norm/mean"].value)
    assert same(trained, validation, "norm/variance")
    assert trained.parameters["norm/mean"].gradient is None
    spans = Solver(SGD()).start(trained).spans
    assert sorted(piece.name for span in spans for piece in span.pieces) == ["norm/bias", "norm/scale"]


# share=


def test_share_takes_the_parameters_of_layers_of_the_same_name() -> None:
    one = net_of(data(4), ip("ip"))
    other = net_of(data(4), ip("ip"), ip("more"), share=one)
    assert same(one, other, "ip/weight")
    assert not same(one, other, "ip/weight", "more/weight")


def test_share_finds_what_goes_by_another_sharers_name() -> None:
    one = net_of(data(4), ip("a", param_key="k"), ip("b", param_key="k"))
    other = net_of(data(4), ip("b", param_key="k"), share=one)
    assert same(one, other, "a/weight", "b/weight")
    assert other.parameters["b/weight"].name == "b/weight"


def test_share_does_not_take_a_layer_away_from_its_other_nets() -> None:
    layer = ip("ip")
    mine, theirs = net_of(data(4), layer), net_of(data(4), ip("ip"))
    assert same(net_of(data(4), layer, share=theirs), theirs, "ip/weight")
    assert same(net_of(data(4), layer), mine, "ip/weight")


def test_share_wants_one_backend() -> None:
    one = net_of(data(4), ip("ip"), name="one", backend=PlainBackend())
    with pytest.raises(
        TopologyError, match=r"on backend 'numpy' cannot share .* of net 'one', which is on backend 'plain'"
    ):
        net_of(data(4), ip("ip"), share=one)


# param_key


def two_sharers(**fields: Any) -> list[Layer]:
    return [
        data(4),
        data(4, top="other"),
        ip("a", param_key="k", **fields),
        ip("b", "other", param_key="k", **fields),
        loss("a"),
        loss("b"),
    ]


def test_param_key_shares_within_a_net_and_the_gradients_add_up() -> None:
    net = net_of(*two_sharers())
    assert list(net.parameters) == ["a/weight", "a/bias"]
    check_gradients(net)
    assert net.node_ops["a"].state.parameters[0].blob is net.node_ops["b"].state.parameters[0].blob


def test_three_sharers() -> None:
    layers = [
        data(3),
        *(ip(name, bottom, param_key="k") for name, bottom in zip("abc", ["data", "a", "b"], strict=True)),
    ]
    check_gradients(net_of(*layers, loss("c")))


def test_all_sharers_but_the_first_write_their_gradients_into_one_memory() -> None:
    names = [f"ip{number}" for number in range(6)]
    chain = [ip(name, below, param_key="k") for below, name in zip(["data", *names], names, strict=False)]
    net = net_of(data(3), *chain, loss(names[-1]))
    weight = next(slot for slot in net.slots if slot.name == "ip0/weight")
    assert len(weight.parts) == len(names) - 1
    addresses = {part.__array_interface__["data"][0] for part in weight.parts.values()}
    assert len(addresses) == 1
    assert weight.gradient.__array_interface__["data"][0] not in addresses
    check_gradients(net)


class TwiceLayer(MatrixLayer):
    """y = x W W: a layer that reads another's square matrix twice."""


class TwiceState(State, of=TwiceLayer):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((inputs[0].shape[0], 3))]
        self.parameters = [Parameter(name, (3, 3), tied="first/W") for name in ("one", "two")]

    def forward(self, inputs: list[Any]) -> None:
        one, two = self.parameters
        self.blobs[0][...] = inputs[0] @ one.blob @ two.blob

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        (x,), (one, two), dy = inputs, self.parameters, self.blobs_diff[0]
        two.gradient[...] = (x @ one.blob).T @ dy
        one.gradient[...] = x.T @ (dy @ two.blob.T)
        if diffs[0] is not None:
            diffs[0][...] = dy @ two.blob.T @ one.blob.T


def test_a_layer_that_uses_a_parameter_twice_has_memory_for_both_gradients() -> None:
    layers = [MatrixLayer(name="first", bottoms="data", tops="x", width=3)]
    layers += [TwiceLayer(name=name, bottoms=below, tops=name, width=3) for below, name in (("x", "y"), ("y", "z"))]
    check_gradients(net_of(data(3), *layers, loss("z")))


def test_two_sharers_train_like_one_layer_with_two_bottoms() -> None:
    one = [data(4), data(4, top="other"), ip("a", ["data", "other"], ["a", "b"]), loss("a"), loss("b")]
    nets = [net_of(*two_sharers()), net_of(*one)]
    start = nets[0].parameters["a/weight"].value
    for net in nets:
        train(net, 20)
    assert np.abs(nets[0].parameters["a/weight"].value - start).max() > 0.01
    for name in ("a/weight", "a/bias"):
        values = [net.parameters[name].value for net in nets]
        np.testing.assert_allclose(*values, rtol=1e-12, atol=1e-12)


def test_a_shared_parameter_is_regularised_and_updated_once() -> None:
    net = net_of(*two_sharers(weight_init=Constant(value=1.0)))
    spans = Solver(SGD()).start(net).spans
    assert sum(piece.storage.size for span in spans for piece in span.pieces) == 4 * 3 + 3


def test_the_first_in_the_nets_order_gives_initialiser_and_rates() -> None:
    first = ip("a", param_key="k", weight_init=Constant(value=2.0), weight_lr=3.0)
    second = ip("b", param_key="k", weight_init=Constant(value=5.0))
    net = net_of(data(4), second, first)
    assert net.parameters["b/weight"].value[0, 0] == 5
    assert net_of(data(4), ip("c", param_key="k"), dataclasses.replace(first)).slots[-1].parameters[0].lr == 1.0


def test_a_sharer_in_another_net_brings_the_parameters_with_it() -> None:
    """Also where it comes last, or a new layer of the key would get random weights."""
    old = ip("old", param_key="k")
    one = net_of(data(4), old)
    new = ip("new", param_key="k")
    other = net_of(data(4), new, old)
    assert same(one, other, "old/weight", "new/weight")
    assert same(net_of(data(4), new), one, "new/weight", "old/weight")


def test_sharers_that_have_different_parameters_elsewhere() -> None:
    one, other = ip("one", param_key="k"), ip("other", param_key="k")
    nets = [net_of(data(4), one), net_of(data(4), other)]
    with pytest.raises(TopologyError, match="parameters one/weight and other/weight "):
        net_of(data(4), one, other)
    assert net_of(data(4), one, other, share=nets[0]).parameters["one/weight"].storage is nets[0].slots[-1].storage


def test_param_key_does_not_share_with_a_net_of_other_layers() -> None:
    assert not same(net_of(data(4), ip("a", param_key="k")), net_of(data(4), ip("a", param_key="k")), "a/weight")


def test_sharers_must_agree_in_shape() -> None:
    with pytest.raises(TopologyError, match=r"parameter 'b/weight' has the shape \(2, 4\) .* but 'a/weight'"):
        net_of(data(4), ip("a", param_key="k"), ip("b", param_key="k", output_dim=2))


def test_freezing_a_sharer_freezes_what_it_shares() -> None:
    net = net_of(*two_sharers())
    weight = net.parameters["a/weight"].value
    net.freeze("b")
    with pytest.raises(ConfigError, match=r"net 'net': .*frozen: a\n"):
        train(net)
    np.testing.assert_array_equal(net.parameters["a/weight"].value, weight)
    net.unfreeze("b")
    train(net)
    assert np.any(net.parameters["a/weight"].value != weight)
    with pytest.raises(TopologyError, match=r"has no layer 'bb'"):
        net.freeze("bb")


# Tied parameters


def autoencoder(**second: Any) -> list[Layer]:
    return [
        data(5),
        MatrixLayer(name="in", bottoms="data", tops="code", width=2),
        MatrixLayer(name="out", bottoms="code", tops="again", width=5, tied="in/W", transposed=True, **second),
        loss("again"),
    ]


def test_tied_and_transposed() -> None:
    net = net_of(*autoencoder(), input_gradients=("data",))
    net.forward()
    W = net.parameters["in/W"].value
    np.testing.assert_allclose(net.blob("again"), net.blob("data") @ W @ W.T, rtol=1e-12)
    assert list(net.parameters) == ["in/W"]
    check_gradients(net, ("data",))


@pytest.mark.parametrize("first", [True, False])
def test_tied_layers_beside_each_other(first: bool) -> None:
    pair = [
        MatrixLayer(name="owner", bottoms="data", tops="x", width=3, param_key="k"),
        MatrixLayer(name="tied", bottoms="data", tops="y", width=3, tied="owner/W"),
        MatrixLayer(name="sharer", bottoms="data", tops="z", width=3, param_key="k"),
    ]
    layers = pair if first else pair[::-1]
    sum_ = AddLayer(name="sum", bottoms=["x", "y", "z"], tops="sum")
    check_gradients(net_of(data(3), *layers, sum_, loss("sum")))


def test_tied_to_a_sharer_of_another_name() -> None:
    net = net_of(
        data(3),
        MatrixLayer(name="first", bottoms="data", tops="x", width=3, param_key="k"),
        MatrixLayer(name="second", bottoms="x", tops="y", width=3, param_key="k"),
        MatrixLayer(name="tied", bottoms="y", tops="z", width=3, tied="second/W", transposed=True),
        loss("z"),
    )
    assert list(net.parameters) == ["first/W"]
    check_gradients(net)


def test_tied_to_a_buffer() -> None:
    layers = autoencoder()
    layers[1] = dataclasses.replace(layers[1], trainable=False)
    net = net_of(*layers)
    net.forward()
    net.backward()
    assert net.parameters["in/W"].gradient is None


def test_tied_to_nothing_or_to_another_shape() -> None:
    with pytest.raises(TopologyError, match=r"to parameter 'in/V', .*\(did you mean 'in/"):
        net_of(*autoencoder()[:2], MatrixLayer(name="out", bottoms="code", tops="x", width=5, tied="in/V"))
    with pytest.raises(TopologyError, match=r"layer 'out' is tied to 'in/W' of shape \(5, 2\), but needs \(2, 5\)"):
        net_of(*autoencoder()[:2], MatrixLayer(name="out", bottoms="code", tops="x", width=5, tied="in/W"))


class OnlyForwardLayer(MatrixLayer, can_do_bp=False):
    """Reads a tied matrix without ever going backward."""


def test_a_sharer_that_does_not_go_backward_has_no_part_in_the_gradient() -> None:
    probe = OnlyForwardLayer(name="probe", bottoms="data", tops="probe", width=2, tied="in/W")
    net = net_of(*autoencoder(), probe)
    assert net.node_ops["probe"].state.parameters[0].gradient is None
    check_gradients(net)


# On a device


class RunningLayer(Layer, has_param=True):
    """Counts its calls in a buffer, by NumPy wherever the net runs."""

    bottoms: Names
    tops: Names


class RunningState(State, of=RunningLayer, host_only=True):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = [Parameter("calls", (1,), init=Constant(), trainable=False)]
        self.blobs = [backend.alias(inputs[0])]

    def forward(self, inputs: list[Any]) -> None:
        self.parameters[0].blob += 1

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Never called."""


def test_a_buffer_that_a_state_on_the_host_changes(new_registry: NewRegistry) -> None:
    new_registry()
    layers = [InputLayer(name="in", tops="data", shape=(2,)), RunningLayer(name="run", bottoms="data", tops="y")]
    net = Net("net", layers, backend=ForeignBackend())
    for _ in range(3):
        net.forward()
    assert net.parameters["run/calls"].value == [3]
