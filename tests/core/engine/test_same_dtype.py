"""A kernel that reads floating bottoms as the net's type is left out where one has another type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre
from nacre import InputLayer, Layer, LayerState, Names, Net
from registries import NewRegistry


class MeanLayer(Layer):
    bottoms: Names
    tops: Names


class MeanState(LayerState, of=MeanLayer):
    def __init__(self, layer: Any, backend: Any, inputs: Any, diffs: Any) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((inputs[0].shape[0],))]

    def forward(self, inputs: Any) -> None:
        np.mean(inputs[0], axis=1, out=self.blobs[0])

    def backward(self, inputs: Any, diffs: Any) -> None:
        pass


class FastKernel(MeanState, dtypes=("float32", "float64"), on_plain=True):
    same_dtype = True


class AnyKernel(FastKernel):
    same_dtype = False


@pytest.mark.parametrize("kernel", [FastKernel, AnyKernel])
def test_a_kernel_is_left_out_where_a_floating_bottom_is_not_of_the_nets_type(
    new_registry: NewRegistry, kernel: type[LayerState]
) -> None:
    new_registry()
    nacre.register(MeanLayer)
    nacre.register_kernel(kernel, "Mean", "numpy")
    for dtype, fits in (("", True), ("float32", True), ("int64", True), ("float64", kernel is AnyKernel)):
        layers = [InputLayer(tops="x", shape=(3,), batch_size=2, dtype=dtype), MeanLayer(bottoms="x", tops="y")]
        with Net("mean", layers, backend="numpy", dtype="float32") as net:
            choice = net.ops[-1].choice
            assert (choice.kernel is kernel) == fits
            assert fits or "serves floating bottoms of the net's type, float32, not float64" in str(choice)
