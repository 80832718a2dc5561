"""Containers: layers made of layers, which a net puts in their places; from outside each is one layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from nacre import (
    ConfigError,
    ContractError,
    Graph,
    Inner,
    InputLayer,
    Layer,
    Layers,
    Names,
    Net,
    NotFiniteError,
    Solver,
    TopologyError,
    exactly,
    fresh,
)
from nacre.graph.containers import expand, inner_layers, names_in
from nacre.testing import check_net_gradients
from nacre_layers import DropoutLayer
from nacre_solvers import SGD, Snapshot
from small_layers import AddLayer, MatrixLayer, PlainBackend, SquareLossLayer, State


class TwiceLayer(Layer):
    """Two matrices, and what they read added to their result."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    width: int = 3
    param_key: str = ""

    def expand(self) -> Sequence[Layer]:
        return [
            MatrixLayer(name="a", bottoms=self.bottoms, tops="a", width=self.width),
            MatrixLayer(name="b", bottoms="a", tops="b", width=self.width),
            AddLayer(name="sum", bottoms=["b", *self.bottoms], tops=self.tops),
        ]


class BoxLayer(Layer):
    """Any layers, as they are."""

    bottoms: Names
    tops: Names
    layer: Layers
    param_key: str = ""

    def expand(self) -> Sequence[Any]:
        return self.layer


def data(name: str = "x", width: int = 3) -> InputLayer:
    return InputLayer(name=name, tops=name, shape=width, batch_size=2)


def net_of(*layers: Layer, **options: Any) -> Net:
    chosen: dict[str, Any] = {"backend": PlainBackend(), "dtype": "float64", **options}
    return Net("n", [data(), *layers], **chosen)


def run(net: Net) -> float:
    net.write("x", np.arange(6.0).reshape(2, 3) / 3 - 1)
    return net.forward()


def matrix(name: str, bottom: str, top: str = "", **fields: Any) -> MatrixLayer:
    return MatrixLayer(name=name, bottoms=bottom, tops=top or name, width=3, **fields)


def test_a_net_with_a_container_is_the_net_of_its_layers_bit_for_bit() -> None:
    boxed = net_of(TwiceLayer(name="two", bottoms="x", tops="y"), SquareLossLayer(bottoms="y"))
    flat = net_of(
        matrix("a", "x"),
        matrix("b", "a"),
        AddLayer(name="sum", bottoms=["b", "x"], tops="y"),
        SquareLossLayer(bottoms="y"),
    )
    assert [node.name for node in boxed.wiring.nodes][1:4] == ["two/a", "two/b", "two/sum"]
    assert [wire.name for wire in boxed.wiring.wires] == ["x", "two/a", "two/b", "y"]
    assert list(boxed.parameters) == ["two/a/W", "two/b/W"]
    for name in flat.parameters:
        flat.parameters[name].value = boxed.parameters[f"two/{name}"].value
    assert run(boxed) == run(flat)
    boxed.backward()
    flat.backward()
    for name, handle in flat.parameters.items():
        np.testing.assert_array_equal(boxed.parameters[f"two/{name}"].gradient, handle.gradient)


def test_one_container_in_two_nets_is_expanded_once_and_shares_its_parameters() -> None:
    backend, shared = PlainBackend(), TwiceLayer(name="two", bottoms="x", tops="y")
    one, other = (net_of(shared, backend=backend) for _ in range(2))
    assert [node.user for node in one.wiring.nodes[1:]] == [node.user for node in other.wiring.nodes[1:]]
    assert one.parameters["two/a/W"].storage is other.parameters["two/a/W"].storage
    assert inner_layers(shared) is inner_layers(shared)
    own = net_of(fresh(shared), backend=backend)
    assert own.parameters["two/a/W"].storage is not one.parameters["two/a/W"].storage


def test_a_layer_object_in_a_container_and_alone_in_another_net_shares_its_parameters() -> None:
    backend, layer = PlainBackend(), matrix("a", "x")
    inside = net_of(BoxLayer(name="box", bottoms="x", tops="a", layer=[layer]), backend=backend)
    alone = net_of(layer, backend=backend)
    assert layer.name == "a"
    assert inside.parameters["box/a/W"].storage is alone.parameters["a/W"].storage


def test_containers_nest_and_every_name_has_its_way_from_outside() -> None:
    inner = TwiceLayer(name="two", bottoms="x", tops="z")  # x is the outer container's bottom, z its local blob
    outer = BoxLayer(name="box", bottoms="x", tops="y", layer=[inner, matrix("c", "z", "y")])
    net = net_of(outer, SquareLossLayer(bottoms="y"))
    assert [node.name for node in net.wiring.nodes][1:5] == ["box/two/a", "box/two/b", "box/two/sum", "box/c"]
    assert [wire.name for wire in net.wiring.wires] == ["x", "box/two/a", "box/two/b", "box/z", "y"]
    assert list(net.parameters) == ["box/two/a/W", "box/two/b/W", "box/c/W"]
    assert set(names_in([outer])) == {"box", "box/two", "box/two/a", "box/two/b", "box/two/sum", "box/c"}


def test_blobs_inside_are_read_by_their_full_names() -> None:
    net = net_of(TwiceLayer(name="two", bottoms="x", tops="y"), keep="two/a")
    run(net)
    W = net.parameters["two/a/W"].value
    np.testing.assert_allclose(net.blob("two/a"), net.blob("x") @ W)
    np.testing.assert_allclose(net.predict(np.ones((5, 3)), "two/a"), np.ones((5, 3)) @ W)
    assert set(net.predict(np.ones((5, 3)), ["two/a", "y"])) == {"two/a", "y"}


def test_blobs_inside_are_predicted_where_the_rest_of_the_container_reads_other_layers() -> None:
    box = BoxLayer(
        name="box", bottoms=["x", "z"], tops="y", layer=[matrix("a", "x"), AddLayer(bottoms=["a", "z"], tops="y")]
    )
    net = net_of(matrix("z", "x"), box, SquareLossLayer(bottoms="y"))
    x = np.ones((5, 3))
    np.testing.assert_allclose(net.predict(x, "box/a"), x @ net.parameters["box/a/W"].value)
    np.testing.assert_allclose(net.predict(x, "y"), net.predict(x, "box/a") + net.predict(x, "z"))
    assert net.predict(np.ones((5, 3))).shape == (5, 3)  # by default what nobody outside reads


def test_layers_inside_exclude_phases_and_a_container_does() -> None:
    dropped = matrix("d", "a", exclude=["predict"])
    box = BoxLayer(name="box", bottoms="x", tops="a", layer=[matrix("a", "x"), dropped])
    assert "box/d" in net_of(box).node_ops
    assert "box/d" not in net_of(box, phase="predict").node_ops
    whole = BoxLayer(name="box", bottoms="x", tops="a", layer=[matrix("a", "x")], exclude=["predict"])
    assert not [name for name in net_of(whole, phase="predict").node_ops if name.startswith("box")]


# Sharing inside


def test_containers_of_one_key_share_all_their_parameters() -> None:
    one, other = (TwiceLayer(name=name, bottoms=below, tops=name, param_key="k") for name, below in ("px", "qp"))
    net = net_of(one, other, SquareLossLayer(bottoms="q"))
    assert list(net.parameters) == ["p/a/W", "p/b/W"]
    assert net.parameters["q/a/W"] is net.parameters["p/a/W"]
    run(net)
    net.backward()
    assert {use.op.name for use in net.slots[0].uses} == {"p/b", "q/b"}


def test_a_key_inside_a_container_is_local() -> None:
    def box(name: str, below: str) -> BoxLayer:
        return BoxLayer(
            name=name,
            bottoms=below,
            tops=name,
            layer=[matrix("a", below, "a", param_key="k"), matrix("b", "a", name, param_key="k")],
        )

    net = net_of(box("p", "x"), box("q", "p"), matrix("r", "q", param_key="k"))
    assert list(net.parameters) == ["p/a/W", "q/a/W", "r/W"]


def test_a_tied_parameter_is_looked_for_inside_first_and_then_around() -> None:
    inner = [matrix("a", "x"), matrix("b", "a", tied="a/W"), matrix("c", "b", "y", tied="out/W")]
    net = net_of(
        matrix("a", "x", "first"), matrix("out", "first"), BoxLayer(name="box", bottoms="x", tops="y", layer=inner)
    )
    names = {slot.name: [use.op.name for use in slot.uses] for slot in net.slots}
    assert names == {"a/W": ["a"], "out/W": ["out", "box/c"], "box/a/W": ["box/a", "box/b"]}


def test_the_same_object_twice_in_a_container_shares_its_parameters() -> None:
    class AgainLayer(TwiceLayer):
        def expand(self) -> Sequence[Any]:
            layer = matrix("a", "x")
            return [Inner(layer), Inner(layer, name="b", bottoms=("a",), tops=self.tops)]

    net = net_of(AgainLayer(name="two", bottoms="x", tops="y"), SquareLossLayer(bottoms="y"))
    assert list(net.parameters) == ["two/a/W"]
    run(net)
    net.backward()
    W, x = net.parameters["two/a/W"].value, net.blob("x")
    dy = net.gradient("y")
    gradient = net.parameters["two/a/W"].gradient
    assert gradient is not None
    np.testing.assert_allclose(gradient, (x @ W).T @ dy + x.T @ dy @ W.T)


# What is done to a layer by its name


def test_freezing_a_container_freezes_what_it_is_made_of() -> None:
    net = net_of(TwiceLayer(name="two", bottoms="x", tops="y"), matrix("c", "y", "z"), SquareLossLayer(bottoms="z"))

    def frozen() -> list[str]:
        return [slot.layer for slot in net.slots if slot.frozen]

    net.freeze("two")
    assert sorted(frozen()) == ["two/a", "two/b"]
    net.unfreeze("two/b")
    assert frozen() == ["two/a"]
    net.unfreeze("two")
    assert frozen() == []
    with pytest.raises(TopologyError, match=r"no layer 'two/c' \(did you mean 'two/"):
        net.freeze("two/c")
    again = net_of(TwiceLayer(name="two", bottoms="x", tops="y"), SquareLossLayer(bottoms="y"), freeze=["two/a"])
    assert again.frozen == {"two/a"}
    with pytest.raises(ConfigError, match="freeze has 'two/A', but no layer"):
        net_of(TwiceLayer(name="two", bottoms="x", tops="y"), freeze=["two/A"])


def test_a_container_is_renamed_as_a_whole_and_in_parts(tmp_path: Path) -> None:
    old = net_of(TwiceLayer(name="old", bottoms="x", tops="y"), SquareLossLayer(bottoms="y"))
    run(old)
    Solver(SGD(), max_iter=1, callbacks=[Snapshot(folder=str(tmp_path))]).solve(old)
    new = net_of(TwiceLayer(name="new", bottoms="x", tops="y"))
    assert new.load(tmp_path, rename={"old": "new"}).complete
    np.testing.assert_array_equal(new.parameters["new/b/W"].value, old.parameters["old/b/W"].value)
    turned = net_of(TwiceLayer(name="new", bottoms="x", tops="y"))
    turned.load(tmp_path, rename={"old/a": "new/b", "old/b": "new/a"})
    np.testing.assert_array_equal(turned.parameters["new/b/W"].value, old.parameters["old/a/W"].value)
    flat = net_of(matrix("a", "x"), matrix("b", "a"))
    assert flat.load(tmp_path, rename={"old/a/W": "a/W", "old/b": "b"}).complete


# Names in random numbers and errors


class NoiseLayer(Layer):
    """y = uniform numbers, under the layer's name and under a name below it."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]


class NoiseState(State, of=NoiseLayer):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.randoms = [backend.random(name) for name in (layer.name, f"{layer.name}/more")]
        self.blobs = [backend.blob((2, *inputs[0].shape))]

    def forward(self, inputs: list[Any]) -> None:
        for random, y in zip(self.randoms, self.blobs[0], strict=True):
            random.uniform(y)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None: ...


def test_random_numbers_are_those_of_the_full_name() -> None:
    noise = NoiseLayer(name="noise", bottoms="x", tops="y")
    net = net_of(BoxLayer(name="box", bottoms="x", tops="y", layer=[noise]))
    run(net)
    expected = np.empty((2, 2, 3))
    for name, y in zip(("box/noise", "box/noise/more"), expected, strict=True):
        net.view().random(name).uniform(y)
    np.testing.assert_array_equal(net.blob("y"), expected)


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_a_mask_in_a_container_is_that_of_its_full_name(backend: str) -> None:
    x = np.ones((2, 3), "float32")
    drop = DropoutLayer(name="drop", bottoms="h")
    box = BoxLayer(name="box", bottoms="x", tops="h", layer=[AddLayer(name="h", bottoms="x", tops="h"), drop])
    net = net_of(box, SquareLossLayer(bottoms="h"), dtype="float32", backend=backend)
    net.write("x", x)
    net.forward()
    uniform = np.empty((2, 3), "float32")
    net.view().random("box/drop").uniform(uniform)
    np.testing.assert_array_equal(net.blob("h"), np.where(uniform >= 0.5, 2, 0))


class FaultyLayer(Layer):
    """Complains where it is told to."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    where: str


class FaultyState(State, of=FaultyLayer):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self._complain("setup")

    def _complain(self, where: str) -> None:
        if self.layer.where == where:
            raise ConfigError(f"{self.layer.name}: it fails in {where}")

    def ready(self) -> None:
        self._complain("ready")

    def forward(self, inputs: list[Any]) -> None:
        self._complain("forward")

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None: ...


@pytest.mark.parametrize("where", ["setup", "ready", "forward"])
def test_errors_have_the_full_name(where: str) -> None:
    faulty = FaultyLayer(name="f", bottoms="x", tops="y", where=where)
    box = BoxLayer(name="in", bottoms="x", tops="y", layer=[faulty])
    with pytest.raises(ConfigError, match=f"^out/in/f: it fails in {where}"):
        run(net_of(BoxLayer(name="out", bottoms="x", tops="y", layer=[box])))


def test_numbers_that_are_not_finite_are_reported_with_the_full_name() -> None:
    net = net_of(TwiceLayer(name="two", bottoms="x", tops="y"), SquareLossLayer(bottoms="y"))
    net.parameters["two/b/W"].value = np.full((3, 3), np.inf)
    net.write("x", np.ones((2, 3)))
    with pytest.raises(NotFiniteError, match="first seen in blob 'y' of layer 'two/sum'"):
        Solver(SGD(), max_iter=1).solve(net)


# What a container must not do


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ([matrix("a", "x")], ConfigError, "box: no layer in this container writes its top 'y'"),
        ([matrix("a", "x", "x"), matrix("b", "x", "y")], ConfigError, "box/a: it writes 'x', but that is a bottom"),
        (
            [DropoutLayer(name="d", bottoms="x"), matrix("b", "x", "y")],
            ConfigError,
            "box/d: it would change 'x' in place, but that is a bottom of container 'box'",
        ),
        ([data("y")], ConfigError, "box/y: it is a source, which cannot be in a container"),
        ([matrix("a", "x", "y"), matrix("a", "x", "z")], TopologyError, "two layers are called 'box/a'"),
        ([matrix("a", "x", "y"), matrix("b", "x", "y")], TopologyError, "'y' is written by the layers 'box/a' and "),
        ([matrix("a", "outside", "y")], TopologyError, "layer 'box/a' reads blob 'box/outside', which no layer writes"),
        ([matrix("a", "b", "y"), matrix("b", "y")], TopologyError, "'box/a', 'box/b' wait for each other"),
    ],
)
def test_wrong_containers(layers: list[Layer], error: type[Exception], message: str) -> None:
    box = BoxLayer(name="box", bottoms="x", tops="y", layer=layers)
    with pytest.raises(error, match=message):
        net_of(box, matrix("outside", "x"))


def test_a_container_gives_layers_and_nothing_else() -> None:
    class OddLayer(TwiceLayer):
        def expand(self) -> Any:
            return ["a"]

    with pytest.raises(ContractError, match=r"expand returned 'a' among its layers, but it must return layers"):
        net_of(OddLayer(name="two", bottoms="x", tops="y"))


@pytest.mark.parametrize("blobs", [("x", "y"), ("p", "q"), ("p_", "p"), ("q", "q_")])
def test_inner_names_are_not_those_of_the_blobs_outside(blobs: tuple[str, str]) -> None:
    class NamedLayer(TwiceLayer):
        def expand(self) -> Any:
            p, q = self.inner_names("p", "q")
            assert len({p, q, *blobs}) == 4
            return [matrix("a", blobs[0], p), matrix("b", p, q), matrix("c", q, blobs[1])]

    before = [] if blobs[0] == "x" else [matrix("before", "x", blobs[0])]
    run(net_of(*before, NamedLayer(name="n", bottoms=blobs[0], tops=blobs[1])))


def test_slashes_stay_forbidden_in_names_that_people_write() -> None:
    with pytest.raises(ConfigError, match="name='box/a', but it must consist of letters"):
        matrix("box/a", "x", "y")
    with pytest.raises(ConfigError, match="bottoms='box/a', but it must be a name"):
        matrix("a", "box/a", "y")


def test_a_blob_read_twice_in_one_container_needs_no_split_but_by_two_layers_outside_it_does() -> None:
    run(net_of(TwiceLayer(name="two", bottoms="x", tops="y"), SquareLossLayer(bottoms="y"), input_gradients=["x"]))
    both = [TwiceLayer(name=name, bottoms="x", tops=name) for name in ("p", "q")]
    net = net_of(*both, AddLayer(bottoms=["p", "q"], tops="y"), SquareLossLayer(bottoms="y"), input_gradients=["x"])
    run(net)
    with pytest.raises(TopologyError, match="blob 'x' feeds several layers that back-propagate: 'p/a', 'p/sum', 'q/a'"):
        net.backward()


def test_a_top_that_its_container_reads_too_needs_no_split() -> None:
    inner = [matrix("a", "x", "h"), matrix("b", "h", "y")]
    box = BoxLayer(name="box", bottoms="x", tops=["h", "y"], layer=inner)
    layers = [box, AddLayer(bottoms=["h", "y"], tops="s"), SquareLossLayer(bottoms="s")]
    assert max(error for _, error in check_net_gradients(net_of(*layers))) < 1e-6
    net = net_of(*layers, matrix("c", "h", "z"), SquareLossLayer(name="other", bottoms="z"), input_gradients=["x"])
    run(net)
    with pytest.raises(TopologyError, match="blob 'h' feeds several layers that back-propagate: 'box/b', "):
        net.backward()


def test_a_net_without_containers_has_the_graph_of_its_layers() -> None:
    graph = Graph.of([data(), matrix("a", "x")])
    assert expand(graph, "train") is graph


def test_a_rewrite_sees_the_layers_and_connects_them_inside() -> None:
    class Rewriting(PlainBackend):
        def rewrite(self, graph: Any) -> Any:
            def changed(node: Any) -> Any:
                if node.name != "two/b":
                    return node
                return dataclasses.replace(node, inside=dataclasses.replace(node.inside, bottoms=("x",)))

            return graph.with_nodes(map(changed, graph.nodes))

    net = net_of(TwiceLayer(name="two", bottoms="x", tops="y"), backend=Rewriting())
    assert net.wiring.nodes[2].bottoms == ("x",)


def test_an_algorithm_runs_the_layers_inside_in_a_phase_of_its_own() -> None:
    seen: list[tuple[str, str]] = []

    class TellingLayer(NoiseLayer): ...

    class TellingState(State, of=TellingLayer):
        def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
            super().__init__(layer, backend, inputs, diffs)
            self.blobs = [backend.blob(inputs[0].shape)]

        def forward(self, inputs: list[Any]) -> None:
            seen.append((self.backend.full_name(self.layer.name), self.phase))

        def backward(self, inputs: list[Any], diffs: list[Any]) -> None: ...

    inside = TellingLayer(name="t", bottoms="x", tops="y")
    net = net_of(BoxLayer(name="box", bottoms="x", tops="y", layer=[inside]), TellingLayer(bottoms="y", tops="z"))
    net.compile(net.in_phase("positive", net.steps("forward")))()
    net.forward()
    assert seen == [("box/t", "positive"), ("z", "positive"), ("box/t", "train"), ("z", "train")]
