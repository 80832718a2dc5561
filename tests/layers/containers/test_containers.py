"""Sequential, Repeat and Residual: layers made of layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net, fresh
from nacre.fields.tables import table_of
from nacre.graph import containers
from nacre.graph.containers import names_in
from nacre.testing import Example
from nacre_layers import (
    ConvolutionLayer,
    ElementWiseLayer,
    InnerProductLayer,
    RepeatLayer,
    ResidualLayer,
    SequentialLayer,
)

IP = {"type": "InnerProduct", "output_dim": 3}


def product(x: Any, parameters: Any, name: str) -> Any:
    return x @ parameters[f"{name}/weight"].T + parameters[f"{name}/bias"]


class TestSequential(Agreement):
    layer = SequentialLayer
    coarse = 1e-4  # of several products, one after the other, the next may subtract nearly all

    def examples(self):
        yield Example({"layer": [IP, "Tanh", {**IP, "name": "last", "output_dim": 2}]}, [(4, 3)], label="a line")
        yield Example({"layer": [{**IP, "neuron": "Tanh"}]}, [(4, 3), (5, 3)], label="one layer for two bottoms")
        yield Example({"layer": [{"type": "Dropout", "ratio": 0.0}, IP]}, [(4, 3)], label="in place at the beginning")
        yield Example({"layer": [IP, {"type": "Dropout", "ratio": 0.0}]}, [(4, 3)], label="in place at the end")
        yield Example({"layer": [{"type": "Dropout", "ratio": 0.0}]}, [(4, 3)], label="in place alone")
        named = [IP, "Tanh", {"type": "ElementWise", "bottoms": ["InnerProduct1", "Tanh1"], "operation": "Multiply"}]
        named[1] = {"type": "Tanh", "name": "Tanh1"}
        yield Example({"layer": named}, [(4, 3)], label="blobs by name")
        nested = {"type": "Sequential", "layer": [IP, {"type": "Sequential", "layer": [IP]}]}
        yield Example({"layer": [nested, "Tanh"]}, [(4, 3)], label="nested")

    def strategy(self):
        sizes = st.lists(st.integers(1, 4), min_size=1, max_size=4)
        layers = sizes.map(lambda some: [{"type": "InnerProduct", "output_dim": one} for one in some])
        return st.builds(lambda layers, rows: Example({"layer": layers}, [(rows, 3)]), layers, st.integers(1, 4))

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            seen: dict[str, Any] = {}
            tops.append(self.through(layer, x, parameters, "", seen))
        return tops

    def through(self, layer, x, parameters, where, seen):
        for one in layer.layer:
            kind = type(one).__name__
            if kind == "InnerProductLayer":
                x = product(x, parameters, f"{where}{one.name}")
                x = np.tanh(x) if type(one.neuron).__name__ == "Tanh" else x
            elif kind == "ActivationLayer":
                x = np.tanh(x)
            elif kind == "ElementWiseLayer":
                x = seen[one.bottoms[0]] * seen[one.bottoms[1]]
            elif kind == "SequentialLayer":
                x = self.through(one, x, parameters, f"{where}{one.name}/", {})
            seen[one.name] = x
        return x


class TestRepeat(Agreement):
    layer = RepeatLayer

    def examples(self):
        yield Example({"times": 3, "layer": [{**IP, "neuron": "Tanh"}]}, [(4, 3)], label="own")
        yield Example({"times": 3, "shared": True, "layer": [{**IP, "neuron": "Tanh"}]}, [(4, 3)], label="shared")
        yield Example({"times": 1, "layer": [IP]}, [(4, 3)], label="once")
        yield Example({"times": 2, "layer": [IP]}, [(4, 3), (2, 3)], label="two bottoms")

    def strategy(self):
        fields = st.fixed_dictionaries(
            {"times": st.integers(1, 4), "shared": st.booleans(), "layer": st.just([{**IP, "neuron": "Tanh"}])}
        )
        return st.builds(lambda fields, rows: Example(fields, [(rows, 3)]), fields, st.integers(1, 4))

    def reference(self, layer, inputs, parameters):
        tops = []
        for x in inputs:
            for number in range(1, layer.times + 1):
                x = product(x, parameters, "InnerProduct1" if layer.shared else f"{number}/InnerProduct1")
                x = np.tanh(x) if type(layer.layer[0].neuron).__name__ == "Tanh" else x
            tops.append(x)
        return tops


class TestResidual(Agreement):
    layer = ResidualLayer

    def examples(self):
        yield Example({"layer": [IP, "Tanh", IP]}, [(4, 3)], tops=1, label="x + block(x)")
        yield Example({"layer": [IP], "neuron": "Tanh"}, [(4, 3)], label="neuron")
        projection = [{"type": "InnerProduct", "output_dim": 5}]
        yield Example({"layer": projection, "projection": projection}, [(4, 3)], label="projection")
        drop = {"type": "Dropout", "ratio": 0.0}
        yield Example({"layer": [drop, IP]}, [(4, 3)], label="in place at the beginning: x stays")

    def strategy(self):
        wide = st.integers(1, 5)
        return st.builds(
            lambda width, rows: Example({"layer": [self.ip(width)], "projection": [self.ip(width)]}, [(rows, 3)]),
            wide,
            st.integers(1, 4),
        )

    @staticmethod
    def ip(width):
        return {"type": "InnerProduct", "output_dim": width}

    def reference(self, layer, inputs, parameters):
        (x,) = inputs
        y = x
        for one in layer.layer:
            kind = type(one).__name__
            y = product(y, parameters, one.name) if kind == "InnerProductLayer" else y
            y = np.tanh(y) if kind == "ActivationLayer" else y
        y = y + (product(x, parameters, "projection/InnerProduct1") if layer.projection else x)
        return [np.tanh(y) if type(layer.neuron).__name__ == "Tanh" else y]


def net_of(layer: Any, *shape: int, **options: Any) -> Net:
    return Net("n", [InputLayer(tops="x", shape=shape or 3, batch_size=2), layer], backend="numpy", **options)


def sequential(*layers: Any, **fields: Any) -> SequentialLayer:
    return SequentialLayer(**{"name": "s", "bottoms": "x", "tops": "y", "layer": layers, **fields})


def test_layers_are_called_by_their_type_and_a_number() -> None:
    layer = sequential(IP, "ReLU", IP, {**IP, "name": "own"}, {**IP, "tops": "t"}, IP)
    assert [one.name for one in layer.layer] == [
        "InnerProduct1",
        "Activation1",
        "InnerProduct2",
        "own",
        "t",
        "InnerProduct5",
    ]
    assert [(one.bottoms, one.tops) for one in layer.layer][-2:] == [(("own",), ("t",)), (("t",), ("y",))]


def test_a_blob_inside_may_have_the_name_of_a_bottom_of_the_container() -> None:
    layer = SequentialLayer(name="s", bottoms="conv", tops="s", layer=[{**IP, "name": "conv"}, {**IP, "name": "s"}, IP])
    source = InputLayer(tops="conv", shape=3, batch_size=2)
    net = Net("n", [source, layer], backend="numpy")
    assert [wire.name for wire in net.wiring.wires] == ["conv", "s/conv_", "s/s_", "s"]


def test_layers_given_as_objects_stay_the_same_objects() -> None:
    ip = InnerProductLayer(name="ip", bottoms="x", tops="z", output_dim=3)
    layer = sequential(ip, "ReLU")
    assert layer.layer[0] is ip
    assert layer.layer[1].bottoms == ("z",)
    assert net_of(layer).parameters["s/ip/weight"].storage is net_of(ip).parameters["ip/weight"].storage


def test_a_container_of_two_bottoms_as_a_siamese_net_has() -> None:
    sources = [InputLayer(name=name, tops=name, shape=3, batch_size=2) for name in "ab"]
    layer = sequential(IP, "ReLU", IP, bottoms=["a", "b"], tops=["p", "q"])
    net = Net("n", [*sources, layer], backend="numpy")
    assert [wire.name for wire in net.wiring.wires][2:4] == ["s/InnerProduct1.1", "s/InnerProduct1.2"]
    for name in "ab":
        net.write(name, np.ones((2, 3)))
    net.forward()
    np.testing.assert_array_equal(net.blob("p"), net.blob("q"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layer": []}, "s: layer=(), but at least 1 must be given"),  # Leaf's Sequential fails on that by underflow
        ({"layer": [{"type": "InnerProduct"}]}, "s/InnerProduct1: output_dim is missing"),
        ({"layer": [IP, {**IP, "name": "b", "output_dim": 0}]}, "s/b: output_dim=0, but it must be above 0"),
        (
            {"layer": [{**IP, "tops": "b", "outputdim": 0}]},
            "s/b: unknown field 'outputdim' (did you mean 'output_dim'?)",
        ),
        ({"layer": [{"type": "InnerProdukt"}]}, "s/layer 1: no layer 'InnerProdukt'"),
        ({"layer": [{"n_filter": 2}]}, "s/layer 1: type is missing"),
        (
            {"layer": [{"type": "Sequential", "layer": [{**IP, "output_dim": 0}]}]},
            "s/Sequential1/InnerProduct1: output",
        ),
        ({"layer": {"type": "ReLU"}}, "s: layer={'type': 'ReLU'}, but it must be a list of layers"),
        ({"layer": [1]}, "s: layer=[1], but it must be a list of layers"),
        ({"layer": [{**IP, "name": "a/b"}]}, "s/a/b: name='a/b', but it must consist of letters"),
    ],
)
def test_mistakes_are_told_when_the_container_is_made(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sequential(**fields)
    assert str(caught.value.args[0]).startswith(message)


def test_all_mistakes_stand_in_one_error() -> None:
    with pytest.raises(ConfigError, match=r"s/InnerProduct1: output_dim=0.*\ns/InnerProduct2: output_dim=-1"):
        sequential({**IP, "output_dim": 0}, {**IP, "output_dim": -1})


def test_a_block_that_changes_the_shape_needs_a_projection() -> None:
    layer = ResidualLayer(name="r", bottoms="x", tops="y", layer=[{**IP, "output_dim": 2}])
    with pytest.raises(ConfigError, match=r"^r/add: bottom 'x' of shape \(2, 3\) does not fit"):
        net_of(layer)


def test_times_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="times=10001, but it must be from 1 to 10,000"):
        RepeatLayer(bottoms="x", tops="y", times=10001, layer=["ReLU"])
    monkeypatch.setattr(containers, "MOST", 1000)
    many = RepeatLayer(bottoms="x", tops="y", times=40, layer=[{"type": "Repeat", "times": 40, "layer": ["ReLU"]}])
    with pytest.raises(ConfigError, match="more than 1,000 layers"):
        net_of(many, allocate=False)


def test_repetitions_with_shared_parameters_add_their_gradients_up() -> None:
    layer = RepeatLayer(name="r", bottoms="x", tops="y", times=3, shared=True, layer=[{**IP, "name": "ip"}])
    net = net_of(layer)
    assert list(net.parameters) == ["r/ip/weight", "r/ip/bias"]
    assert [len(slot.uses) for slot in net.slots] == [3, 3]
    assert set(names_in([layer])) == {"r", "r/ip", *(f"r/{number}{end}" for number in (1, 2, 3) for end in ("", "/ip"))}


def test_repetitions_with_own_parameters_of_layers_given_as_objects_are_copies() -> None:
    inner = SequentialLayer(bottoms="x", tops="z", layer=[IP])
    layer = RepeatLayer(name="r", bottoms="x", tops="y", times=2, layer=[inner, {**IP, "bottoms": "z"}])
    net = net_of(layer)
    assert len({id(handle.storage) for handle in net.parameters.values()}) == 8
    assert "r/2/z/InnerProduct1/weight" in net.parameters


def test_a_key_in_a_repetition_is_its_own() -> None:
    pair = [{**IP, "param_key": "k"}, {**IP, "param_key": "k"}]
    net = net_of(RepeatLayer(name="r", bottoms="x", tops="y", times=2, layer=pair))
    assert [name for name in net.parameters if name.endswith("weight")] == [
        "r/1/InnerProduct1/weight",
        "r/2/InnerProduct1/weight",
    ]
    shared = net_of(RepeatLayer(name="r", bottoms="x", tops="y", times=2, shared=True, layer=pair))
    assert [name for name in shared.parameters if name.endswith("weight")] == ["r/InnerProduct1/weight"]


def test_a_copy_of_nested_containers_is_the_same_net() -> None:
    block = [{"type": "Dropout", "ratio": 0.25}, {"type": "Residual", "layer": [IP, {"type": "Dropout"}]}]
    layer = sequential({"type": "Repeat", "times": 2, "layer": block}, {"type": "Dropout"})
    one, other = net_of(layer), net_of(fresh(layer))
    assert list(one.node_ops) == list(other.node_ops)
    one.write("x", np.ones((2, 3)))
    other.write("x", np.ones((2, 3)))
    assert one.forward() == other.forward()
    np.testing.assert_array_equal(one.blob("y"), other.blob("y"))


def test_a_convolution_in_python() -> None:
    conv = ConvolutionLayer(name="c", bottoms="x", tops="c", n_filter=2, kernel=1)
    add = ElementWiseLayer(name="a", bottoms=["c", "x"], tops="y")
    net = net_of(sequential(conv, add), 2, 4, 4)
    assert net.memory.final["y"].shape == (2, 2, 4, 4)


DROP = {"type": "Dropout", "ratio": 0.5}


@pytest.mark.parametrize("kind", [SequentialLayer, ResidualLayer])
@pytest.mark.parametrize("layers", [[DROP, IP], [IP, DROP], [IP, DROP, IP], [DROP], [DROP, DROP]], ids=repr)
def test_a_layer_in_place_may_exclude_a_phase_wherever_it_stands(kind: Any, layers: Any) -> None:
    def made(**fields: Any) -> Any:
        tables = [{**one, **fields} if one is DROP else one for one in layers]
        return kind(name="a", bottoms="x", tops="y", layer=tables)

    x, dy = np.random.default_rng(0).normal(size=(2, 50, 3)).astype(np.float32)
    for phase in ("validation", "test", "predict"):
        without = made(exclude=["validation", "test", "predict"]).at_work("numpy", x, phase=phase)
        np.testing.assert_array_equal(without.forward(), made().at_work("numpy", x, phase=phase).forward())
    drops = made(exclude=["predict"]).at_work("numpy", x)
    same = made().at_work("numpy", x)
    np.testing.assert_array_equal(drops.forward(), same.forward())
    np.testing.assert_array_equal(drops.backward(dy), same.backward(dy))
    absent = made(exclude=["train"]).at_work("numpy", x)
    unchanged = made(ratio=0.0).at_work("numpy", x)
    np.testing.assert_array_equal(absent.forward(), unchanged.forward())
    np.testing.assert_array_equal(absent.backward(dy), unchanged.backward(dy))


def test_what_stands_for_a_layer_in_place_is_no_layer_of_the_container() -> None:
    drop = {**DROP, "exclude": ["predict"]}
    layer = SequentialLayer(name="a", bottoms="x", tops="y", layer=[{**IP, "name": "ip"}, drop])
    assert [one.name for one in layer.layer] == ["ip", "Dropout1"]
    assert [one["type"] for one in table_of(layer)["layer"]] == ["InnerProduct", "Dropout"]
