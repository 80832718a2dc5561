"""Algorithms: how they rewrite a net's graph, and what they keep from batch to batch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import AlgorithmState, ConfigError, Graph, Net, Solver, TopologyError
from nacre.config import load
from nacre_solvers import BP, BPTT, SGD
from small_layers import AddLayer, MatrixLayer, SquareLossLayer, check_gradients, data, fill


class HiddenLayer(MatrixLayer):
    """A layer in a circle: it reads what reads it."""

    needs_algorithm = "Rounds"


class Rounds(BP):
    """Takes the circle of `v` and `h` apart: v0 → h0 → v1 → h1 ..., of which the last are called `v` and `h`."""

    count: int = 3

    def rewrite(self, graph: Graph, phase: str) -> Graph:
        nodes = {node.name: node for node in graph.nodes}
        if not {"v", "h"} <= nodes.keys():
            return graph
        visible, hidden = nodes.pop("v"), nodes.pop("h")
        rounds, below = [], ["data"]
        for number in range(self.count):
            end = "" if number + 1 == self.count else str(number)
            v, h = f"v{end}", f"h{end}"
            rounds += [visible.again(v, below, [v]), hidden.again(h, [v], [h])]
            below = ["data", h]
        return graph.with_nodes([*nodes.values(), *rounds])

    def start(self, net: Net) -> RoundsState:
        return RoundsState(self, net)


class RoundsState(AlgorithmState):
    """Counts the batches."""

    batches = 0

    def train_one_batch(self) -> list[Any]:
        from nacre import Step

        return [*super().train_one_batch(), Step("count", "rounds", self.count)]

    def count(self) -> None:
        self.batches += 1

    def memory(self) -> Mapping[str, Any]:
        return {"batches": self.batches}

    def remember(self, memory: Mapping[str, Any]) -> str:
        self.batches = int(memory["batches"])
        return f"{self.batches} batches so far"


def circle() -> list[Any]:
    visible = AddLayer(name="v", bottoms=["data", "h"], tops="v")
    return [data(3), visible, HiddenLayer(name="h", bottoms="v", tops="h", width=3), SquareLossLayer(bottoms="h")]


def net_of(layers: list[Any], **options: Any) -> Net:
    net = Net("net", layers, **{"backend": "numpy", "dtype": "float64"} | options)
    fill(net)
    return net


def test_a_circle_is_an_error_that_names_the_algorithm() -> None:
    with pytest.raises(TopologyError, match=r"'v', 'h' wait for each other's blobs") as caught:
        net_of(circle())
    assert caught.value.remedy == 'write algorithm = "Rounds" in [solver], or Net(..., algorithm="Rounds")'
    with pytest.raises(TopologyError) as caught:
        net_of([MatrixLayer(name=one, bottoms=other, tops=one, width=3) for one, other in ("ab", "ba")])
    assert caught.value.remedy == "let 'a' read another blob than 'b'"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_an_algorithm_takes_a_circle_apart(count: int) -> None:
    net = net_of(circle(), algorithm=Rounds(count=count))
    assert list(net.parameters) == ["h/W"]
    net.forward()
    x, W = net.blob("data"), net.parameters["h/W"].value
    h = x @ W
    for _ in range(count - 1):
        h = (x + h) @ W
    np.testing.assert_allclose(net.blob("h"), h, rtol=1e-12)
    check_gradients(net)


def test_derived_nets_and_predictions_are_rewritten_too() -> None:
    net = net_of(circle(), algorithm=Rounds(count=2))
    net.forward()
    x = net.blob("data")
    np.testing.assert_allclose(net.predict(x, "h"), net.blob("h"), rtol=1e-12)
    assert "h0" in net.derive("validation").layers_in("validation")


def test_the_state_of_an_algorithm_is_in_snapshots() -> None:
    algorithm = Rounds(count=2)
    solver = Solver(SGD(), algorithm=algorithm, max_iter=9)
    with solver.start(net_of(circle(), algorithm=algorithm)) as training:
        for _ in range(3):
            training.step()
        snapshot = training.snapshot()
    said: list[str] = []
    layers = circle()
    with solver.start(net_of(layers, algorithm=algorithm), [lambda _, told: said.append(told["message"])]) as again:
        again.restore(snapshot)
        again.step()
        assert again.algorithm.memory() == {"batches": 4}
    assert said == ["3 batches so far"]


@pytest.mark.parametrize("nets", [None, "BP", Rounds(count=2)])
def test_net_and_solver_must_have_one_algorithm_that_rewrites(nets: Any) -> None:
    layers = [data(3), MatrixLayer(name="ip", bottoms="data", tops="y", width=3), SquareLossLayer(bottoms="y")]
    with pytest.raises(ConfigError, match="but the solver trains with Rounds") as caught:
        Solver(SGD(), algorithm=Rounds()).start(net_of(layers, algorithm=nets))
    assert "give both the same" in caught.value.remedy
    if isinstance(nets, Rounds):
        with pytest.raises(ConfigError, match="for the algorithm Rounds, but the solver trains with BP"):
            Solver(SGD()).start(net_of(layers, algorithm=nets))


def test_what_is_no_algorithm() -> None:
    with pytest.raises(ConfigError, match="net 'net': algorithm=3, but it must be an algorithm"):
        net_of(circle(), algorithm=3)
    with pytest.raises(ConfigError, match=r"no algorithm 'BPT'.*BPTT"):
        net_of(circle(), algorithm="BPT")


TEXT = """
[[layer]]
type = "Input"
tops = ["x"]
shape = [4, 3]
batch_size = 2

[[layer]]
type = "Input"
tops = ["wanted"]
shape = [4, 2]
batch_size = 2

[[layer]]
type = "Unroll"
bottoms = ["x"]
tops = ["h"]
steps = 4
connections = [{ type = "OneToOne", name = "before", blob = "h", shape = [2] }]
layer = [
    { type = "Concat", bottoms = ["x", "before"] },
    { type = "InnerProduct", output_dim = 2, neuron = "Tanh" },
]

[[layer]]
type = "SquareLoss"
bottoms = ["h", "wanted"]

[solver]
type = "SGD"
max_iter = 3
algorithm = "BPTT"
"""


def test_a_net_file_gives_its_nets_the_algorithm_of_the_solver(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(TEXT)
    read = load(file)
    net = read.net(backend="numpy")
    assert type(net.algorithm) is BPTT
    fill(net)
    assert read.solver().solve(net).iteration == 3
    assert read.net("test", backend="numpy", algorithm=None).algorithm is None
    file.write_text(TEXT.replace('algorithm = "BPTT"', ""))
    assert load(file).net(backend="numpy").algorithm is None
