"""Kernels of other packages on onednn: plain Python between the recorded runs, or functions in C within them."""

from __future__ import annotations

import ctypes
from typing import Annotated, Any

import numpy as np
import pytest

from helper_calls import without_helper
from nacre import InputLayer, Layer, LayerState, Names, Net, exactly, register, register_kernel
from nacre_layers import InnerProductLayer, SumLossLayer
from nacre_onednn import record
from nacre_onednn.backend import OnednnBackend

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)


class PairLayer(Layer, can_do_bp=True):
    bottoms: Annotated[Names, exactly(2), "two blobs"]
    tops: Annotated[Names, exactly(1), "their product"]


class PairState(LayerState, of=PairLayer):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: list[Any]) -> None:
        raise AssertionError("the kernel should run")

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        raise AssertionError("the kernel should run")


class Product(ctypes.Structure):
    _fields_ = (("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("top", ctypes.c_void_p))


def floats(address: int, size: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))


WORKERS: set[int] = set()


@record.FUNCTION
def multiply(arguments: int, start: int, stop: int, worker: int) -> None:
    """Stand for a function in C."""
    product = Product.from_address(arguments)
    x, y, top = (floats(getattr(product, name), stop) for name in ("x", "y", "top"))
    np.multiply(x[start:], y[start:], out=top[start:])
    WORKERS.add(worker)


class PlainKernel(LayerState, on_plain=True, dtypes=("float32",)):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: list[Any]) -> None:
        np.multiply(inputs[0].memory, inputs[1].memory, out=self.blobs[0].memory)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for dx, other in zip(diffs, inputs[::-1], strict=True):
            if dx is not None:
                np.multiply(self.blobs_diff[0].memory, other.memory, out=dx.memory)


class SharingKernel(PlainKernel, capturable=True):
    def forward(self, inputs: list[Any]) -> None:
        addresses = [one.memory.ctypes.data for one in (*inputs, self.blobs[0])]
        self.backend.backend.share(multiply, Product(*addresses), inputs[0].size, unit=16)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for dx, other in zip(diffs, inputs[::-1], strict=True):
            if dx is not None:
                addresses = [one.memory.ctypes.data for one in (self.blobs_diff[0], other, dx)]
                self.backend.backend.share(multiply, Product(*addresses), dx.size, unit=16)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("kernel", [PlainKernel, SharingKernel])
def test_it_runs_in_every_pass(
    kernel: type[LayerState], native: bool, new_registry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_registry()
    register(PairLayer)
    register_kernel(kernel, "Pair", "onednn")
    if not native:
        without_helper(monkeypatch)
    WORKERS.clear()
    layers: list[Layer] = [
        InputLayer(name="in", tops="x", shape=(5, 8), batch_size=13),
        InnerProductLayer(name="one", bottoms="x", tops="a", output_dim=8, axis=-1),
        InnerProductLayer(name="other", bottoms="x", tops="b", output_dim=8, axis=-1),
        PairLayer(name="both", bottoms=["a", "b"], tops="y"),
        SumLossLayer(name="loss", bottoms="y"),
    ]
    with Net("n", layers, backend="onednn", keep="all", insert_splits=True, input_gradients=["x"]) as net:
        assert isinstance(net.ops[3].state, kernel)
        for seed in range(3):
            net.write("x", np.random.default_rng(seed).normal(size=(13, 5, 8)))
            net.forward()
            net.backward()
            a, b = net.blob("a"), net.blob("b")
            np.testing.assert_allclose(net.blob("y"), a * b, rtol=1e-6)
            weights = [net.parameters[f"{name}/weight"].value for name in ("one", "other")]
            np.testing.assert_allclose(net.gradient("x"), b @ weights[0] + a @ weights[1], atol=1e-5)
    threads = net.backend.threads if native else 1
    assert {*range(0 if kernel is PlainKernel else threads)} == WORKERS
