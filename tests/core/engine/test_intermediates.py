"""What a state keeps from forward to backward: declared, planned, shared by lifetime, and counted."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

from nacre import ContractError, InputLayer, Layer, LayerState, Names, Net, exactly
from nacre.engine.ops import Fixed
from small_layers import SquareLossLayer, check_gradients, fill

SIZE = 8 * 1000  # bytes of what a layer keeps


class KeepingLayer(Layer, can_do_bp=True):
    """y = x², with 2 x kept in an array of 1000 numbers: declared, or made by the state itself."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    declares: bool = True
    fault: str = ""


class KeepingState(LayerState, of=KeepingLayer, reads=""):
    """The state of `KeepingLayer`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.intermediates = [backend.blob((10, 100))] if layer.declares else []
        if layer.fault == "an array":
            self.intermediates = [np.zeros(3)]
        if layer.fault == "an alias":
            self.intermediates = [backend.alias(inputs[0])]
        if layer.fault == "tuples":
            self.blobs, self.intermediates = tuple(self.blobs), tuple(self.intermediates)  # type: ignore[assignment]

    def ready(self) -> None:
        self.kept = self.intermediates[0] if self.layer.declares else self.backend.empty((10, 100))

    def forward(self, inputs: list[Any]) -> None:
        self.kept.reshape(-1)[: inputs[0].size] = 2 * inputs[0].reshape(-1)
        np.multiply(inputs[0], inputs[0], out=self.blobs[0])
        if self.layer.fault == "intermediates[0] = ":
            self.intermediates[0] = inputs[0] * 2

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is not None:
            kept = self.kept.reshape(-1)[: diffs[0].size].reshape(diffs[0].shape)
            np.multiply(self.blobs_diff[0], kept, out=diffs[0])


def chain(count: int = 4, declares: bool = True, **options: Any) -> Net:
    layers: list[Layer] = [InputLayer(name="x0", tops=["x0"], shape=[6], batch_size=4)]
    for n in range(count):
        layers.append(KeepingLayer(name=f"x{n + 1}", bottoms=f"x{n}", tops=f"x{n + 1}", declares=declares))
    layers.append(SquareLossLayer(name="loss", bottoms=f"x{count}"))
    return Net("kept", layers, **{"backend": "numpy", "dtype": "float64", "input_gradients": ["x0"]} | options)


def test_a_net_that_goes_forward_shares_them() -> None:
    planned = chain(phase="test", allocate=False).summary().bytes
    without = chain(phase="test", declares=False, allocate=False).summary().bytes
    assert planned["blobs_unshared"] - without["blobs_unshared"] == 4 * SIZE
    assert planned["blobs_peak"] - without["blobs_peak"] == SIZE
    assert SIZE <= planned["blobs"] - without["blobs"] < SIZE + 200
    assert planned["own"] == without["own"] == 0


def test_a_net_that_learns_gives_each_layer_its_own() -> None:
    planned = chain(allocate=False).summary().bytes
    without = chain(declares=False, allocate=False).summary().bytes
    assert planned["blobs"] - without["blobs"] >= 4 * SIZE
    assert all(layer.bytes == SIZE + 8 * 24 for layer in chain(allocate=False).summary().layers[1:5])


def test_what_a_state_makes_itself_is_counted_once_it_is_made() -> None:
    with chain(declares=False) as net:
        summary = net.summary()
        assert summary.bytes["own"] == 4 * SIZE and "layers' own arrays 31.2 KiB" in str(summary)
        assert all(layer.bytes == SIZE + 8 * 24 for layer in summary.layers[1:5])
    with chain() as net:
        assert net.summary().bytes["own"] == 0


@pytest.mark.parametrize("options", [{}, {"keep": "all"}])
def test_the_numbers_are_the_same(options: Any) -> None:
    nets = [chain(declares=one, **options) for one in (True, False)]
    losses, gradients = [], []
    for net in nets:
        with net:
            fill(net, 3)
            losses.append([net.forward(), net.forward()])
            net.backward()
            once = net.gradient("x0").copy()
            net.backward()  # a second time after one forward
            gradients.append(net.gradient("x0").copy())
            assert np.array_equal(once, gradients[-1])
    assert losses[0] == losses[1] and np.array_equal(*gradients)
    with chain() as net:
        fill(net, 3)
        check_gradients(net, ("x0",))


def test_with_keep_all_nothing_is_shared() -> None:
    with chain(phase="test", keep="all") as net:
        arrays = [net.node_ops[f"x{n}"].state.intermediates[0] for n in range(1, 5)]
        assert not any(np.shares_memory(arrays[0], one) for one in arrays[1:])
        assert isinstance(net.node_ops["x1"].state.intermediates, Fixed)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            "an array",
            r"layer 'x1' \(Keeping\): KeepingState.intermediates has a ndarray, but must have only what backend",
        ),
        (
            "an alias",
            r"layer 'x1' \(Keeping\): KeepingState.intermediates has an alias, but must have only what backend",
        ),
        ("intermediates[0] = ", r"self.intermediates\[0\] = ... would put another array into the place of the net's"),
    ],
)
def test_what_cannot_be_an_intermediate(fault: str, message: str) -> None:
    layers = [
        InputLayer(name="x0", tops=["x0"], shape=[6], batch_size=4),
        KeepingLayer(name="x1", bottoms="x0", tops="x1", fault=fault),
    ]
    with pytest.raises(ContractError, match=message):
        run(layers)


def test_what_a_state_declares_may_stand_in_tuples() -> None:
    layers = [
        InputLayer(name="x0", tops=["x0"], shape=[6], batch_size=4),
        KeepingLayer(name="x1", bottoms="x0", tops="x1", fault="tuples"),
        SquareLossLayer(name="loss", bottoms="x1"),
    ]
    with Net("kept", layers, backend="numpy", dtype="float64", input_gradients=["x0"]) as net:
        fill(net, 3)
        check_gradients(net, ("x0",))


def run(layers: list[Layer]) -> None:
    with Net("kept", layers, backend="numpy") as net:
        net.write("x0", np.ones((4, 6)))
        net.forward()
