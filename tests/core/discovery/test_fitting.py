"""What is offered is checked when it is opened: its kind, its methods, and the name that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pytest

from nacre import Backend, HostMemory, Identity, Layer, LrPolicy, Names, PluginError, open_backend
from nacre.discovery.registry import Registry
from nacre.fields.component import Component
from nacre_layers import AbsValLayer, PoolingLayer
from nacre_layers.initializers import Constant
from nacre_layers.neurons import ReLU
from registries import NewRegistry, install_plugin


def problem(kind: str, name: str, thing: object) -> str:
    """Return the error of a stranger's offer that is opened."""
    registry = Registry(discover=False)
    install_plugin(registry, "acme", [(kind, name, thing)])
    with pytest.raises(PluginError) as caught:
        registry.open(kind, name)
    assert "pip uninstall acme, or set NACRE_DISABLE_PLUGINS=acme" in caught.value.remedy
    message = str(caught.value.args[0])
    assert message.startswith(f"{kind} '{name}' of acme 1.0 cannot be opened: ")
    return message


class Plain:
    """A class of no kind."""


class BareLayer(Layer):
    bottoms: Names


class Quiet(Component, kind="neuron"):
    """Derived from another class than Neuron, but of its kind."""


class Half(LrPolicy):
    """A policy that forgets its rate."""


class OddlyNamed(HostMemory):
    name, lineage = "odly", ("odly",)


class OddLineage(HostMemory):
    name, lineage = "odd", ("numpy",)


class Bare(Backend):
    name, lineage = "odd", ("odd",)


class HalfStore:
    """A store of snapshots that cannot read."""

    suffix = ".half"

    def encode(self, snapshot: object) -> bytes:
        return b""


def with_arguments(net: str, verbose: bool = False) -> None: ...


@pytest.mark.parametrize(
    ("kind", "name", "thing", "words"),
    [
        ("layer", "Plain", Plain, "Plain is a plain class, but a layer is a subclass of nacre.Layer"),
        ("layer", "ReLU", ReLU, "ReLU is of the kind neuron, and no subclass of nacre.Layer"),
        ("layer", "Bare", BareLayer, "BareLayer has no state: no class declares of=BareLayer, and it does not define"),
        ("neuron", "AbsVal", AbsValLayer, "AbsValLayer is of the kind layer, and no subclass of nacre.Neuron"),
        ("neuron", "Plain", Plain, "Plain is a plain class, but a neuron is a subclass of nacre.Neuron"),
        ("lr_policy", "Half", Half, "Half does not define rate, but an lr policy must"),
        ("callback", "Plain", Plain, "Plain is a plain class, but a callback is a subclass of nacre.Callback"),
        ("layer_of", "neuron", ReLU, "ReLU is of the kind neuron, and no subclass of nacre.Layer"),
        ("number_of", "neuron", Constant, "Constant is of the kind initializer, and no subclass of nacre.Neuron"),
        ("my_kind", "Pool", PoolingLayer, "PoolingLayer is of the kind layer"),
        ("snapshot_store", "Half", HalfStore, "HalfStore does not define decode, but a snapshot store must"),
        ("backend", "odd", Bare, "Bare does not define empty and to_host and from_host, but a backend must"),
        ("backend", "odd", OddlyNamed, "OddlyNamed has name='odly', but it is offered as 'odd'"),
        ("backend", "odd", OddLineage, "lineage=('numpy',), but it must begin with its name, 'odd'"),
        ("command", "serve", Plain, "must be a click command, but is <class "),
        ("command", "serve", with_arguments, "needs arguments (net), so it must be a click command"),
    ],
)
def test_what_is_not_what_it_is_offered_as_is_told(kind: str, name: str, thing: object, words: str) -> None:
    told = problem(kind, name, thing)
    assert words in told
    assert ".py" in told  # the file of the class


class Warm(LrPolicy):
    """A policy that makes another one for each training."""

    def start(self, training: object) -> Any:
        return self


@pytest.mark.parametrize(
    ("kind", "name", "thing"),
    [
        ("neuron", "Identity", Identity),
        ("lr_policy", "Warm", Warm),
        ("layer_of", "neuron", AbsValLayer),
        ("number_of", "initializer", Constant),
        ("default_of", "my_task", Warm),
        ("my_kind", "Plain", Plain),
        ("command", "serve", click.Command("serve")),
        ("command", "serve", lambda: None),
        ("command", "serve", lambda *rest, **options: None),
    ],
)
def test_what_fits_is_opened(kind: str, name: str, thing: object) -> None:
    registry = Registry(discover=False)
    install_plugin(registry, "acme", [(kind, name, thing)])
    assert registry.open(kind, name) is thing


def dirty(shape: Any, dtype: str) -> Any:
    array = HostMemory.shared().empty(shape, dtype)
    array[-1] = 3
    return array


def flat(shape: Any, dtype: str) -> Any:
    return HostMemory.shared().empty((shape[0] * shape[1],), dtype)


@pytest.mark.parametrize(("make", "words"), [(dirty, "with other numbers than 0"), (flat, "of shape (35,)")])
def test_a_backend_whose_arrays_are_not_zero_is_not_opened(
    new_registry: NewRegistry, make: Callable[..., Any], words: str
) -> None:
    class Dirty(HostMemory):
        name, lineage = "dirty", ("dirty",)

        def empty(self, shape: Any, dtype: str) -> Any:
            return make(shape, dtype)

    new_registry().register(Dirty, "dirty", distribution="acme")
    with pytest.raises(PluginError, match=r"backend 'dirty' of acme: empty\(\(7, 5\), 'float32'\) ret") as caught:
        open_backend("dirty")
    assert words in str(caught.value)


def test_a_broken_class_is_no_bug_in_nacre(new_registry: NewRegistry) -> None:
    new_registry().register(Plain, "Softsign", "neuron", "acme")
    with pytest.raises(Exception, match="neuron 'Softsign' of acme cannot be opened: Plain is a plain class") as caught:
        PoolingLayer(bottoms="a", tops="b", neuron="Softsign")
    assert "test_fitting.py" in str(caught.value)
