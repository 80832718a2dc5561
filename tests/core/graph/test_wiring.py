"""Wiring by names, and the errors on the way; Mocha's cases of test/net/topology.jl are among them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre import InputLayer, Layer, Net, TopologyError
from nacre.graph.gradients import check_bp_topology, wanted_gradients
from nacre.graph.wiring import ancestors, sort, wire
from nacre.protocols.graph import Graph
from nacre_layers.elementwise.activation import ActivationLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.metrics.accuracy import AccuracyLayer
from nacre_layers.shapes.concat import ConcatLayer
from nacre_layers.shapes.reshape import ReshapeLayer
from nacre_layers.shapes.silence import SilenceLayer
from nacre_layers.shapes.split import SplitLayer
from small_layers import AddLayer, HalveLayer, MatrixLayer, SquareLossLayer, data, fill


def ip(name: str, bottoms: str = "data", tops: str = "") -> InnerProductLayer:
    return InnerProductLayer(name=name, bottoms=bottoms, tops=tops or name, output_dim=2)


def names(*layers: Layer) -> list[str]:
    return [node.name for node in sort(Graph.of(layers)).nodes]


def refuse(message: str, *layers: Layer) -> None:
    with pytest.raises(TopologyError) as caught:
        sort(Graph.of(layers))
    assert caught.value.args[0] == message


# Names


def test_a_blob_that_one_layer_writes_twice() -> None:
    two = InnerProductLayer(name="ip", bottoms=["data", "data"], tops=["x", "x"], output_dim=2)
    refuse("blob 'x' is written by layer 'ip' twice", data(1), two)


def test_a_blob_that_two_layers_write() -> None:
    refuse("blob 'x' is written by the layers 'a' and 'b' both", data(1), ip("a", tops="x"), ip("b", tops="x"))


def test_a_top_called_like_its_bottom() -> None:
    """As in place in Caffe's net files."""
    with pytest.raises(TopologyError) as caught:
        sort(Graph.of([data(1), ip("a", tops="x"), ActivationLayer(name="relu", bottoms="x", tops="x", neuron="ReLU")]))
    assert caught.value.args[0] == "blob 'x' is written by the layers 'a' and 'relu' both"
    assert "'relu'" in caught.value.remedy
    act = ActivationLayer(bottoms="x", tops="x", neuron="ReLU")
    refuse("a layer (Activation) writes the blob 'x' that it reads", data(1), ip("x"), act)


def test_two_layers_of_one_name() -> None:
    refuse("two layers are called 'ip'; give each a name of its own", data(1), ip("ip", tops="x"), ip("ip", tops="y"))
    refuse(
        "two layers are called 'Dropout-data'; give each a name of its own",
        data(1),
        DropoutLayer(bottoms="data"),
        DropoutLayer(bottoms="data"),
    )


def test_a_blob_that_is_missing() -> None:
    refuse("layer 'ip' reads blob 'date', which no layer writes (did you mean 'data'?)", data(1), ip("ip", "date"))
    with pytest.raises(TopologyError, match="the blobs in this phase are data, ip"):
        sort(Graph.of([data(1), ip("ip", "date")]))
    refuse("layer 'ip' reads blob 'zzz', which no layer writes", data(1), ip("ip", "zzz"))
    refuse("layer 'drop' reads blob 'x', which no layer writes", data(1), DropoutLayer(name="drop", bottoms="x"))


def test_a_blob_that_is_missing_in_a_phase() -> None:
    layers = [replace(data(1), exclude="test"), replace(ip("hidden"), exclude="test")]
    with pytest.raises(TopologyError) as caught:
        sort(Graph.of([ip("ip", "data")]), layers, "test")
    assert caught.value.args[0] == "layer 'ip' reads blob 'data' of layer 'in-data', absent in phase 'test'"
    assert caught.value.remedy == "use another phase, or let a source write 'data' in this one"
    with pytest.raises(TopologyError) as caught:
        sort(Graph.of([data(1), ip("ip", "hidden")]), layers, "test")
    assert caught.value.remedy == "exclude 'ip' from this phase too, or let 'hidden' be in it"


def test_a_cycle() -> None:
    behind = ip("c", "b"), DropoutLayer(name="drop", bottoms="c"), ip("d", "c")
    with pytest.raises(TopologyError) as caught:
        sort(Graph.of([data(1), *behind, AddLayer(name="a", bottoms=["data", "b"], tops="x"), ip("b", "x")]))
    assert caught.value.args[0] == (
        "the layers 'a', 'b' wait for each other's blobs: the net has a cycle, in which 'a' reads 'b', 'b' reads 'x'"
    )
    assert caught.value.remedy == "let 'a' read another blob than 'b'"


def test_a_layer_that_reads_its_own_top() -> None:
    with pytest.raises(TopologyError) as caught:
        sort(Graph.of([data(1), AddLayer(name="sum", bottoms=["data", "score"], tops="score"), ip("next", "score")]))
    assert str(caught.value) == ("layer 'sum' reads its own top 'score'\n  let 'sum' read another blob than 'score'")


def test_layers_in_place_in_a_cycle() -> None:
    drop = [DropoutLayer(name=name, bottoms="a") for name in ("one", "two")]
    refuse(
        "the layers 'a', 'one', 'two' wait for each other's blobs: the net has a cycle, in which 'a' reads 'a', "
        "'one' reads 'a', 'two' reads 'a'",
        *(ip("a", "a"), *drop),
    )


# Order


def test_layers_may_come_in_any_order_and_keep_theirs_where_they_may() -> None:
    assert names(ip("c", "b"), ip("b", "a"), ip("a"), data(1)) == ["in-data", "a", "b", "c"]
    assert names(data(1), ip("a"), ip("b"), ip("c", "a")) == ["in-data", "a", "b", "c"]


def test_in_place_layers_come_before_the_other_readers_in_the_given_order() -> None:
    reader, first, second = (
        ip("reader", "x"),
        HalveLayer(name="first", bottoms="x"),
        HalveLayer(name="second", bottoms="x"),
    )
    assert names(reader, first, second, ip("x"), data(1)) == ["in-data", "x", "first", "second", "reader"]
    assert names(second, reader, data(1), ip("x"), first) == ["in-data", "x", "second", "first", "reader"]


def test_an_in_place_layer_on_two_blobs_waits_for_both() -> None:
    both = HalveLayer(name="both", bottoms=["x", "y"])
    layers = [both, ip("reader", "x"), data(1), HalveLayer(name="before", bottoms="y"), ip("x"), ip("y")]
    order = names(*layers)
    assert order.index("both") > order.index("y")
    assert order.index("reader") > order.index("both")
    assert order.index("both") < order.index("before"), "as given: `both` stands before `before`"


@given(st.permutations(range(8)))
def test_any_order_gives_a_wiring_in_which_producers_come_first(order: list[int]) -> None:
    layers = [
        data(2),
        ip("a"),
        HalveLayer(name="half", bottoms="a"),
        ip("b", "a"),
        ip("c", "a"),
        AddLayer(name="add", bottoms=["b", "c"], tops="add"),
        ip("d", "add"),
        SquareLossLayer(name="loss", bottoms="d"),
    ]
    wiring = wire(sort(Graph.of(layers[place] for place in order)))
    for index, inputs in enumerate(wiring.inputs):
        assert all(wiring.wires[number].producer < index for number in inputs)
    versions = [one for one in wiring.wires if one.name == "a"]
    assert [one.last for one in versions] == [False, True]
    assert len(versions[0].consumers) == 1, "only the in-place layer reads the first version"
    assert len(versions[1].consumers) == 2


def test_a_long_net_is_sorted_quickly_enough_to_be_tested() -> None:
    layers = [data(1), *(ip(f"l{n}", f"l{n - 1}" if n else "data") for n in range(600))]
    assert names(*reversed(layers))[-1] == "l599"


def test_a_graph_remembers_the_users_layer_and_what_is_kept() -> None:
    user, other = ip("a"), ip("other", tops="a")
    graph = Graph.of([data(1), user], keep=["a"])
    source, node = graph.nodes
    changed = sort(graph.with_nodes([source, replace(node, layer=other)]))
    node = changed.nodes[1]
    assert (node.layer, node.user, node.name) == (other, user, "a")
    assert changed.keep == {"a"}


# Back-propagation


def check(*layers: Layer, insert_splits: bool = False) -> None:
    wiring = wire(sort(Graph.of(layers)))
    check_bp_topology(wiring, wanted_gradients(wiring), insert_splits=insert_splits)


def labelled(*layers: Layer) -> list[Layer]:
    return [data(2), data(top="label"), *layers]


def loss(bottom: str, name: str = "loss") -> SoftmaxLossLayer:
    return SoftmaxLossLayer(name=name, bottoms=[bottom, "label"])


def test_good_sharing_of_a_data_blob() -> None:
    check(*labelled(ip("a"), ip("b"), loss("a", "loss-a"), loss("b", "loss-b")))


def test_good_sharing_with_layers_that_do_not_back_propagate() -> None:
    check(*labelled(ip("a"), loss("a"), AccuracyLayer(name="accuracy", bottoms=["a", "label"])))


def test_bad_sharing() -> None:
    layers = labelled(ip("a"), ip("b", "a"), ip("c", "a"), loss("b", "loss-b"), loss("c", "loss-c"))
    with pytest.raises(TopologyError) as caught:
        check(*layers)
    assert str(caught.value) == (
        "blob 'a' feeds several layers that back-propagate: 'b', 'c'\n"
        "  split it with a SplitLayer, or make the net with insert_splits=True; "
        'in a net file, add a [[layer]] with type = "Split", or insert_splits = true'
    )
    check(*layers, insert_splits=True)


def test_bad_sharing_between_two_bottoms_of_one_layer() -> None:
    layers = labelled(ip("a"), ConcatLayer(name="both", bottoms=["a", "a"], tops="both"), loss("both"))
    with pytest.raises(TopologyError, match=r"blob 'a' .*'both', 'both'"):
        check(*layers)


def test_a_good_dangling_blob_needs_no_gradient() -> None:
    shape = ReshapeLayer(name="shape", bottoms="data", tops="shape", shape=[2, 1])
    check(*labelled(shape, ip("a"), loss("a")))


def test_a_bad_dangling_blob() -> None:
    with pytest.raises(TopologyError) as caught:
        check(*labelled(ip("a"), ip("dangling"), loss("a")))
    assert str(caught.value) == (
        "blob 'dangling' of layer 'dangling' needs a gradient but reaches no loss\n"
        "  connect it to a loss, or exclude layer 'dangling' from this phase (exclude = ['train'])"
    )


def test_a_top_beside_one_that_is_needed_is_silenced() -> None:
    layers = labelled(ip("a"), SplitLayer(name="split", bottoms="a", tops=["b", "c"]), loss("b"))
    with pytest.raises(TopologyError, match="blob 'c' of layer 'split' needs a gradient but reaches no loss") as caught:
        check(*layers)
    assert "exclude" not in caught.value.remedy
    assert "L.Silence()(top)" in caught.value.remedy
    assert "type = \"Silence\", bottoms = ['c']" in caught.value.remedy
    check(*layers, SilenceLayer(bottoms=["c"]))


def test_a_split_with_one_branch_to_a_sink_that_does_not_back_propagate() -> None:
    layers = labelled(
        ip("a"),
        SplitLayer(name="split", bottoms="a", tops=["b", "c"]),
        loss("b"),
        AccuracyLayer(name="accuracy", bottoms=["c", "label"]),
    )
    with pytest.raises(TopologyError, match=r"'c' .*'split'.* no loss"):
        check(*layers)


def test_no_loss() -> None:
    with pytest.raises(TopologyError, match="no loss layer"):
        check(*labelled(ip("a")))


def test_a_net_is_asked_only_when_it_goes_backward() -> None:
    layers = [data(2), ip("a"), ip("b", "a"), ip("c", "a")]
    with Net("forward only", layers, backend="numpy") as net:
        fill(net)
        assert net.forward() == 0
        assert not net.trains
        assert net.blob("b").shape == (3, 2)
        for call in (net.backward, lambda: net.steps("backward")):
            with pytest.raises(TopologyError, match="no loss layer"):
                call()


@pytest.mark.parametrize("phase", ["validation", "test", "predict"])
def test_a_net_that_goes_forward_only_may_share_every_blob(phase: str) -> None:
    layers = [*labelled(ip("a"), ip("b", "a"), ip("c", "a"), loss("b")), ip("d", "a")]
    with Net("net", layers, backend="numpy", phase=phase) as net:
        assert net.forward() > 0
        with pytest.raises(TopologyError, match=f"net 'net' is in phase '{phase}', so it goes forward only"):
            net.backward()
        assert net.parameters["a/weight"].gradient is None


def test_gradients_nobody_needs_are_pruned() -> None:
    layers = [
        data(2),
        ReshapeLayer(name="shape", bottoms="data", tops="shape", shape=[2]),
        MatrixLayer(name="m", bottoms="shape", tops="m", width=2),
        SquareLossLayer(name="loss", bottoms="m"),
    ]
    with Net("net", layers, backend="numpy", keep="all") as net:
        assert {op.name: op.backward for op in net.ops} == {"in-data": False, "shape": False, "m": True, "loss": True}
        assert net.node_ops["m"].diff_arrays == [None]
    with Net("net", layers, backend="numpy", keep="all", input_gradients=("data",)) as net:
        assert net.node_ops["shape"].backward


# What a blob depends on


def test_ancestors() -> None:
    layers = [data(2), ip("a"), HalveLayer(name="half", bottoms="a"), ip("b", "a"), ip("c"), loss("b")]
    graph = Graph.of([*layers, InputLayer(name="labels", tops="label")])
    assert [node.name for node in ancestors(graph, ["b"])] == ["in-data", "a", "half", "b"]
    assert [node.name for node in ancestors(graph, ["b"], ["a"])] == ["half", "b"], (
        "in-place layers act on a given blob"
    )
    with pytest.raises(TopologyError, match=r"no layer writes blob 'bb' in this phase"):
        ancestors(graph, ["bb"])
