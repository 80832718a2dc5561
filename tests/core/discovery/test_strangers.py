"""Installing, removing and re-ordering strangers' packages changes neither the bits nor the winners of a net."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nacre
from forging import trials
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


def outcome(folder: Path) -> dict[Any, Any]:
    """Return all that a net comes to: its bits, winners, names, files and errors."""
    file = load(folder / "net.toml")
    found: dict[Any, Any] = {}
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
    return found | winners()


def winners() -> dict[Any, Any]:
    """Return what every name, ending and default of nacre's means."""
    here = nacre.registry()
    found: dict[Any, Any] = {"auto": _first_usable(), "numpy": here.open("backend", "numpy")}
    for ending in endings():
        found[ending] = type(store_of(Path(f"x{ending}")))
    found["opened"] = {(kind, name): here.open(kind, name) for kind, names in OWN.items() for name in names}
    commands = [*COMMANDS, *OWN["command"]]
    found["commands"] = {name: app.get_command(app.make_context("nacre", ["layers"]), name) for name in commands}
    found["drawings"] = {name: type(drawing_for(Path(f"x.{name}"), {})) for name in OWN["drawing"]}
    found["defaults"] = {name: default_of(name) for name in OWN["default_of"]}
    found["component"] = type(make_component(Neuron, "ReLU")), type(make_component(nacre.Initializer, 0.5))
    found["usable"] = [one for one in backends() if one["distribution"] == "nacre"]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "net.toml").write_text(NET, encoding="utf-8")
    return folder


class Alone(dict[Any, Any]):
    """What the net comes to without strangers; hypothesis shows it with each failure, so that it is to be short."""

    def __repr__(self) -> str:
        return "Alone()"


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[Any, Any]:
    """Return what the net comes to where there is nothing but nacre."""
    with pytest.MonkeyPatch.context() as patch:
        use_registry(patch, Registry())
        return Alone(outcome(folder))


@settings(max_examples=trials(8, 40))
@given(strangers=STRANGERS, order=st.randoms(use_true_random=False))
def test_strangers_change_neither_bits_nor_winners(
    strangers: dict[str, list[Item]], order: Any, folder: Path, alone: dict[Any, Any]
) -> None:
    registry = Registry()
    names = list(strangers)
    order.shuffle(names)
    for name in names:
        install_plugin(registry, name, offers(strangers[name]))
    with pytest.MonkeyPatch.context() as patch:
        use_registry(patch, registry)
        assert outcome(folder) == alone


LIGHT = """
from nacre import hookimpl
print("imported")
class Harm:
    def __getattribute__(self, name):
        raise RuntimeError(name)
@hookimpl
def offer_layers():
    return {layer!r}
@hookimpl
def offer_kernels():
    return {kernel!r}
@hookimpl
def offer_backends():
    return {backend!r}
@hookimpl
def offer_commands():
    return {command!r}
@hookimpl
def offer_components():
    return {components!r}
{last}
"""
LAST = ["", "1 / 0", "raise SystemExit", "nacre_api = '99'", "nacre_api = 7", "offer_layers = None"]


def write(site: Path, name: str, items: Iterable[Item], last: str) -> None:
    """Write a stranger's package as pip leaves it; its module has the name of the folder."""
    module = f"{site.name}_{name.replace('-', '_')}"
    offered: dict[str, dict[Any, str]] = {}
    for kind, thing, value in offers(items):
        key = tuple(thing.rsplit("@", 1)) if kind == "kernel" else thing
        offered.setdefault(kind, {})[key] = value if isinstance(value, str) else f"{module}:Harm"
    plain = {kind: offered.pop(kind, {}) for kind in ("layer", "kernel", "backend", "command")}
    info = site / name / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[nacre.plugins]\nnacre-layers = {module}\n", encoding="utf-8")
    text = LIGHT.format(**plain, components=offered, last=last)
    (site / name / f"{module}.py").write_text(text, encoding="utf-8")


@settings(max_examples=trials(12, 60))
@given(
    strangers=st.dictionaries(
        st.sampled_from(["aaa", "nacre-layers", "nacre-fast", "zzz"]),
        st.tuples(st.lists(items(), max_size=12, unique=True), st.sampled_from(LAST)),
        max_size=3,
    ),
    seed=st.integers(0, 999),
)
def test_packages_that_come_go_and_change_places_win_no_name(
    strangers: dict[str, tuple[list[Item], str]],
    seed: int,
    alone: dict[Any, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """As they are found on `sys.path`, before or behind nacre's own."""
    site, order = tmp_path_factory.mktemp("site"), Random(seed)
    for name, (items, last) in strangers.items():
        write(site, name, items, last)
    modules, paths = {*sys.modules}, [*sys.path]
    installed = [str(site / name) for name in strangers]
    try:
        while True:
            order.shuffle(installed)
            cut = order.randint(0, len(installed))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "path", [*installed[:cut], *paths, *installed[cut:]])
                use_registry(patch, registry := Registry())
                found = {plugin.provenance.distribution for plugin in registry.plugins()}
                assert found == {"nacre", *(Path(place).name for place in installed)}
                meant = winners()
                assert meant == {key: alone[key] for key in meant}
            if not installed:
                break
            installed.pop()
    finally:
        for name in {*sys.modules} - modules:
            if name.startswith(site.name):
                del sys.modules[name]


@settings(max_examples=trials(50, 300))
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
