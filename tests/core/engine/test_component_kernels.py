"""Kernels for components of somebody's own kind, which the layer's state finds by `backend.kernel`."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

from nacre import (
    Component,
    ComponentKernel,
    InputLayer,
    Layer,
    LayerState,
    NacreError,
    Names,
    Net,
    Solver,
    default,
    exactly,
)
from nacre.cli.commands.explain import explain
from nacre.config import load
from nacre_layers import InnerProductLayer, SquareLossLayer
from nacre_solvers import SGD
from registries import NewRegistry, install_plugin


class Similarity(Component, kind="similarity"):
    """How alike two rows are."""

    def of(self, xp: Any, squares: Any, out: Any) -> None:
        """Write the similarities into `out`."""
        raise NotImplementedError


class Gauss(Similarity):
    """exp(-d²)."""

    def of(self, xp: Any, squares: Any, out: Any) -> None:
        xp.exp(-squares, out=out)


class GaussKernel(ComponentKernel):
    """Says -1, so that it shows."""

    @classmethod
    def supports(cls, component: Any, inputs: list[Any]) -> str | None:
        return "only for rows of 3 numbers" if inputs and inputs[0].shape[1] != 3 else None

    def of(self, xp: Any, squares: Any, out: Any) -> None:
        assert type(self.component) is Gauss and self.backend.xp is xp
        out[...] = -1


class FailingKernel(GaussKernel):
    """Fails."""

    def of(self, xp: Any, squares: Any, out: Any) -> None:
        raise FloatingPointError("overflow")


class AlikeLayer(Layer):
    """How alike the rows of two bottoms are."""

    bottoms: Annotated[Names, exactly(2)]
    tops: Annotated[Names, exactly(1)]
    similarity: Annotated[Similarity, "how it is measured"] = default("Gauss")


class AlikeState(LayerState, of=AlikeLayer):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape[:1])]
        self.similarity = backend.kernel(layer.similarity, inputs)

    def forward(self, inputs: list[Any]) -> None:
        squares = ((inputs[0] - inputs[1]) ** 2).sum(axis=1)
        self.similarity.of(self.backend.xp, squares, self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing."""


OFFERS: list[tuple[str, str, object]] = [("layer", "Alike", AlikeLayer), ("similarity", "Gauss", Gauss)]
KEY = "similarity/Gauss@numpy"


def net(width: int = 3, **options: Any) -> Net:
    layers = [InputLayer(name=name, tops=[name], shape=[width], batch_size=2) for name in "ab"]
    return Net("n", [*layers, AlikeLayer(name="alike", bottoms=["a", "b"], tops="y")], backend="numpy", **options)


def answer(made: Net) -> list[float]:
    for name in "ab":
        made.write(name, np.ones(made.node_ops["a"].outputs[0].shape))
    made.forward()
    return list(made.blob("y"))


def test_the_owners_kernel_is_found_by_the_layer(new_registry: NewRegistry) -> None:
    install_plugin(new_registry(), "alike", [*OFFERS, ("kernel", KEY, GaussKernel)])
    with net() as made:
        assert answer(made) == [-1, -1]
        component, choice = made.working()["similarity.alike"]
        assert type(component) is Gauss and choice is not None and choice.kernel is GaussKernel
    with net(4) as made:  # the kernel declines
        assert answer(made) == [1, 1]


def test_a_strangers_kernel_needs_to_be_enabled(new_registry: NewRegistry) -> None:
    registry = new_registry()
    install_plugin(registry, "alike", OFFERS)
    install_plugin(registry, "fast", [("kernel", KEY, GaussKernel)])
    with net() as made:
        assert answer(made) == [1, 1]
    with net(kernels=["fast"]) as made:
        assert answer(made) == [-1, -1]
    with net(pins={f"kernel:{KEY}": "fast"}) as made:
        assert answer(made) == [-1, -1]


def test_what_it_raises_is_told_of_it(new_registry: NewRegistry) -> None:
    install_plugin(new_registry(), "alike", [*OFFERS, ("kernel", KEY, FailingKernel)])
    with net() as made, pytest.raises(NacreError) as caught:
        answer(made)
    assert str(caught.value).startswith("similarity 'Gauss': its kernel FailingKernel of alike 1.0: of raised Floating")
    assert "do not use its kernels" in caught.value.remedy


def test_explain_and_snapshots_name_it(new_registry: NewRegistry, tmp_path: Any) -> None:
    install_plugin(new_registry(), "alike", [*OFFERS, ("kernel", KEY, GaussKernel)])
    (tmp_path / "net.toml").write_text(
        '[[layer]]\ntype = "Input"\nname = "a"\ntops = ["a"]\nshape = [3]\nbatch_size = 2\n'
        '[[layer]]\ntype = "Input"\nname = "b"\ntops = ["b"]\nshape = [3]\nbatch_size = 2\n'
        '[[layer]]\ntype = "Alike"\nname = "alike"\nbottoms = ["a", "b"]\ntops = ["y"]\n'
    )
    file = load(tmp_path / "net.toml")
    with file.net("train", backend="numpy") as made:
        (entry,) = explain(file, made)["components"]
    assert (entry["name"], entry["type"], entry["from"]) == ("similarity.alike", "Gauss", "alike 1.0")
    layers: list[Layer] = [InputLayer(name=name, tops=[name], shape=[3], batch_size=2) for name in "ab"]
    layers += [
        InnerProductLayer(name="ip", bottoms="a", tops="p", output_dim=3),
        AlikeLayer(name="alike", bottoms=["a", "b"], tops="y"),
        SquareLossLayer(name="loss", bottoms=["p", "b"]),
    ]
    with Net("n", layers, backend="numpy") as made:
        for name in "ab":
            made.write(name, np.ones((2, 3)))
        training = Solver(SGD(), max_iter=1).solve(made, quiet=True)
        assert training.snapshot().state["parts"]["similarity.alike"]["kernel_distribution"] == "alike"
