"""Installing, removing and re-ordering strangers' packages changes neither the bits nor the winners of a net."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nacre
from nacre import HostMemory, LayerState, Neuron
from nacre.cli.app import COMMANDS
from nacre.cli.app import nacre as app
from nacre.cli.commands.backends import backends
from nacre.cli.commands.explain import explain
from nacre.cli.pictures import drawing_for
from nacre.config import dumps, load
from nacre.discovery.registry import Registry
from nacre.fields.component import default_of, make_component
from nacre.net.records import endings, store_of
from nacre.protocols.backend import _first_usable
from nacre.snapshots.folder import load_snapshot, open_snapshot_store
from registries import install_plugin, use_registry

NET = """
[[layer]]
type = "RandomNormal"
name = "in"
tops = ["data"]
output_dims = [2, 6, 6]
batch_size = 4
[[layer]]
type = "Input"
name = "truth"
tops = ["label"]
batch_size = 4
[[layer]]
type = "Convolution"
name = "conv"
bottoms = ["data"]
tops = ["conv"]
n_filter = 3
kernel = 3
neuron = "ReLU"
[[layer]]
type = "Pooling"
name = "pool"
bottoms = ["conv"]
tops = ["pool"]
kernel = 2
stride = 2
pooling = "Max"
[[layer]]
type = "AbsVal"
name = "abs"
bottoms = ["pool"]
tops = ["abs"]
[[layer]]
type = "InnerProduct"
name = "ip"
bottoms = ["abs"]
tops = ["ip"]
output_dim = 3
weight_init = 0.1
weight_regu = "L1"
[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["ip", "label"]
[solver]
type = "SGD"
max_iter = 2
lr_policy = 0.1
regu_coef = 0.01
[[callback]]
type = "Snapshot"
folder = "snapshots"
every_n_iter = 2
"""
USED = {  # that the net uses, and what a stranger could put in their place
    "layer": ["RandomNormal", "Convolution", "Pooling", "AbsVal", "InnerProduct", "SoftmaxLoss", "ReLU", "Swirl"],
    "backend": ["numpy", "onednn", "auto", "swirl"],
    "neuron": ["ReLU", "AbsVal", "Identity", "InnerProduct", "Swirl"],
    "initializer": ["Constant", "Xavier", "ReLU"],
    "regularizer": ["L1", "L2"],
    "pooling": ["Max"],
    "solver": ["SGD"],
    "lr_policy": ["Fixed"],
    "callback": ["Snapshot"],
    "snapshot_store": ["HDF5", "Aside"],
    "store": ["HDF5", "NPY", "CSV", "Aside"],
    "layer_of": ["neuron", "initializer", "aaa"],
    "aaa": ["ReLU", "AbsVal"],
    "kernel": [
        f"{thing}@{backend}"
        for thing in (
            *(
                "Swirl",
                "zzz:Swirl",
                "AbsVal",
                "nacre:AbsVal",
                "Pooling",
                "Convolution",
                "InnerProduct",
                "RandomNormal",
                "Alias",
            ),
            *("neuron/ReLU", "neuron/nacre:ReLU", "regularizer/L1", "solver/SGD"),
        )
        for backend in ("numpy", "onednn", "swirl")
    ],
}
OWN = {kind: Registry().names(kind) for kind in Registry().kinds() if kind != "kernel"}
"""Every name that nacre offers, by kind."""
NAMES = {kind: [*USED.get(kind, ()), *OWN.get(kind, ())] for kind in {**USED, **OWN}}
TARGETS = ["test_strangers_that_is_nowhere:Thing", "nacre_layers.elementwise_that_is_not_there:X"]
ALIASES = {"layer": "nacre_layers:ActivationLayer", "neuron": "nacre_layers.neurons:ReLU"}


class Bad(Exception):
    """What a stranger's code does when it is touched."""


class Touched(type):
    """A class that does harm as soon as anybody looks at it, but for what every class has."""

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise Bad

    def __getattr__(cls, name: str) -> Any:
        raise Bad


class Harm(metaclass=Touched):
    """Offered for anything."""


class Wrong(LayerState):
    """A kernel that would change every bit."""

    @classmethod
    def supports(cls, layer: Any, inputs: Any) -> str | None:
        raise Bad

    def __init__(self, *_: Any) -> None:
        raise Bad


@dataclass(frozen=True)
class Item:
    kind: str
    name: str
    what: str
    """harm, wrong, alias or a target that cannot be imported."""


@st.composite
def items(draw: st.DrawFn) -> Item:
    kind = draw(st.sampled_from(sorted(NAMES)))
    what = draw(st.sampled_from(["harm", "wrong", "alias", *TARGETS]))
    return Item(kind, draw(st.sampled_from(NAMES[kind])), what)


# "aaa" comes before nacre in every order, "zzz" after it; "nacre-fast" begins as nacre does
STRANGERS = st.dictionaries(
    st.sampled_from(["aaa", "nacre-fast", "zzz"]), st.lists(items(), max_size=12, unique=True), max_size=3
)


def offers(items: Iterable[Item]) -> Iterator[tuple[str, str, object]]:
    """Yield what a stranger offers."""
    for item in items:
        alias = ALIASES.get(item.kind, "nacre_layers:PoolingLayer")
        value: Any = {"harm": Harm, "wrong": Wrong, "alias": alias}.get(item.what, item.what)
        yield item.kind, item.name, value


def outcome(folder: Path) -> dict[str, Any]:
    """Return all that a net comes to: its bits, winners, names, files and errors."""
    file = load(folder / "net.toml")
    found: dict[str, Any] = {"auto": _first_usable(), "numpy": nacre.registry().open("backend", "numpy")}
    with file.net("train", backend="numpy") as net:
        net.write("label", [0, 1, 2, 0])
        with file.solver(callbacks=[]).start(net) as training:
            training.run()
            found["choices"] = [
                (choice.thing, choice.ancestor, choice.why, choice.offer and choice.offer.target)
                for choice in (
                    *(op.choice for op in net.ops),
                    training.choice,
                    *(choice for _, choice in training.choices.values()),
                )
            ]
            snapshot = training.snapshot()
        found["bits"] = {name: array.tobytes() for name, array in sorted(snapshot.arrays.items())}
        found["state"] = {name: snapshot.state[name] for name in ("layers", "parts", "origins", "settings", "plan")}
        found["toml"] = dumps(net), dumps(file)
        explained = explain(file, net)
        for entry in (*explained["layers"], *explained["components"], explained["solver"]):
            entry.pop("not_enabled"), entry.pop("lost")
        found["explain"] = explained
    store = open_snapshot_store("HDF5")
    (folder / "saved.h5").write_bytes(store.encode(snapshot))
    found["loaded"] = load_snapshot(folder / "saved.h5").iteration
    for ending in endings():
        found[ending] = type(store_of(Path(f"x{ending}")))
    here = nacre.registry()
    found["opened"] = {(kind, name): here.open(kind, name) for kind, names in OWN.items() for name in names}
    found["commands"] = {name: app.get_command(app.make_context("nacre", ["layers"]), name) for name in COMMANDS}
    found["drawings"] = {name: type(drawing_for(folder / f"x.{name}", {})) for name in OWN["drawing"]}
    found["defaults"] = {name: default_of(name) for name in OWN["default_of"]}
    found["component"] = type(make_component(Neuron, "ReLU")), type(make_component(nacre.Initializer, 0.5))
    found["usable"] = [one for one in backends() if one["distribution"] == "nacre"]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "net.toml").write_text(NET, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Any]:
    """Return what the net comes to where there is nothing but nacre."""
    with pytest.MonkeyPatch.context() as patch:
        use_registry(patch, Registry())
        return outcome(folder)


@settings(max_examples=15)
@given(strangers=STRANGERS, order=st.randoms(use_true_random=False))
def test_strangers_change_neither_bits_nor_winners(
    strangers: dict[str, list[Item]], order: Any, folder: Path, alone: dict[str, Any]
) -> None:
    registry = Registry()
    names = list(strangers)
    order.shuffle(names)
    for name in names:
        install_plugin(registry, name, offers(strangers[name]))
    with pytest.MonkeyPatch.context() as patch:
        use_registry(patch, registry)
        assert outcome(folder) == alone


@settings(max_examples=100)
@example(
    strangers={"zzz": [Item("backend", "swirl", "harm"), Item("kernel", "acme:Swirl@swirl", "wrong")]}, order=Random(0)
)
@given(strangers=STRANGERS, order=st.randoms(use_true_random=False))
def test_strangers_change_nothing_for_another_stranger_who_is_called_by_the_whole_name(
    strangers: dict[str, list[Item]], order: Any
) -> None:
    class SwirlLayer:
        nacre_kind = "layer"

    class SwirlBackend(HostMemory):
        name, lineage = "swirl", ("swirl", "numpy")

    class Fast:
        pass

    class Own:
        pass

    registry = Registry(kernels=["fast"])
    order.shuffle(names := [*strangers, "acme", "fast"])
    known = {
        "acme": [("layer", "Swirl", SwirlLayer), ("backend", "swirl", SwirlBackend), ("kernel", "Swirl@swirl", Own)],
        "fast": [("kernel", "acme:Swirl@numpy", Fast)],
    }
    for name in names:
        install_plugin(registry, name, known.get(name) or offers(strangers[name]))
    assert registry.open("layer", "acme:Swirl") is SwirlLayer
    assert registry.open("backend", "acme:swirl") is SwirlBackend
    chosen = registry.choose(SwirlLayer, "layer", SwirlBackend.lineage, backend=SwirlBackend)
    assert chosen.kernel is Own
    elsewhere = registry.choose(SwirlLayer, "layer", ("numpy",), backend=registry.open("backend", "numpy"))
    assert elsewhere.kernel is Fast
