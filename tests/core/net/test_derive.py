"""Nets derived from others: they share parameters, and have every option unless `Net.derive` says otherwise."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from nacre import Group, Layer, Net, NotFiniteError, Solver
from nacre_data import MemoryDataLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_parallel import LocalCommunicator
from nacre_solvers import BP, SGD, ValidationPerformance
from small_layers import PlainBackend

BACKEND = PlainBackend()


def classifier() -> list[Layer]:
    numbers = np.random.default_rng(0)
    arrays = [numbers.normal(size=(8, 3)), numbers.integers(0, 2, 8)]
    source: dict[str, Any] = {"tops": ["data", "label"], "data": arrays, "batch_size": 4}
    return [
        MemoryDataLayer(name="train", exclude=["validation", "predict"], **source),
        MemoryDataLayer(name="held-out", exclude=["train", "predict"], **source),
        InnerProductLayer(name="a", bottoms="data", tops="a", output_dim=3),
        InnerProductLayer(name="b", bottoms="a", tops="b", output_dim=2),
        SoftmaxLossLayer(name="loss", bottoms=["b", "label"], exclude="predict"),
        SoftmaxLayer(name="prob", bottoms="b", tops="prob", exclude="train"),
    ]


class Second(LocalCommunicator):
    """The second of two ranks, the other of which is never asked."""

    def __init__(self) -> None:
        super().__init__()
        self.rank, self.size = 1, 2


ANOTHER: dict[str, Any] = {
    "name": "another",
    "layers": classifier(),
    "backend": BACKEND,
    "phase": "train",
    "seed": 5,
    "dtype": "float64",
    "compute": "float64",
    "deterministic": True,
    "keep": ("a",),
    "input_gradients": ("data",),
    "insert_splits": True,
    "freeze": ["a"],
    "share": None,
    "plan": {"plain": {"of": "the training net"}},
    "pins": {"kernel:Pooling@numpy": "nacre-numba"},
    "kernels": ("nacre-numba",),
    "fallback": "error",
    "algorithm": BP(),
    "fitted": {"label": {"classes": ["cat", "dog"]}},
    "initialise": False,
    "allocate": False,
    "rank": 1,
    "ranks": 2,
    "communicator": Second(),
    "group": Group(Second(), 1, 2),
    "partition_dim": 0,
}
"""For each argument of a net a value that is not the default's, or of no matter."""

OWN = {"name", "layers", "phase", "keep", "input_gradients", "share", "plan", "initialise"}
"""What is not handed on as it is: `derive` says so."""


def given_to_nets(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let what nets are made with be written down."""
    made: list[dict[str, Any]] = []
    make = Net.__init__

    def init(self: Net, *args: Any, **options: Any) -> None:
        bound = inspect.signature(make).bind(self, *args, **options)
        bound.apply_defaults()
        made.append({name: value for name, value in bound.arguments.items() if name != "self"})
        make(self, *args, **options)

    monkeypatch.setattr(Net, "__init__", init)
    return made


def check_handed_on(derived: dict[str, Any], net: Net) -> None:
    assert set(derived) == set(ANOTHER), "a new argument of Net: say here and in Net.derive whether it is handed on"
    assert {name: derived[name] for name in derived if name not in OWN} == {
        name: value for name, value in ANOTHER.items() if name not in OWN
    }
    assert derived["share"] is net


def test_every_option_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(**ANOTHER)
    made = given_to_nets(monkeypatch)
    derived = net.derive("validation")
    check_handed_on(made[-1], net)
    assert (derived.name, derived.phase, derived.layers) == ("another (validation)", "validation", net.layers)
    for name, default in (("keep", ()), ("input_gradients", ()), ("plan", None), ("initialise", True)):
        assert made[-1][name] == default


def test_options_that_are_given_win(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(**ANOTHER)
    made = given_to_nets(monkeypatch)
    sources = [layer for layer in net.layers if layer.is_source]
    derived = net.derive("validation", sources, name="sources", keep=("data",), seed=7)
    assert (derived.name, derived.layers, derived.seed) == ("sources", tuple(sources), 7)
    assert made[-1]["keep"] == ("data",)
    assert made[-1]["freeze"] == [], "only layers that are there are named"


def test_predict_and_validation_derive_their_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(**{**ANOTHER, "allocate": True, "fallback": "warn", "pins": {}, "freeze": (), "communicator": None})
    made = given_to_nets(monkeypatch)
    net.predict(np.zeros((2, 3)), "prob")
    Solver(SGD(), max_iter=1, callbacks=[ValidationPerformance(every_n_iter=1)]).solve(net)
    assert [one["phase"] for one in made] == ["predict", "validation"]
    for one in made:
        assert one["deterministic"]
        assert one["share"] is net
        assert {name: one[name] for name in ("seed", "dtype", "compute", "insert_splits")} == {
            name: ANOTHER[name] for name in ("seed", "dtype", "compute", "insert_splits")
        }


def test_parameters_are_shared() -> None:
    net = Net("net", classifier(), backend="numpy")
    derived = net.derive("validation")
    assert {name: handle.storage for name, handle in derived.parameters.items()} == {
        name: handle.storage for name, handle in net.parameters.items()
    }


def test_a_derived_net_is_watched_as_its_own_is() -> None:
    net = Net("net", classifier(), backend="numpy")
    net.find_nan()
    net.parameters["b/bias"].value = [np.nan, 0]
    with net.derive("validation") as derived, pytest.raises(NotFiniteError, match=r"layer 'b'.*writes the first"):
        derived.forward()
