"""Unroll: layers repeated over the steps of sequences, and the connections between steps."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net, Solver, TopologyError
from nacre.config import dumps, load
from nacre.testing import Example
from nacre_layers import (
    Customised,
    EmbeddingLayer,
    FirstToLast,
    GRULayer,
    OneToAll,
    OneToOne,
    SquareLossLayer,
    SumLossLayer,
    UnrollLayer,
)
from nacre_layers.containers.connections import Connection
from nacre_onednn.backend import OnednnBackend
from nacre_solvers import SGD, Snapshot

H = 2
BEFORE = {"type": "OneToOne", "name": "before", "blob": "y", "shape": [H]}


def ip(bottoms: Any = None, **fields: Any) -> dict[str, Any]:
    table = {"type": "InnerProduct", "output_dim": H, "neuron": "Tanh"} | fields
    return table if bottoms is None else {**table, "bottoms": bottoms}


def add(*bottoms: str, **fields: Any) -> dict[str, Any]:
    return {"type": "ElementWise", "bottoms": list(bottoms), "operation": "Add"} | fields


CELL = [ip("x", name="in"), ip("before", name="back"), add("in", "back")]


class TestUnroll(Agreement):
    """y_t = tanh(W x_t + b) + tanh(V before + c), with whatever the connection `before` brings."""

    layer = UnrollLayer

    def examples(self):
        fields = {"bottoms": "x", "tops": "y", "steps": 3, "layer": CELL}
        yield Example({**fields, "connections": [BEFORE]}, [(2, 3, 4)], tops=1, label="the step before")
        yield Example({**fields, "connections": [{**BEFORE, "shift": 2}]}, [(2, 3, 4)], label="two steps before")
        backwards = {**BEFORE, "shift": -1}
        yield Example({**fields, "connections": [backwards]}, [(2, 3, 4)], label="from the end to the beginning")
        yield Example({**fields, "steps": 1, "connections": [BEFORE]}, [(2, 1, 4)], label="one step")
        jump = {"type": "Customised", "name": "before", "blob": "y", "shape": [H], "sources": [0, 1, 1]}
        yield Example({**fields, "connections": [jump]}, [(2, 3, 4)], label="customised")

    def strategy(self):
        def build(rows, steps, width, shift):
            fields = {"bottoms": "x", "tops": "y", "layer": CELL, "connections": [{**BEFORE, "shift": shift}]}
            return Example({**fields, "steps": steps}, [(rows, steps, width)])

        few = st.integers(1, 4)
        return st.builds(build, few, st.integers(1, 6), few, st.integers(-6, 6).filter(bool))

    def reference(self, layer, inputs, parameters):
        (x,) = inputs
        one = layer.connections[0]
        y: dict[int, Any] = {}
        while len(y) < layer.steps:
            for step in range(1, layer.steps + 1):
                source = one.source(step, layer.steps)
                if 0 < source <= layer.steps and source not in y:
                    continue
                before = y.get(source, np.zeros((len(x), H)))
                new = np.tanh(x[:, step - 1] @ parameters["in/weight"].T + parameters["in/bias"])
                y[step] = new + np.tanh(before @ parameters["back/weight"].T + parameters["back/bias"])
        return [np.stack([y[step] for step in range(1, layer.steps + 1)], 1)]


def unroll(steps: int = 3, layer: Any = CELL, **fields: Any) -> UnrollLayer:
    given = {"name": "u", "bottoms": "x", "tops": "y", "connections": [BEFORE]} | fields
    return UnrollLayer(steps=steps, layer=layer, **given)


def at_work(layer: UnrollLayer, *arrays: Any, **options: Any) -> Any:
    return layer.at_work("numpy", *arrays, dtype="float64", **options)


def random(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape)


# Connections


def test_every_step_reads_all_steps() -> None:
    layers = [ip("x", name="e"), {"type": "Flatten", "name": "flat", "bottoms": "all"}, ip(name="out")]
    layer = unroll(layer=layers, connections=[OneToAll(name="all", blob="e")])
    work, x = at_work(layer, random(2, 3, 4)), random(2, 3, 4)
    y = work.forward(x)
    p = {name: handle.value for name, handle in work.parameters.items()}
    e = np.tanh(x @ p["u/e/weight"].T + p["u/e/bias"]).reshape(2, 6)
    expected = np.tanh(e @ p["u/out/weight"].T + p["u/out/bias"])
    for step in range(3):
        np.testing.assert_allclose(y[:, step], expected, rtol=1e-12)
    assert "u/all.0" in work.net.layers_in("train")  # one Stack for all steps
    assert "u/all.1" not in work.net.layers_in("train")


def test_the_first_step_reads_the_last_of_other_layers() -> None:
    """An encoder's last step is the decoder's first state."""
    connections = [
        FirstToLast(name="code", blob="e"),
        OneToOne(name="e_before", blob="e", shape=[H]),
        OneToOne(name="before", blob="y", initial="code"),
    ]
    encoder = [ip("x", name="xe", neuron="Identity"), add("xe", "e_before", name="e", neuron="Tanh")]
    layer = unroll(layer=[*encoder, ip("before", name="back")], connections=connections)
    work, x = at_work(layer, random(2, 3, 4)), random(2, 3, 4)
    y = work.forward(x)
    p = {name: handle.value for name, handle in work.parameters.items()}
    e = np.zeros((2, H))
    for step in range(3):
        e = np.tanh(x[:, step] @ p["u/xe/weight"].T + p["u/xe/bias"] + e)
    for step in range(3):
        e = np.tanh(e @ p["u/back/weight"].T + p["u/back/bias"])
        np.testing.assert_allclose(y[:, step], e, rtol=1e-12)


def test_a_list_has_the_steps_that_each_step_reads() -> None:
    lists = Customised(name="some", blob="e", sources=[[1, 2], [3, 3], [2, 1]])
    layer = unroll(layer=[ip("x", name="e"), {"type": "Flatten", "bottoms": "some"}], connections=[lists])
    work, x = at_work(layer, random(2, 3, 4)), random(2, 3, 4)
    y = work.forward(x)
    p = {name: handle.value for name, handle in work.parameters.items()}
    e = np.tanh(x @ p["u/e/weight"].T + p["u/e/bias"])
    for step, sources in enumerate(lists.sources):
        expected = np.concatenate([e[:, source - 1] for source in sources], axis=1)
        np.testing.assert_allclose(y[:, step], expected, rtol=1e-12)


def test_a_bottom_may_be_shifted_too() -> None:
    """As labels that are the next character."""
    ahead = OneToOne(name="next", blob="x", shift=-1, shape=[4])
    layer = unroll(layer=[{"type": "Concat", "bottoms": ["x", "next"]}], connections=[ahead])
    x = random(2, 3, 4)
    y = at_work(layer, x).forward(x)
    np.testing.assert_array_equal(y[:, :2], np.concatenate([x[:, :2], x[:, 1:]], axis=2))
    np.testing.assert_array_equal(y[:, 2], np.concatenate([x[:, 2], np.zeros((2, 4))], axis=1))


def test_connections_of_a_third_party() -> None:
    class EveryOther(Connection):
        """Reads the step two before, or the first."""

        def source(self, step: int, steps: int) -> int:
            return max(step - 2, 1) if step > 1 else 0

    layer = unroll(connections=[EveryOther(name="before", blob="y", shape=[H])])
    same = unroll(connections=[Customised(name="before", blob="y", shape=[H], sources=[0, 1, 1])])
    x = random(2, 3, 4)
    np.testing.assert_array_equal(at_work(layer, x).forward(x), at_work(same, x).forward(x))


def test_first_values_from_a_bottom_and_the_last_step_alone() -> None:
    before = OneToOne(name="before", blob="y", initial="h0")
    layer, whole = unroll(bottoms=["x", "h0"], connections=[before], last="y"), unroll()
    x, zeros = random(2, 3, 4), np.zeros((2, H))
    works = at_work(layer, x, zeros), at_work(whole, x)
    y = works[1].forward(x)
    np.testing.assert_array_equal(works[0].forward(x, zeros), y[:, -1])
    dx, dh0 = works[0].backward(np.ones((2, H)))
    outside = np.zeros_like(y)
    outside[:, -1] = 1
    np.testing.assert_array_equal(dx, works[1].backward(outside))
    assert np.abs(dh0).min() > 0


def test_what_every_step_reads_whole() -> None:
    layer = unroll(bottoms=["x", "context"], whole="context", layer=[add("x", "context")], connections=[])
    x, context = random(2, 3, 4), random(2, 4)
    y = at_work(layer, x, context).forward(x, context)
    np.testing.assert_array_equal(y, x + context[:, None])


# Names


def net_of(layer: Any, batch: int = 2, steps: int = 0, **options: Any) -> Net:
    steps = steps or layer.steps
    x = InputLayer(tops="x", shape=(steps, 4), batch_size=batch)
    wanted = InputLayer(tops="wanted", shape=(steps, H), batch_size=batch)
    layers = [x, wanted, layer, SquareLossLayer(name="loss", bottoms=["y", "wanted"])]
    return Net("n", layers, **{"backend": "numpy", "dtype": "float64"} | options)


def test_parameters_have_no_step_in_their_names_and_random_numbers_have() -> None:
    net = net_of(unroll(layer=[*CELL, {"type": "Dropout", "name": "drop"}]))
    assert sorted(net.parameters) == ["u/back/bias", "u/back/weight", "u/in/bias", "u/in/weight"]
    x = np.tile(random(2, 1, 4), (1, 3, 1))
    net.write("x", x)
    net.write("wanted", np.zeros((2, 3, H)))
    net.forward()
    masks = [net.node_ops[f"u/{step}/drop"].state.intermediates[0] for step in (1, 2, 3)]
    assert not all(np.array_equal(mask, masks[0]) for mask in masks)


def test_other_numbers_of_steps_share_and_load_the_parameters(tmp_path: Any) -> None:
    net = net_of(unroll(steps=2))
    other = net_of(unroll(steps=5), share=net)
    assert other.parameters["u/in/weight"].storage is net.parameters["u/in/weight"].storage
    net.write("x", random(2, 2, 4))
    net.write("wanted", random(2, 2, H))
    snapshot = Snapshot(folder=str(tmp_path / "run"), every_n_iter=1)
    training = Solver(SGD(), max_iter=2, lr_policy=0.1, callbacks=[snapshot]).solve(net)
    loaded = net_of(unroll(steps=5))
    loaded.load(training.snapshot_path)
    for name, handle in net.parameters.items():
        np.testing.assert_array_equal(loaded.parameters[name].value, handle.value)


def test_layers_are_frozen_and_excluded_by_the_name_without_the_step() -> None:
    net = net_of(unroll(), freeze=["u/in"])
    assert sorted(slot.name for slot in net.slots if slot.frozen) == ["u/in/bias", "u/in/weight"]
    drop = {"type": "Dropout", "name": "drop", "exclude": ["test"]}
    layer = unroll(layer=[*CELL[:2], drop, add("in", "back")])
    assert "u/2/drop" in net_of(layer).layers_in("train")
    assert "u/2/drop" not in net_of(layer).layers_in("test")


def test_a_net_file_keeps_it(tmp_path: Any) -> None:
    net = net_of(unroll(connections=[OneToOne(name="before", blob="y", shape=[H], shift=2)]), dtype="float32")
    (tmp_path / "net.toml").write_text(dumps(net))
    layer = load(tmp_path / "net.toml").layers[2]
    assert isinstance(layer, UnrollLayer)
    assert (layer.connections[0].shift, layer.connections[0].shape) == (2, (H,))
    assert [one.name for one in layer.layer] == ["in", "back", "ElementWise1"]


def test_a_blob_that_only_the_next_step_reads_ends_with_the_last_step() -> None:
    """The last step's state reaches no loss, which is no mistake here."""
    layers = [ip("x", name="state"), add("state", "before", name="y")]
    net = net_of(unroll(layer=layers, connections=[OneToOne(name="before", blob="state", shape=[H])]))
    assert net.trains


@pytest.mark.parametrize(
    ("connection", "reads"),
    [
        ({"type": "OneToOne", "name": "prev", "blob": "e", "shape": [3]}, [0, 1, 2, 3]),
        ({"type": "OneToOne", "name": "prev", "blob": "e", "shape": [3], "shift": -1}, [2, 3, 4, 0]),
        ({"type": "Customised", "name": "prev", "blob": "e", "sources": [2, 2, 4, 2]}, [2, 2, 4, 2]),
    ],
)
def test_steps_of_a_bottom_that_nothing_reads_have_no_gradient(connection: dict[str, Any], reads: list[int]) -> None:
    """As in teacher forcing: a decoder reads the word before, and nothing reads the last one."""
    layers = [
        InputLayer(name="in", tops=["words"], shape=(4,), batch_size=2, dtype="int64"),
        EmbeddingLayer(name="emb", bottoms=["words"], tops=["e"], input_dim=8, output_dim=3),
        unroll(
            bottoms="e", steps=4, connections=[connection], layer=[ip("prev", name="ip", tops=["y"], neuron="Identity")]
        ),
        SumLossLayer(name="loss", bottoms=["y"]),
    ]
    net = Net("net", layers, backend="numpy", dtype="float64", insert_splits=True)
    net.write("words", np.arange(8).reshape(2, 4))
    net.forward()
    net.backward()
    each = net.parameters["u/ip/weight"].value.sum(axis=0)
    expected = np.array([each * reads.count(word % 4 + 1) for word in range(8)])
    np.testing.assert_allclose(net.parameters["emb/weight"].gradient, expected, rtol=1e-12)


# Errors


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "u: steps=0, but it must be from 1 to 10,000"),
        ({"last": "z"}, "u: last has 'z', but the tops are y"),
        ({"whole": "y"}, "u: whole has 'y', but the bottoms are x"),
        ({"connections": [{**BEFORE, "blob": "z"}]}, "u: connection 'before': blob='z', but there is no such blob"),
        (
            {"connections": [{**BEFORE, "initial": "z"}]},
            "u: connection 'before': initial='z', but there is no",
        ),
        ({"connections": [BEFORE, {**BEFORE, "name": "x"}]}, "u: connection 'x': another blob has this name"),
        ({"connections": [BEFORE, BEFORE]}, "u: connection 'before': another blob has this name"),
        ({"connections": [BEFORE, {**BEFORE, "name": "z"}]}, "u: connection 'z', but no layer reads it"),
        ({"connections": BEFORE}, "u: connections=.*a list of connections"),
        ({"connections": [{**BEFORE, "type": "OneToOn"}]}, "no connection 'OneToOn' .*OneToOne"),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        unroll(**fields)


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        ({"type": "OneToOne", "shape": []}, "connection 'before' has nothing to read at step 1 .*`shape`"),
        ({"type": "FirstToLast", "initial": "before"}, "connection 'before' is its own initial"),
        ({"type": "Customised", "sources": [0, 1]}, r"reads steps that do not exist at step 3: \(\)"),
        ({"type": "Customised", "sources": [0, 1, [1, 4]]}, r"do not exist at step 3: \(1, 4\)"),
    ],
)
def test_bad_connections(connection: dict[str, Any], message: str) -> None:
    layer = unroll(connections=[{"name": "before", "blob": "y", "shape": [H]} | connection])
    if connection.get("initial"):
        layer = unroll(connections=[{"name": "before", "blob": "y"} | connection])
    with pytest.raises(ConfigError) as caught:
        net_of(layer)
    assert re.search(message, f"{caught.value.args[0]} {caught.value.remedy}")


def test_a_sequence_of_another_length() -> None:
    with pytest.raises(
        ConfigError, match=r"u/x.steps: axis 1 of bottom 'x' of shape \(2, 5, 4\) has the length 5"
    ) as caught:
        at_work(unroll(), random(2, 5, 4))
    assert "steps = 5" in caught.value.remedy


def test_a_step_that_reads_itself_is_a_cycle() -> None:
    with pytest.raises(TopologyError, match="wait for each other's blobs"):
        net_of(unroll(connections=[{**BEFORE, "shift": 0}]))


def test_a_layer_in_place_on_a_connection_is_refused() -> None:
    drop = {"type": "Dropout", "name": "drop", "bottoms": "before"}
    with pytest.raises(ConfigError, match="it would change 'before' in place"):
        net_of(unroll(layer=[*CELL[:1], drop, *CELL[1:]]))


# A GRU written out of simple layers, against a loop


def times(*bottoms: str, **fields: Any) -> dict[str, Any]:
    return add(*bottoms, **{"operation": "Multiply"} | fields)


def product(bottom: str, name: str, **fields: Any) -> dict[str, Any]:
    return ip(bottom, **{"name": name, "neuron": "Identity", "bias": name[0] == "x"} | fields)


GRU = [
    *(product("x", f"x{gate}") for gate in "zrc"),
    *(product("h", f"h{gate}") for gate in "zrc"),
    add("xz", "hz", name="z", neuron="Sigmoid"),
    add("xr", "hr", name="r", neuron="Sigmoid"),
    times("r", "hc", name="rhc"),
    add("xc", "rhc", name="c", neuron="Tanh"),
    add("h", "c", name="h-c", operation="Subtract"),
    times("h-c", "z", name="kept"),
    add("kept", "c"),
]
STATE = OneToOne(name="h", blob="y", shape=[H])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gru(x: Any, p: dict[str, Any], dy: Any = None) -> tuple[Any, dict[str, Any]]:
    """Run a GRU, by SINGA's formulas, in a loop, forward and backward; return its states and the gradients."""
    h, kept, ys = np.zeros((len(x), H)), [], []
    for step in range(x.shape[1]):
        xz, xr, xc = (x[:, step] @ p[f"x{gate}/weight"].T + p[f"x{gate}/bias"] for gate in "zrc")
        hz, hr, hc = (h @ p[f"h{gate}/weight"].T for gate in "zrc")
        z, r = sigmoid(xz + hz), sigmoid(xr + hr)
        c = np.tanh(xc + r * hc)
        kept.append((h, z, r, c, hc))
        h = (h - c) * z + c
        ys.append(h)
    gradients = {name: np.zeros_like(value) for name, value in p.items()}
    dh = np.zeros_like(h)
    dx = np.zeros_like(x)
    for step in reversed(range(x.shape[1] if dy is not None else 0)):
        h, z, r, c, hc = kept[step]
        dh = dh + dy[:, step]
        dc = dh * (1 - z) * (1 - c * c)
        parts = {"z": dh * (h - c) * z * (1 - z), "r": dc * hc * r * (1 - r), "c": dc}
        dh = dh * z
        for gate, part in parts.items():
            back = part * r if gate == "c" else part
            gradients[f"x{gate}/weight"] += part.T @ x[:, step]
            gradients[f"x{gate}/bias"] += part.sum(0)
            gradients[f"h{gate}/weight"] += back.T @ h
            dx[:, step] += part @ p[f"x{gate}/weight"]
            dh = dh + back @ p[f"h{gate}/weight"]
    return np.stack(ys, 1), gradients | {"x": dx}


def test_a_gru_of_layers_is_a_gru_in_a_loop() -> None:
    x, dy = random(3, 7, 4), random(3, 7, H)
    work = at_work(unroll(steps=7, layer=GRU, connections=[STATE]), x)
    p = {name.removeprefix("u/"): handle.value for name, handle in work.parameters.items()}
    y, gradients = gru(x, p, dy)
    np.testing.assert_allclose(work.forward(x), y, rtol=0, atol=1e-10)
    np.testing.assert_allclose(work.backward(dy), gradients.pop("x"), rtol=0, atol=1e-10)
    assert gradients.keys() == p.keys()
    for name, gradient in gradients.items():
        np.testing.assert_allclose(work.parameters[f"u/{name}"].gradient, gradient, rtol=0, atol=1e-10)


def test_a_gru_of_layers_trains_as_one_in_a_loop() -> None:
    x, wanted = random(3, 7, 4), random(3, 7, H)
    net = net_of(unroll(steps=7, layer=GRU, connections=[STATE]), batch=3)
    p = {name.removeprefix("u/"): handle.value for name, handle in net.parameters.items()}
    net.write("x", x)
    net.write("wanted", wanted)
    training = Solver(SGD(), lr_policy=0.1).start(net)
    for _ in range(20):
        y, _ = gru(x, p)
        _, gradients = gru(x, p, (y - wanted) / len(x))
        p = {name: value - 0.1 * gradients[name] for name, value in p.items()}
        training.step()
    for name, value in p.items():
        np.testing.assert_allclose(net.parameters[f"u/{name}"].value, value, rtol=0, atol=1e-10)


def test_the_golden_numbers_of_singas_gru() -> None:
    one = [{**table, "output_dim": 1} if table["type"] == "InnerProduct" else table for table in GRU]
    layer = unroll(steps=1, layer=one, bottoms=["x", "h0"], connections=[OneToOne(name="h", blob="y", initial="h0")])
    work = at_work(layer, np.array([[[1.0, -1.0]]]), np.array([[0.5]]))
    given = {"xz": [[0.1, 0.2]], "xr": [[0.3, -0.1]], "xc": [[-0.2, 0.4]], "hz": [[0.5]], "hr": [[0.6]], "hc": [[0.7]]}
    for name, value in given.items():
        work.parameters[f"u/{name}/weight"].value = np.array(value)
    assert work.forward(np.array([[[1.0, -1.0]]]), np.array([[0.5]])) == pytest.approx(0.10653515, abs=1e-8)


@pytest.mark.skipif(OnednnBackend.unusable() is not None, reason="oneDNN cannot be used here")
def test_onednn_agrees() -> None:
    x, dy = random(3, 7, 4), random(3, 7, H)
    layer = unroll(steps=7, layer=GRU, connections=[STATE])
    works = [layer.at_work(name, x) for name in ("numpy", "onednn")]
    np.testing.assert_allclose(*[work.forward(x) for work in works], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(*[work.backward(dy) for work in works], rtol=1e-4, atol=1e-5)


def gru_layer(p: Any, layer: GRULayer) -> dict[str, Any]:
    """Return the layer's parameters, made of those of the layers of the unrolled GRU."""
    weights = {"weight_ih_l0": "x{}/weight", "weight_hh_l0": "h{}/weight", "bias_ih_l0": "x{}/bias"}
    return {f"{layer.name}/{one}": np.concatenate([p(f"u/{name.format(gate)}") for gate in "rzc"])
            for one, name in weights.items()}  # fmt: skip


def test_a_gru_of_layers_is_the_gru_layer() -> None:
    x, dy = random(3, 7, 4), random(3, 7, H)
    layer = GRULayer(name="gru", bottoms="x", tops="y", output_dim=H, hidden_bias=False)
    works = at_work(unroll(steps=7, layer=GRU, connections=[STATE]), x), at_work(layer, x)
    for name, value in gru_layer(lambda name: works[0].parameters[name].value, layer).items():
        works[1].parameters[name].value = value
    np.testing.assert_allclose(*[work.forward(x) for work in works], rtol=0, atol=1e-10)
    np.testing.assert_allclose(*[work.backward(dy) for work in works], rtol=0, atol=1e-10)
    for name, value in gru_layer(lambda name: works[0].parameters[name].gradient, layer).items():
        np.testing.assert_allclose(works[1].parameters[name].gradient, value, rtol=0, atol=1e-10)


def test_a_gru_of_layers_trains_as_the_gru_layer() -> None:
    layer = GRULayer(name="gru", bottoms="x", tops="y", output_dim=H, hidden_bias=False)
    nets = net_of(unroll(steps=7, layer=GRU, connections=[STATE]), batch=3, steps=7), net_of(layer, batch=3, steps=7)
    for name, value in gru_layer(lambda name: nets[0].parameters[name].value, layer).items():
        nets[1].parameters[name].value = value
    for net in nets:
        net.write("x", random(3, 7, 4))
        net.write("wanted", random(3, 7, H))
        training = Solver(SGD(), lr_policy=0.1, momentum_policy=0.9).start(net)
        for _ in range(20):
            training.step()
    for name, value in gru_layer(lambda name: nets[0].parameters[name].value, layer).items():
        np.testing.assert_allclose(nets[1].parameters[name].value, value, rtol=0, atol=1e-10)
