"""What a net of many layers costs, to be made and to be used: calls by the number of its layers, not by its square."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from cProfile import Profile
from dataclasses import dataclass
from itertools import pairwise, permutations
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import InputLayer, Layer, Net, Solver
from nacre.cli.commands.explain import explain
from nacre.config import dumps, load
from nacre.engine.arena import lay_out, most_at_once, sharers
from nacre_commands.drawing import dot, svg
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.elementwise.element_wise import Add, ElementWiseLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.neurons import ReLU, Sigmoid
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.regularizers import L2
from nacre_layers.shapes.concat import ConcatLayer
from nacre_solvers import SGD, Snapshot

MOST = 2.2
"""How many times the calls twice as many layers may make."""

# Nets


def inputs(*shape: int) -> list[Layer]:
    return [InputLayer(name=name, tops=name, shape=shape, batch_size=2) for name in ("data", "label")]


def ip(name: str, bottom: str, **fields: Any) -> Layer:
    return InnerProductLayer(name=name, bottoms=bottom, tops=name, output_dim=3, **fields)


def loss(bottom: str) -> Layer:
    return SquareLossLayer(name="loss", bottoms=[bottom, "label"])


def chain(count: int, **fields: Any) -> list[Layer]:
    """Make layers of which each reads the one below."""
    names = ["data", *(f"ip{number}" for number in range(count))]
    return [*inputs(3), *(ip(name, below, **fields) for below, name in pairwise(names)), loss(names[-1])]


def residual(count: int) -> list[Layer]:
    """Make blocks of a layer whose top is added to its bottom."""
    layers, top = inputs(3), "data"
    for number in range(count // 2):
        name = f"sum{number}"
        layers.append(ip(f"ip{number}", top, neuron=ReLU()))
        layers.append(ElementWiseLayer(name=name, bottoms=[f"ip{number}", top], tops=name, operation=Add()))
        top = name
    return [*layers, loss(top)]


def images(count: int) -> list[Layer]:
    """Make convolutions with BatchNorm behind them."""
    layers, top = inputs(2, 4, 4), "data"
    for number in range(count // 2):
        below, middle, top = top, f"c{number}", f"b{number}"
        convolution = {"n_filter": 2, "kernel": 3, "pad": 1, "bias": False}
        layers.append(ConvolutionLayer(name=middle, bottoms=below, tops=middle, **convolution))
        layers.append(BatchNormLayer(name=top, bottoms=middle, tops=top, neuron=ReLU()))
    return [*layers, loss(top)]


def in_place(count: int) -> list[Layer]:
    """Make layers in place, all on one blob."""
    drops = [DropoutLayer(name=f"drop{number}", bottoms="ip", ratio=0.1) for number in range(count)]
    return [*inputs(3), ip("ip", "data"), *drops, ip("last", "ip"), loss("last")]


def in_place_neurons(count: int) -> list[Layer]:
    """Make a chain with a neuron, which no kernel applies, behind every layer."""
    return chain(count, neuron=Sigmoid())


def fan(count: int) -> list[Layer]:
    """Make layers that all read one blob, and one that reads them all."""
    names = [f"ip{number}" for number in range(count)]
    both = [ip("below", "data"), ConcatLayer(name="all", bottoms=names, tops="all")]
    return [*inputs(3), *both, *(ip(name, "below") for name in names), ip("last", "all"), loss("last")]


def sharing(count: int) -> list[Layer]:
    """Make a chain of layers with the same parameters."""
    return chain(count, param_key="same")


def made(layers: Iterable[Layer], backend: str = "numpy", **options: Any) -> Net:
    return Net("net", layers, backend=backend, insert_splits=True, **options)


KINDS: dict[str, tuple[Callable[[int], list[Layer]], dict[str, Any]]] = {
    "chain": (chain, {}),
    "chain in phase test": (chain, {"phase": "test"}),
    "chain of which all is kept": (chain, {"keep": "all"}),
    "chain that is planned only": (chain, {"allocate": False}),
    "residual": (residual, {}),
    "images": (images, {}),
    "in place": (in_place, {}),
    "in-place neurons": (in_place_neurons, {}),
    "fan": (fan, {}),
    "sharing": (sharing, {}),
}

# Calls


def calls(work: Callable[[], object]) -> int:
    """Count the calls of functions, Python's and C's, that `work` makes; not those that clear away what was before."""
    profile = Profile()
    gc.disable()
    try:
        profile.runcall(work)
    finally:
        gc.enable()
    return sum(entry.callcount for entry in profile.getstats())


def growth(cost: Callable[[int], int], count: int) -> float:
    """Return how many times the cost twice as many layers have; what is made at the first time only does not count."""
    cost(10)
    return cost(2 * count) / cost(count)


EVERY_COMMIT = {("onednn", "images"), ("numpy", "chain"), ("numpy", "residual"), ("numpy", "sharing")}
SET_UPS = [
    pytest.param(kind, backend, count, marks=[pytest.mark.long] * (count > 125 or (backend, kind) not in EVERY_COMMIT))
    for kind in KINDS
    for backend in ("numpy", "onednn")
    for count in (125, 1000)
]


@pytest.mark.parametrize(("kind", "backend", "count"), SET_UPS)
def test_a_net_is_set_up_by_calls_in_proportion_to_its_layers(kind: str, backend: str, count: int) -> None:
    make, options = KINDS[kind]

    def cost(size: int) -> int:
        layers = make(size)
        return calls(lambda: made(layers, backend, **options))

    assert growth(cost, count) <= MOST


@pytest.mark.long
def test_a_thousand_layers_and_two_thousand() -> None:
    assert growth(lambda size: calls(lambda: made(chain(size))), 1000) <= MOST


def written(layers: Iterable[Layer]) -> Net:
    net = made(layers)
    for name in ("data", "label"):
        net.write(name, np.ones((2, 3)))
    return net


def solver(folder: Path, max_iter: int) -> Solver:
    return Solver(SGD(), max_iter=max_iter, regu_coef=0.1, callbacks=[Snapshot(every_n_iter=1, folder=str(folder))])


def uses(count: int, folder: Path) -> dict[str, Callable[[], object]]:
    """Return what is done with a net, in this order."""
    net = written(chain(count, weight_regu=L2()))
    path = folder / "net.toml"
    net_file = [path.write_text(f'{dumps(net)}\n[solver]\ntype = "SGD"\n', encoding="utf-8"), load(path)][1]
    return {
        "text": lambda: [str(net), net.summary().first_line()],
        "dot": lambda: dot(net.summary()),
        "svg": lambda: svg(net.summary()),
        "svg of blocks": lambda: svg(made(residual(count), allocate=False).summary()),
        "svg of a fan": lambda: svg(made(fan(count), allocate=False).summary()),
        "start": lambda: solver(folder / "unused", 1).start(net).shutdown(),
        "train": lambda: solver(folder / "snapshots", 1).solve(net),
        "resume": lambda: solver(folder / "snapshots", 2).solve(net, resume=folder / "snapshots"),
        "load": lambda: str(net.load(folder / "snapshots")),
        "derive": lambda: net.derive("test"),
        "predict": lambda: net.predict(np.ones((5, 3)), f"ip{count - 1}"),
        "freeze": lambda: net.freeze(*(f"ip{number}" for number in range(count // 2))),
        "write a net file": lambda: dumps(net),
        "read a net file": lambda: load(path),
        "make the net of a file": lambda: net_file.net(backend="numpy"),
        "explain": lambda: explain(net_file, net_file.net(backend="numpy", allocate=False)),
        "shut down": net.shutdown,
    }


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_a_net_is_used_by_calls_in_proportion_to_its_layers(count: int, tmp_path: Path) -> None:
    costs: list[dict[str, int]] = []
    for size in (10, count, 2 * count):
        folder = tmp_path / str(size)
        folder.mkdir()
        costs.append({name: calls(work) for name, work in uses(size, folder).items()})
    _, few, many = costs
    assert {name: many[name] / few[name] for name in few if many[name] > MOST * few[name]} == {}


def test_what_is_written_and_read_makes_as_many_calls_in_a_net_of_any_size() -> None:
    def cost(count: int) -> int:
        net = written(chain(count))
        net.forward()
        ends = np.ones((2, 3)), f"ip{count - 1}"
        return calls(lambda: [net.write("data", ends[0]), net.blob(ends[1]), net.fitted, net.count_losses()])

    assert cost(10) == cost(20) == cost(40)


def test_a_chain_deeper_than_pythons_stack() -> None:
    net = written(chain(2 * sys.getrecursionlimit()))
    net.forward()
    net.backward()
    assert np.isfinite(net.predict(np.ones((1, 3)))).all()


# The plan of memory


@dataclass(eq=False)
class Blob:
    """What lives for a while; `count` bytes."""

    first: float
    last: float
    pinned: bool
    count: int


def by_comparing_all(blobs: list[Blob]) -> tuple[dict[Blob, int], int]:
    """Lay out the largest first, each in the lowest gap of those it meets: each is compared with all before it."""
    placed: list[tuple[Blob, int, int]] = []
    for one in sorted(blobs, key=lambda blob: (-blob.count, blob.first)):
        size, place = -(-one.count // 64) * 64, 0
        for start, end in sorted((start, end) for other, start, end in placed if meet(one, other)):
            if start - place >= size:
                break
            place = max(place, end)
        placed.append((one, place, place + size))
    return {one: start for one, start, _ in placed}, max((end for *_, end in placed), default=0)


def meet(one: Blob, other: Blob) -> bool:
    return one.pinned or other.pinned or (one.first <= other.last and other.first <= one.last)


TIMES = st.integers(-1, 30).map(lambda number: number / 2)
BLOBS = st.lists(
    st.builds(
        lambda one, other, pinned, count: Blob(min(one, other), max(one, other), pinned == 0, count),
        TIMES,
        TIMES,
        st.integers(0, 9),
        st.integers(0, 400),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(BLOBS)
def test_a_plan_is_that_of_comparing_all_with_all(blobs: list[Blob]) -> None:
    places, total = lay_out(blobs, attrgetter("count"))
    assert (places, total) == by_comparing_all(blobs)
    shared = {
        one
        for one, other in permutations(blobs, 2)
        if places[one] < places[other] + other.count and places[other] < places[one] + one.count
    }
    assert sharers(places, attrgetter("count")) == {one for one in shared if one.count}
    times = [blob.first for blob in blobs if not blob.pinned] or [0]
    living = [sum(one.count for one in blobs if one.pinned or one.first <= time <= one.last) for time in times]
    assert most_at_once([(one, one.count) for one in blobs]) == max(living)


def long_lives(count: int) -> list[Blob]:
    """Make blobs as training has them: activations live to the end, gradients do not, and none is like another."""
    up = [Blob(number, 2 * count, False, 64 + 65 * (number * 7 % count)) for number in range(count)]
    down = [Blob(2 * count - number - 1, 2 * count - number, False, blob.count) for number, blob in enumerate(up)]
    return [*up, *down]


def short_lives(count: int) -> list[Blob]:
    """Make blobs as going forward has them, none of one size."""
    return [Blob(number, number + 1 + number % 3, False, 64 + 65 * (number * 7 % count)) for number in range(count)]


@pytest.mark.parametrize("lives", [long_lives, short_lives])
def test_blobs_are_laid_out_by_calls_in_proportion_to_them(lives: Callable[[int], list[Blob]]) -> None:
    def cost(count: int) -> int:
        blobs = lives(count)
        return calls(lambda: lay_out(blobs, attrgetter("count")))

    assert growth(cost, 1000) <= MOST
