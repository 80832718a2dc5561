"""A layer has a version, and a kernel says for which one it is: it is left out where the two differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre
from nacre import InputLayer, Layer, LayerState, Names, Net, Neuron, Regularizer
from nacre_layers import ActivationLayer
from registries import NewRegistry


class TwiceLayer(Layer, version=2):
    bottoms: Names
    tops: Names


class TwiceState(LayerState, of=TwiceLayer):
    def __init__(self, layer: Any, backend: Any, inputs: Any, diffs: Any) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: Any) -> None:
        np.multiply(inputs[0], 2, out=self.blobs[0])

    def backward(self, inputs: Any, diffs: Any) -> None:
        pass


class OldKernel(TwiceState):
    """Says nothing, so it is for version 1."""


class NewKernel(TwiceState, version=2):
    pass


class NextKernel(TwiceState, version=3):
    pass


class Twice(Neuron, version=2):
    def forward(self, backend: Any, x: Any, y: Any) -> None:
        np.multiply(x, 2, out=y)

    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        np.multiply(dy, 2, out=dx)


@pytest.fixture(autouse=True)
def registry(new_registry: NewRegistry) -> None:
    new_registry()
    nacre.register(TwiceLayer)
    nacre.register(Twice)


@pytest.mark.parametrize("kernel", [OldKernel, NewKernel, NextKernel])
def test_a_kernel_for_another_version_is_declined(kernel: type[LayerState]) -> None:
    nacre.register_kernel(kernel, "Twice", "numpy")
    layers = [InputLayer(name="x", tops="x", shape=(3,)), TwiceLayer(name="twice", bottoms="x", tops="y")]
    with Net("twice", layers, backend="numpy") as net:
        op = net.node_ops["twice"]
        if kernel is NewKernel:
            assert type(op.state) is NewKernel
            return
        assert type(op.state) is TwiceState
        ((offer, why),) = op.choice.declined
        assert (offer.name, why) == ("Twice@numpy", f"computes version {kernel.nacre_version} of TwiceLayer, not 2")
        assert why in str(op.choice)


def test_a_neurons_kernel_is_asked_too() -> None:
    nacre.register_kernel(OldKernel, "neuron/Twice", "numpy")
    layers = [InputLayer(name="x", tops="x", shape=(3,)), ActivationLayer(bottoms="x", tops="y", neuron=Twice())]
    with Net("twice", layers, backend="numpy") as net:
        assert type(net.ops[-1].state) is not OldKernel


def test_a_version_is_inherited_and_1_unless_said() -> None:
    class OtherLayer(TwiceLayer):
        pass

    class Own(Regularizer):
        pass

    assert (TwiceLayer.nacre_version, OtherLayer.nacre_version, Own.nacre_version) == (2, 2, 1)
