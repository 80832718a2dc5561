"""Versions of blobs, who takes over whose memory, and that sharing memory changes no number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forging import trials
from nacre import Layer, Names, Net, Neuron
from nacre.engine.memory import Memory, Need, group_bytes
from nacre.engine.ops import Group, Value
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.neurons import ReLU, Sigmoid, Tanh
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.reshape import ReshapeLayer
from nacre_layers.shapes.split import SplitLayer
from small_layers import (
    AddLayer,
    HalveLayer,
    MatrixLayer,
    PlainBackend,
    ProductLayer,
    SiLU,
    SquareLossLayer,
    SquashLayer,
    State,
    check_gradients,
    data,
    fill,
)

PLAIN = PlainBackend()


def net_of(*layers: Layer, **options: Any) -> Net:
    net = Net("net", layers, **{"backend": PLAIN, "dtype": "float64", "seed": 5} | options)
    fill(net, 1)
    return net


def matrix(name: str, bottom: str = "data", width: int = 4) -> MatrixLayer:
    return MatrixLayer(name=name, bottoms=bottom, tops=name, width=width)


def loss(*bottoms: str) -> list[Layer]:
    return [SquareLossLayer(name=f"loss-{bottom}", bottoms=bottom, weight=1 + n) for n, bottom in enumerate(bottoms)]


def dense(name: str, bottom: str = "data", neuron: Neuron | str = "Identity", width: int = 4) -> InnerProductLayer:
    return InnerProductLayer(name=name, bottoms=bottom, tops=name, output_dim=width, neuron=neuron)  # type: ignore[arg-type]


def group(net: Net, name: str) -> list[Any]:
    """Return the arrays of all versions of a blob, in order."""
    return [net.memory.array(value, value.space) for value in net.memory.values if value.name == name]


def in_one_memory(one: Any, other: Any) -> bool:
    return bool(np.shares_memory(one, other))


@pytest.mark.parametrize(("free", "most"), [(1000, 7), (130, 5), (39, 0), (30, 0)])
def test_the_largest_batch_that_fits_is_smaller_than_the_one_that_did_not(free: int, most: int) -> None:
    need = Need(blobs=160, parameters=20, own=10, batch=8)  # 20 bytes of blobs for each record
    assert need.most(free) == most
    assert (f"a batch of {most} would fit" == need.remedy(free, sure=True)) == bool(most)


# Neurons and in-place layers


@pytest.mark.parametrize("neuron", [Sigmoid(), Tanh(), ReLU(), SiLU()])
def test_dropout_over_a_neuron(neuron: Neuron) -> None:
    """Mocha's in-place Dropout over Sigmoid and Tanh gives wrong gradients; only ReLU hides it."""
    net = net_of(
        data(5), dense("a", neuron=neuron), DropoutLayer(name="drop", bottoms="a"), matrix("b", "a"), *loss("b"),
        input_gradients=("data",),
    )  # fmt: skip
    check_gradients(net, ("data",))
    before, after = group(net, "a")[1:]
    assert not in_one_memory(before, after), "the neuron's backward reads its output, so Dropout may not overwrite it"
    assert in_one_memory(*group(net, "a")[:2]) == (not neuron.needs_input)


def test_a_neuron_takes_over_the_memory_of_its_layers_top() -> None:
    net = net_of(data(5), dense("a", neuron=Tanh()), *loss("a"))
    assert in_one_memory(*group(net, "a"))


def test_dropout_over_what_nobody_reads_backward_takes_the_memory() -> None:
    net = net_of(data(5), dense("a"), DropoutLayer(name="drop", bottoms="a"), dense("b", "a"), *loss("b"))
    assert in_one_memory(*group(net, "a"))
    check_gradients(net)


def test_dropout_over_softmax() -> None:
    softmax = SoftmaxLayer(name="s", bottoms="a", tops="s")
    net = net_of(data(5), dense("a"), softmax, DropoutLayer(name="drop", bottoms="s"), dense("b", "s"), *loss("b"))
    assert not in_one_memory(*group(net, "s"))
    check_gradients(net)


def test_dropout_over_pooling() -> None:
    pool = PoolingLayer(name="pool", bottoms="image", tops="pool", kernel=2, stride=2)
    net = net_of(
        data(4),
        dense("a", width=16),
        ReshapeLayer(name="image", bottoms="a", tops="image", shape=[1, 4, 4]),
        pool,
        DropoutLayer(name="drop", bottoms="pool"),
        dense("b", "pool"),
        *loss("b"),
    )
    assert not in_one_memory(*group(net, "pool"))
    check_gradients(net)


@pytest.mark.parametrize("neuron", [Tanh(), Sigmoid(), SiLU()])
def test_a_neuron_over_a_layer_whose_backward_reads_its_own_top(neuron: Neuron) -> None:
    squash = SquashLayer(name="e", bottoms="a", tops="e", neuron=neuron)
    net = net_of(data(5), dense("a"), squash, *loss("e"))
    assert not in_one_memory(*group(net, "e"))
    check_gradients(net)


def test_several_in_place_layers_one_after_the_other() -> None:
    net = net_of(
        data(5),
        dense("a", neuron=Tanh()),
        HalveLayer(name="one", bottoms="a"),
        DropoutLayer(name="drop", bottoms="a"),
        HalveLayer(name="two", bottoms="a"),
        *loss("a"),
    )
    first, tanh, one, drop, two = group(net, "a")
    assert in_one_memory(first, tanh)
    assert not in_one_memory(tanh, one)
    assert in_one_memory(one, drop)
    assert in_one_memory(drop, two)
    check_gradients(net)


def test_an_in_place_layer_on_two_blobs() -> None:
    net = net_of(
        data(5),
        dense("a", neuron=Sigmoid()),
        dense("b"),
        HalveLayer(name="both", bottoms=["a", "b"]),
        AddLayer(name="sum", bottoms=["a", "b"], tops="sum"),
        *loss("sum"),
    )
    check_gradients(net)


# Branches


@pytest.mark.parametrize("written", [0, 1])
def test_a_branch_of_a_split_that_is_written_in_place(written: int) -> None:
    """Mocha's Split gives its first top the bottom's memory: a mask on it destroys the clean copy."""
    branches = ["left", "right"]
    net = net_of(
        data(5),
        dense("a"),
        SplitLayer(name="split", bottoms="a", tops=branches),
        DropoutLayer(name="drop", bottoms=branches[written]),
        dense("b", "left"),
        dense("c", "right"),
        *loss("b", "c"),
    )
    arrays = {name: group(net, name)[-1] for name in branches}
    assert not in_one_memory(arrays["left"], arrays["right"])
    assert in_one_memory(arrays[branches[1 - written]], group(net, "a")[0]), "what is not written is not copied"
    check_gradients(net)


def test_a_split_copies_nothing() -> None:
    net = net_of(
        data(5),
        dense("a"),
        SplitLayer(name="split", bottoms="a", tops=["left", "right"]),
        dense("b", "left"),
        dense("c", "right"),
        *loss("b", "c"),
    )
    assert in_one_memory(group(net, "left")[0], group(net, "right")[0])


def test_the_last_reader_of_a_branch_may_take_the_memory() -> None:
    net = net_of(
        data(5),
        dense("a"),
        SplitLayer(name="split", bottoms="a", tops=["left", "right"]),
        AddLayer(name="early", bottoms="left", tops="early"),
        HalveLayer(name="half", bottoms="right"),
        AddLayer(name="sum", bottoms=["early", "right"], tops="sum"),
        *loss("sum"),
    )
    assert in_one_memory(*group(net, "right"))
    check_gradients(net)


def test_a_branch_that_the_very_next_layer_reads_is_not_overwritten() -> None:
    net = net_of(
        data(5),
        dense("a"),
        SplitLayer(name="split", bottoms="a", tops=["left", "right"]),
        HalveLayer(name="half", bottoms="right"),
        AddLayer(name="next", bottoms="left", tops="next"),
        AddLayer(name="sum", bottoms=["next", "right"], tops="sum"),
        *loss("sum"),
    )
    assert not in_one_memory(*group(net, "right"))
    check_gradients(net)


def test_an_alias_of_an_alias_is_the_same_memory() -> None:
    net = net_of(
        data(6),
        dense("a", width=6),
        SplitLayer(name="split", bottoms="a", tops=["left", "right"]),
        ReshapeLayer(name="shape", bottoms="right", tops="shape", shape=[2, 3]),
        ReshapeLayer(name="back", bottoms="shape", tops="back", shape=6),
        DropoutLayer(name="drop", bottoms="left"),
        ProductLayer(name="product", bottoms=["left", "back"], tops="product"),
        *loss("product"),
    )
    assert in_one_memory(group(net, "a")[0], group(net, "back")[0])
    assert not in_one_memory(group(net, "left")[-1], group(net, "back")[0])
    check_gradients(net)


@pytest.mark.parametrize("activation", ["ReLU", "Sigmoid", "Tanh"])
def test_activation_layers_over_a_shared_blob(activation: str) -> None:
    net = net_of(
        data(5),
        dense("a"),
        SplitLayer(name="split", bottoms="a", tops=["left", "right"]),
        ActivationLayer(name="f", bottoms="left", tops="f", neuron=activation),
        ProductLayer(name="product", bottoms=["f", "right"], tops="product"),
        *loss("product"),
    )
    check_gradients(net)


def test_the_blobs_of_a_source_are_never_overwritten() -> None:
    layers = [
        data(5),
        DropoutLayer(name="drop", bottoms="data"),
        ActivationLayer(name="relu", bottoms="data", tops="relu", neuron="ReLU"),
        dense("a", "relu"),
        *loss("a"),
    ]
    net = net_of(*layers)
    source = net.node_ops["in-data"].state.blobs[0]
    written = source.copy()
    for _ in range(2):
        net.forward()
        net.backward()
    np.testing.assert_array_equal(source, written)
    assert not in_one_memory(source, group(net, "relu")[-1])
    check_gradients(net_of(*layers, input_gradients=("data",)), ("data",))


def test_in_phases_in_which_dropout_does_nothing_it_costs_nothing() -> None:
    layers = [data(5), DropoutLayer(name="drop", bottoms="data"), dense("a"), *loss("a")]
    net = net_of(*layers, phase="test")
    net.forward()
    assert in_one_memory(*group(net, "data"))
    plan = net_of(*layers[:1], *layers[2:], phase="test").memory.planned_bytes()
    assert net.memory.planned_bytes()["planned"] == plan["planned"]


# Gradients


@pytest.mark.parametrize("consumers", [2, 3])
def test_the_net_adds_up_gradients_as_a_split_layer_does(consumers: int) -> None:
    branches = [f"branch{number}" for number in range(consumers)]

    def layers(names: list[str]) -> list[Layer]:
        ends: list[Layer] = [
            ReshapeLayer(name="shape", bottoms=names[0], tops="shape", shape=[2, 3]),
            ReshapeLayer(name="flat", bottoms="shape", tops="x0", shape=6),
            ActivationLayer(name="tanh", bottoms=names[1], tops="x1", neuron="Tanh"),
            HalveLayer(name="half", bottoms="x1"),
        ]
        if consumers == 3:
            ends.append(dense("x2", names[2], width=6))
        tops = [f"x{number}" for number in range(consumers)]
        return [*ends, ConcatLayer(name="all", bottoms=tops, tops="all"), dense("b", "all"), *loss("b")]

    start = [data(6), dense("a", width=6, neuron=Sigmoid())]
    split = net_of(*start, SplitLayer(name="split", bottoms="a", tops=branches), *layers(branches))
    net = net_of(data(6), dense("a", width=6, neuron=Sigmoid()), *layers(["a"] * consumers), insert_splits=True)
    for one in (split, net):
        one.forward()
        one.backward()
    for name, handle in net.parameters.items():
        np.testing.assert_allclose(handle.gradient, split.parameters[name].gradient, rtol=1e-12, err_msg=name)
    check_gradients(net)


def test_one_blob_under_two_bottoms_of_a_layer() -> None:
    net = net_of(
        data(4),
        dense("a"),
        ReshapeLayer(name="shape", bottoms=["a", "a"], tops=["b", "c"], shape=[2, 2]),
        ActivationLayer(name="f", bottoms=["a", "a"], tops=["d", "e"], neuron=Tanh()),
        ProductLayer(name="square", bottoms=["d", "d"], tops="square"),
        ReshapeLayer(name="flat", bottoms=["b", "c"], tops=["b2", "c2"], shape=4),
        AddLayer(name="sum", bottoms=["b2", "c2", "square", "e", "e"], tops="sum"),
        *loss("sum"),
        insert_splits=True,
        input_gradients=("data",),
    )
    check_gradients(net, ("data",))


def test_gradients_flow_through_in_place_layers_without_memory_of_their_own() -> None:
    net = net_of(
        data(5),
        dense("a"),
        HalveLayer(name="half", bottoms="a"),
        dense("b", "a"),
        *loss("b"),
        input_gradients=("data",),
    )
    first, second = [value.gradient for value in net.memory.values if value.name == "a"]
    assert first.group is second.group


def test_the_gradients_of_a_chain_share_two_buffers() -> None:
    chain = [dense(f"l{n}", f"l{n - 1}" if n else "data", width=16) for n in range(8)]
    net = net_of(data(16), *chain, *loss("l7"))
    gradients = [value.gradient for value in net.memory.values if value.gradient is not None]
    bases = {array.__array_interface__["data"][0] for array in (net.memory.array(g, g.space) for g in gradients)}
    assert len(bases) == 3, "two in turn, and the kept one below the loss"
    plan = net.memory.planned_bytes()
    assert plan["planned"] < plan["blobs"]
    check_gradients(net)


def test_a_net_that_goes_forward_only_shares_more() -> None:
    chain = [dense(f"l{n}", f"l{n - 1}" if n else "data", width=16) for n in range(8)]
    forward, train = (net_of(data(16), *chain, *loss("l7"), phase=phase) for phase in ("test", "train"))
    assert forward.memory.planned_bytes()["planned"] < train.memory.planned_bytes()["planned"] / 2
    fill(forward, 1)
    assert forward.forward() == train.forward()


# A state that puts arrays of its own into blobs


class OwnLayer(Layer, can_do_bp=True):
    """y = 2 x, in an array that the state made itself."""

    bottoms: Names
    tops: Names


class OwnState(State, of=OwnLayer, reads=""):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.own = backend.empty(inputs[0].shape)
        self.blobs = [self.own]

    def forward(self, inputs: list[Any]) -> None:
        np.multiply(inputs[0], 2, out=self.own)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is not None:
            np.multiply(self.blobs_diff[0], 2, out=diffs[0])


def test_a_state_may_bring_arrays_of_its_own() -> None:
    net = net_of(
        data(6),
        dense("a", width=6),
        OwnLayer(name="own", bottoms="a", tops="own"),
        HalveLayer(name="half", bottoms="own"),
        ReshapeLayer(name="shape", bottoms="own", tops="shape", shape=[3, 2]),
        *loss("shape"),
    )
    state: Any = net.node_ops["own"].state
    assert state.blobs[0] is state.own
    assert not in_one_memory(state.own, group(net, "own")[-1]), "an array of somebody's own is not overwritten"
    check_gradients(net)


def test_an_array_of_a_states_own_is_reshaped_for_those_above() -> None:
    net = net_of(
        data(6),
        OwnLayer(name="own", bottoms="data", tops="own"),
        ReshapeLayer(name="shape", bottoms="own", tops="shape", shape=[3, 2]),
        *loss("shape"),
        keep="all",
    )
    net.forward()
    assert net.blob("shape").shape == (3, 3, 2)


# The lists that states see


def test_states_see_the_same_objects_at_every_call() -> None:
    seen: list[list[int]] = []

    class WatchLayer(OwnLayer):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> OwnState:
            return WatchState(self, backend, inputs, diffs)

    class WatchState(OwnState):
        def ready(self) -> None:
            self.given = self.backend.backend  # ready is called when memory stands
            assert isinstance(self.blobs[0], np.ndarray)

        def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
            super().backward(inputs, diffs)
            lists = [inputs, diffs, self.blobs, self.blobs_diff]
            seen.append([id(one) for one in lists] + [id(array) for one in lists for array in one])

    net = net_of(data(3), dense("a"), WatchLayer(name="watch", bottoms="a", tops="b"), *loss("b"))
    for _ in range(3):
        net.forward()
        net.backward()
    assert seen[0] == seen[1] == seen[2]


# Sharing changes no number


def random_net(draw: st.DrawFn) -> list[Layer]:
    """Draw a net of small layers on blobs of 4 numbers; every blob may be read by several layers."""
    layers: list[Layer] = [data(4, batch=2)]
    free = ["data"]
    for number in range(draw(st.integers(2, 8))):
        name = f"x{number}"
        bottom, other = draw(st.sampled_from(free)), draw(st.sampled_from(free))
        one = draw(
            st.sampled_from(
                [
                    matrix(name, bottom),
                    dense(name, bottom, Tanh()),
                    dense(name, bottom, Sigmoid()),
                    ActivationLayer(name=name, bottoms=bottom, tops=name, neuron="Tanh"),
                    SquashLayer(name=name, bottoms=bottom, tops=name, neuron=SiLU()),
                    AddLayer(name=name, bottoms=[bottom, other], tops=name),
                    ProductLayer(name=name, bottoms=[bottom, other], tops=name),
                    ReshapeLayer(name=name, bottoms=bottom, tops=name, shape=4),
                    SplitLayer(name=name, bottoms=bottom, tops=[name, f"{name}b"]),
                    SoftmaxLayer(name=name, bottoms=bottom, tops=name),
                ]
            )
        )
        layers.append(one)
        free += [top for top in one.tops if top not in free]
        if draw(st.booleans()):
            kind = draw(st.sampled_from([HalveLayer, DropoutLayer]))
            layers.append(kind(name=f"in-place{number}", bottoms=draw(st.sampled_from(free))))
    read = {bottom for layer in layers if not layer.is_source and not layer.is_inplace for bottom in layer.bottoms}
    return [*layers, *loss(*(name for name in free if name not in read))]


@st.composite
def random_nets(draw: st.DrawFn) -> list[Layer]:
    return random_net(draw)


@settings(max_examples=trials(50, 150))
@given(random_nets(), st.sampled_from([PLAIN, "numpy"]))
def test_sharing_memory_changes_no_number(layers: list[Layer], backend: Any) -> None:
    nets = [
        net_of(*layers, insert_splits=True, keep=keep, input_gradients=("data",), backend=backend)
        for keep in ((), "all")
    ]
    for _ in range(2):
        for net in nets:
            fill(net, 3)
        assert nets[0].forward() == nets[1].forward()
        for net in nets:
            net.backward()
        found = [{name: handle.gradient for name, handle in net.parameters.items()} for net in nets]
        found = [one | {"data": net.gradient("data")} for one, net in zip(found, nets, strict=True)]
        for name, gradient in found[1].items():
            np.testing.assert_array_equal(found[0][name], gradient, err_msg=name)
    no_overlap(nets[0].memory)


@settings(max_examples=15)
@given(random_nets(), st.sampled_from([PLAIN, "numpy"]))
def test_gradients_of_random_nets(layers: list[Layer], backend: Any) -> None:
    check_gradients(net_of(*layers, insert_splits=True, input_gradients=("data",), backend=backend), ("data",))


def no_overlap(memory: Memory) -> None:
    """Check that of two values in one memory, but in two groups, one is dead before the other is written."""
    gradients = [value.gradient for value in memory.values if value.gradient is not None]
    everything: list[Value] = [*memory.values, *gradients, *memory.extra]
    groups = list({id(value.group): value.group for value in everything}.values())
    places: list[tuple[Group, int, int]] = []
    for one in groups:
        for array in one.arrays.values():
            start = array.__array_interface__["data"][0]
            places.append((one, start, start + group_bytes(one)))
    for number, (one, start, end) in enumerate(places):
        for other, other_start, other_end in places[:number]:
            if start < other_end and other_start < end:
                assert one.last < other.first or other.last < one.first
                assert not one.pinned
                assert not other.pinned
